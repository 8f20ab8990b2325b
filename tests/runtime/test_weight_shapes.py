"""A compact model whose settings or arrays are impossible is an error of one line."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.runtime import CompactRanker
from dssm_tf.runtime.weight_shapes import tower_problem, tower_shapes


@pytest.fixture
def changed(directory, tmp_path):
    """Changes the settings or the arrays of a compact model, with fitting checksums."""

    def changed(settings=None, arrays=None):
        copy = shutil.copytree(directory, tmp_path / "copy")
        path = copy / "compact.json"
        values = json.loads(path.read_text())
        for key, value in (settings or {}).items():
            section = values
            *parents, last = key.split(".")
            for parent in parents:
                section = section[parent]
            section[last] = value
        path.write_text(json.dumps(values))
        with np.load(copy / "weights.npz") as archive:
            weights = dict(archive)
        for name, change in (arrays or {}).items():
            array = change(weights.pop(name, None))
            if array is not None:
                weights[name] = array
        np.savez(copy / "weights.npz", **weights)
        (copy / CHECKSUMS).unlink()
        write_checksums(copy, files_in(copy))
        return copy

    return changed


def refused(copy) -> str:
    with pytest.raises(UserError) as caught:
        CompactRanker.load(copy)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tower.cells": 5}, "hashing/kernel is of shape"),
        ({"tower.cells": -4}, "tower.cells is -4; expected a whole number, at least 1"),
        ({"tower.cells": 1 << 60}, "tower.cells is 1152921504606846976"),
        ({"tower.cells": True}, "tower.cells is True"),
        ({"tower.forget_gate": 1}, "tower.forget_gate is 1; expected true or false"),
        ({"tower": {"name": "clsm", "window": 2, "features": 1}}, "tower.window is 2"),
        ({"tower": {"name": "dssm", "widths": []}}, r"tower.widths is []"),
        ({"tower": {"name": ["lstm"]}}, "expected one of"),
        ({"rules.max_words": 1 << 60}, "max_words is 1152921504606846976"),
        ({"rules.max_words": "6"}, "max_words is '6'"),
        ({"rules.hash_buckets": 8}, "hashing/kernel is of shape"),
        ({"score": ["cosine"]}, "score is ['cosine']"),
    ],
)
def test_an_impossible_setting_is_one_line(changed, settings, message):
    assert message in refused(changed(settings))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("query_tower/recurrence/bias", lambda a: None, "no array query_tower/recurrence/bias"),
        ("query_tower/recurrence/bias", lambda a: a[:-1], "is of shape (15,); expected (16,)"),
        ("query_tower/recurrence/bias", lambda a: a * np.nan, "a number that is not finite"),
        ("query_tower/hashing/kernel", lambda a: a[:-1], "hashing/kernel is of shape"),
        ("query_tower/hashing/kernel", lambda a: a.astype(np.int8), "query_tower/hashing/scale"),
        ("title_tower/hashing/scale", lambda a: np.ones((1, 1), "f4"), "which this model does not"),
        ("title_tower/recurrence/bias", lambda a: a.astype(np.int64), "is int64; expected floats"),
        ("title_tower/recurrence/bias", lambda a: a.astype(object), "is not an archive of arrays"),
    ],
)
def test_an_impossible_array_is_one_line(changed, name, change, message):
    assert message in refused(changed(arrays={name: change}))


def test_a_large_word_limit_takes_no_memory(changed):
    ranker = CompactRanker.load(changed({"rules.max_words": 1 << 52}))
    assert ranker.encode_titles(["red fox"]).shape == (1, 4)


def test_shapes_are_those_of_the_equations():
    lstm = {"name": "lstm", "cells": 3, "peepholes": True, "forget_gate": False}
    assert tower_problem(lstm) is None
    # Without a forget gate: output gate, input gate, candidate. The candidate has no peephole.
    assert tower_shapes(lstm, 10) == {
        "hashing/kernel": (10, 9), "recurrence/recurrent_kernel": (3, 9),
        "recurrence/bias": (9,), "recurrence/peephole_kernel": (2, 3),
    }  # fmt: skip
    clsm = {"name": "clsm", "window": 3, "features": 4, "widths": [5, 2]}
    assert tower_shapes(clsm, 7) == {
        "hashing/kernel": (7, 12), "convolution/padding_word": (2, 4),
        "semantic_1/kernel": (4, 5), "semantic_2/kernel": (5, 2),
    }  # fmt: skip

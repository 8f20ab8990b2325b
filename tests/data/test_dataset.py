"""A pass over the records: complete, in a reproducible order, cut among workers, weighed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import Title
from tests.clicks import (
    ALPHA,
    Click,
    ClickExample,
    Data,
    Row,
    click_log,
    read_examples,
    rows_of,
    text_of,
    write_data,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Data:
    return write_data(tmp_path_factory.mktemp("dataset") / "data", click_log(), shards=3)


@pytest.fixture(scope="module")
def records(data) -> list[dict[str, list]]:
    """The training records in the order of the files, read without TensorFlow.

    `clicked_ids` are those that `write_data` knows from the log.
    """
    found = [one for path in sorted(data.path.glob("train-*")) for one in read_examples(path)]
    for one, example in zip(found, data.examples["train"], strict=True):
        one["clicked_ids"] = example.clicked_ids
    return found


def batches(data: Data, split="train", **options) -> ClickBatches:
    return ClickBatches(
        Preprocessed(data.path), (split,), BatchOptions(**({"batch_size": 8} | options))
    )


def steps(dataset: Iterable) -> list[list[Row]]:
    return [rows_of(*element) for element in dataset]


def real(rows: Iterable[list[Row]]) -> list[tuple]:
    """(query, clicked title) of every row that counts."""
    return [(row.query, row.clicked) for step in rows for row in step if row.weight > 0]


def pairs(records) -> list[tuple]:
    return [(text_of(one, "query"), text_of(one, "title")) for one in records]


def test_a_pass_without_a_seed_keeps_the_order_of_the_files(data, records):
    one = batches(data)
    found = steps(one.epoch())
    # 41 records in steps of 8: five full ones and one row in the sixth.
    assert data.spec.records["train"] == 41
    assert one.steps == len(found) == 6
    assert real(found) == pairs(records)
    assert [len(step) for step in found] == [8] * 6


@pytest.mark.parametrize("shuffle_buffer", [1, 5])
def test_a_shuffled_pass_holds_every_record_once(data, records, shuffle_buffer):
    found = real(steps(batches(data, shuffle_buffer=shuffle_buffer).epoch(seed=3)))
    assert Counter(found) == Counter(pairs(records))
    assert (found == pairs(records)) == (shuffle_buffer == 1)


def test_the_seed_and_the_number_of_an_epoch_decide_its_order(data, records):
    one, again = batches(data), batches(data)
    count = one.steps
    found = steps(one.epochs(seed=1, start=0, stop=3))
    epochs = [real(found[i * count : (i + 1) * count]) for i in range(3)]
    assert all(Counter(epoch) == Counter(pairs(records)) for epoch in epochs)
    assert all(a != b for a, b in pairwise(epochs))
    # Gone on with at epoch 1, by another process as it were, the rest is the same.
    assert steps(again.epochs(seed=1, start=1, stop=3)) == found[count:]
    assert real(steps(one.epochs(seed=2, start=0, stop=1))) != epochs[0]


def test_batches_of_a_pass_equal_the_rules_in_plain_python(data, records):
    found = steps(batches(data, negatives=2).epoch())
    for number, step in enumerate(found):
        mine = records[8 * number : 8 * number + 8]
        clicked = Counter((one["title_ids"][0], text_of(one, "title")) for one in mine)
        for row, one in zip(step, mine, strict=False):
            rivals: Counter = Counter(text_of(one, "title", i) for i in (1, 2))
            for (identity, words), times in clicked.items():
                if identity not in one["clicked_ids"]:
                    rivals[words] += times
            assert row.rivals == {key: approx(value, rel=1e-5) for key, value in rivals.items()}


def test_a_title_as_its_own_query_does_not_rival_itself_in_another_row(data):
    asked = [("red fox", "red fox"), ("red owl", "red owl"), ("never asked", "red fox")]
    extra = [
        ClickExample(query, [Title(title, 2, 1)], 1.0, []).serialize(data.vocabulary)
        for query, title in asked
    ]
    one = replace(batches(data, batch_size=3), extra=extra)
    fox, owl, third = steps(one.epoch())[0]
    assert fox.clicked == third.clicked
    assert set(fox.rivals) == {owl.clicked}
    assert set(owl.rivals) == {fox.clicked}
    assert fox.clicked not in third.rivals


def test_rows_that_fill_the_last_batch_weigh_nothing_and_rival_nobody(data, records):
    last = steps(batches(data).epoch())[-1]
    assert [row.weight > 0 for row in last] == [True] + [False] * 7
    # Alone in its step, the last record has its recorded negatives and no other rival.
    own = {text_of(records[-1], "title", i) for i in range(1, 5)}
    assert set(last[0].rivals) == own


@pytest.mark.parametrize(
    ("click_weight", "weight"),
    [
        ("none", lambda clicks: 1.0),
        ("log", lambda clicks: 1 + math.log(clicks)),
        ("linear", lambda clicks: clicks),
    ],
)
def test_clicks_weigh_as_configured_with_mean_one(data, records, click_weight, weight):
    found = [row.weight for step in steps(batches(data, click_weight=click_weight).epoch())
             for row in step]  # fmt: skip
    assert np.mean(found) == approx(1)
    raw = [weight(one["clicks"][0]) for one in records]
    assert np.divide(found[: len(raw)], found[0]) == approx(np.divide(raw, raw[0]))
    assert not any(found[len(raw) :])


def test_the_logq_correction_is_the_log_of_the_expected_draws(data, records):
    j, size, strength = 2, 8, 0.7
    found = steps(batches(data, negatives=j, logq=strength, batch_size=size).epoch())
    titles = [one.split("\t") for one in data.titles]
    # Recorded: j draws of the clicked titles, in proportion to clicks^alpha.
    total = sum(int(clicks) ** ALPHA for _, clicks, _ in titles if int(clicks))
    # In-batch: a row's title is this one for its share of the training pairs.
    share = size / data.spec.pairs

    def expected(one, position):
        clicks, queries = (one[name][position] for name in ("title_clicks", "title_queries"))
        return share * max(queries, 0.5) + j * max(clicks, 0.5) ** ALPHA / total

    for row, one in zip(found[0], records, strict=False):
        assert row.positive == approx(expected(one, 0) ** -strength, rel=1e-5)
    clicked = Counter((one["title_ids"][0], text_of(one, "title")) for one in records[:size])
    by_id = {one["title_ids"][0]: one for one in records[:size]}
    for row, one in zip(found[0], records, strict=False):
        wanted: Counter = Counter()
        for position in range(1, 1 + j):
            draws = expected(one, position)
            wanted[text_of(one, "title", position)] += draws**-strength
        for (identity, words), times in clicked.items():
            if identity not in one["clicked_ids"]:
                wanted[words] += times * expected(by_id[identity], 0) ** -strength
        assert row.rivals == {key: approx(value, rel=1e-4) for key, value in wanted.items()}


def test_the_logq_correction_of_a_part_counts_the_candidates_of_the_part(data):
    """Each of two replicas draws from half a batch, so a title is half as likely there."""
    options = {"negatives": 2, "logq": 1.0, "length_buckets": ()}
    halves = steps(batches(data, batch_size=8, **options).epoch(replicas=2))
    small = steps(batches(data, batch_size=4, **options).epoch())
    for half, one in zip(halves, small, strict=False):
        assert [row.positive for row in half] == approx([row.positive for row in one])


def test_a_recorded_negative_without_a_click_has_a_finite_correction(tmp_path):
    """Titles of the validation part alone have no clicks in the training part."""
    log = [Click("red", "red fox", 5), Click("owl", "green owl"), Click("new", "black bear")]
    data = write_data(tmp_path / "data", log, validation={"new"}, negatives=2, shards=1)
    found = steps(batches(data, negatives=2, in_batch=False, logq=1.0, batch_size=2).epoch())[0]
    # 2 draws of titles with weights 5^.75 and 1, and as if black bear, which is not drawn here,
    # had .5^.75.
    total = 5**ALPHA + 1
    bear = tuple(data.vocabulary.ngram_ids(word) for word in ("black", "bear"))
    assert found[0].rivals[bear] == approx(1 / (2 * 0.5**ALPHA / total))
    assert found[0].positive == approx(1 / (2 * 5**ALPHA / total))


# ------------------------------------------------------------------------------ length buckets


def test_length_buckets_batch_titles_of_like_length_and_lose_no_record(data, records):
    bounds = (2, 3)
    one = batches(data, length_buckets=bounds)
    found = steps(one.epoch(seed=5))
    assert len(found) == one.steps
    assert Counter(real(found)) == Counter(pairs(records))

    def bucket(title):  # up to 2 words, up to 3, longer
        return sum(len(title) > bound for bound in bounds)

    kinds = [{bucket(row.clicked) for row in step} for step in found]
    assert all(len(kind) == 1 for kind in kinds)
    assert set().union(*kinds) == {0, 1, 2}


# ------------------------------------------------------------------- several workers and replicas


@pytest.mark.parametrize(
    ("workers", "replicas", "buckets"), [(2, 1, ()), (1, 2, ()), (2, 2, (2, 3))]
)
def test_the_parts_of_a_step_are_together_the_batch_of_one_process(
    data, workers, replicas, buckets
):
    one = batches(data, in_batch=False, length_buckets=buckets)
    whole = steps(one.epoch(seed=7))
    parts = [
        steps(one.epoch(seed=7, worker=worker, workers=workers, replicas=replicas))
        for worker in range(workers)
    ]
    assert all(len(part) == one.steps * replicas for part in parts)
    joined = [
        [
            row
            for part in parts
            for replica in range(replicas)
            for row in part[step * replicas + replica]
        ]
        for step in range(one.steps)
    ]
    assert joined == whole


def test_in_batch_rivals_are_those_of_the_part(data):
    one = batches(data, negatives=0)
    parts, wholes = steps(one.epoch(workers=2, worker=1)), steps(one.epoch())
    for part, whole in zip(parts[:3], (step[4:] for step in wholes), strict=False):
        assert [row.clicked for row in part] == [row.clicked for row in whole]
        clicked = {row.clicked for row in part}
        assert all(set(row.rivals) <= clicked - {row.clicked} for row in part)


def test_a_batch_size_that_cannot_be_cut_is_refused(data):
    with pytest.raises(UserError, match=r"training.batch_size: 8 .* 3 equal parts.*multiple of 3"):
        batches(data).epoch(workers=3)


# ------------------------------------------------------------------------------- other edges


@pytest.mark.parametrize("fixed", [False, True])
def test_planned_shapes_do_not_change_what_a_batch_says(data, fixed):
    free = batches(data)
    planned = free.planned(fixed)
    assert steps(planned.epoch(seed=1)) == [
        [row._replace(rivals={k: approx(v) for k, v in row.rivals.items()}) for row in step]
        for step in steps(free.epoch(seed=1))
    ]


def test_fixed_shapes_are_those_of_every_batch_of_a_small_log(data):
    planned = batches(data).planned(fixed=True)
    found = {
        tuple(tuple(tensor.shape) for tensor in tf.nest.flatten(inputs))
        for inputs, _, _ in planned.epochs(seed=0, start=0, stop=2)
    }
    assert len(found) == 1


def test_planning_gives_the_same_shapes_each_time(data):
    assert batches(data).planned(True).shapes == batches(data).planned(True).shapes


def test_a_batch_larger_than_the_data_is_one_step(data, records):
    one = batches(data, batch_size=64)
    (only,) = steps(one.epoch(seed=0))
    assert one.steps == 1
    assert len(only) == 64
    assert Counter(real([only])) == Counter(pairs(records))


def test_the_validation_part_is_read_by_its_name(data):
    held_out = [
        one for path in sorted(data.path.glob("validation-*")) for one in read_examples(path)
    ]
    assert real(steps(batches(data, split="validation").epoch())) == pairs(held_out)


def test_a_missing_split_is_a_message(tmp_path):
    data = write_data(tmp_path / "data", click_log(20), validation=())
    with pytest.raises(UserError, match="holds no validation"):
        batches(data, split="validation").epoch()


@pytest.mark.parametrize("options", [{}, {"fresh": 2}, {"length_buckets": (1, 2)}], ids=str)
def test_no_pass_waits_for_the_thread_that_would_tune_it(data, options):
    # The iterator of a data set that is autotuned can take a minute to end; see read_records.
    one = batches(data, **options)
    more = replace(one, extra=[data.examples["train"][0].serialize(data.vocabulary)])
    for dataset in (
        one.epoch(),
        one.epochs(0, 0, 3),
        one.epochs(0, 2, 3, replicas=2),
        more.epoch(),
    ):
        assert dataset.options().autotune.enabled is False


def test_a_pass_is_the_same_wherever_training_starts(data):
    one = batches(data, fresh=2)
    all_steps = steps(one.epochs(5, 0, 3))
    assert steps(one.epochs(5, 2, 3)) == all_steps[2 * one.steps :]


def test_a_pass_may_hold_queries_and_titles_in_one_text_batch(data, records):
    drawn = {"fresh": 2, "logq": 0.5}
    for options in (drawn, {}):
        joint = [rows_of(*batch) for batch in batches(data, joint=True, **options).epoch(seed=1)]
        assert joint == [rows_of(*batch) for batch in batches(data, **options).epoch(seed=1)]
    planned = batches(data, joint=True).planned(fixed=True)
    assert planned.shapes.texts.texts
    assert [rows_of(*batch) for batch in planned.epoch(seed=1)] == joint

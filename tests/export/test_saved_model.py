"""The exported model: its interface in TensorFlow Serving, and its agreement with the run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest import approx
from tensorflow.core.protobuf import saved_model_pb2

from dssm_tf.cli import main
from dssm_tf.common.checksums import CHECKSUMS, files_in
from dssm_tf.common.errors import UserError
from dssm_tf.common.model_versions import newest_version, next_version
from dssm_tf.export.compact import copy_compact, export_compact
from dssm_tf.export.saved_model import ExportedRanker, export_saved_model, load_export
from dssm_tf.export.signatures import INPUTS
from dssm_tf.export.verify import ADVERSARIAL, verify
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime import CompactRanker
from dssm_tf.text_features import TextFeatures
from tests.export.conftest import WEIGHT
from tests.runs import finished_run

LSTM = {"tower": {"name": "lstm", "cells": 4}}
DSSM = {"tower": {"name": "dssm", "widths": [8, 6]}, "shared_towers": True}
CLSM = {"tower": {"name": "clsm", "window": 5, "features": 4, "widths": [4, 3]}}
TOLERANCE = 1e-5  # tolerance for float32 sums in different orders


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def run(folder, data) -> Path:
    return finished_run(folder / "run", data, LSTM, WEIGHT)


@pytest.fixture(scope="module")
def ranker(run) -> SemanticRanker:
    return SemanticRanker.load(run)


@pytest.fixture(scope="module")
def exported(run, folder) -> Path:
    return export_saved_model(run, folder / "models")


@pytest.fixture(scope="module")
def compact(run, folder) -> CompactRanker:
    return CompactRanker.load(export_compact(run, folder / "compact"))


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported)).signatures


def strings(texts) -> tf.Tensor:
    return tf.constant([text.encode("utf-8", "surrogatepass") for text in texts], tf.string)


def scores(signatures, queries, titles) -> np.ndarray:
    return signatures["score"](queries=strings(queries), titles=strings(titles))["scores"].numpy()


# ------------------------------------------------------------------------------- the interface


def test_the_signatures_take_raw_strings(signatures):
    assert set(signatures) == set(INPUTS)
    for name, function in signatures.items():
        inputs = {key: (spec.shape.as_list(), spec.dtype)
                 for key, spec in function.structured_input_signature[1].items()}  # fmt: skip
        assert inputs == dict.fromkeys(INPUTS[name], ([None], tf.string))
        outputs = {key: (spec.shape.as_list(), spec.dtype)
                   for key, spec in function.structured_outputs.items()}  # fmt: skip
        vectors = {"embeddings": ([None, 5], tf.float32)}
        assert outputs == (vectors if "encode" in name else {"scores": ([None], tf.float32)})


def nodes(exported: Path) -> list:
    """Every operation of a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((exported / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    return [
        *graph.node,
        *(node for function in graph.library.function for node in function.node_def),
    ]


def test_only_core_operations_are_used(exported):
    """Without lookup tables, Python and extensions, an unmodified TensorFlow Serving loads it."""
    used = {node.op for node in nodes(exported)}
    foreign = re.compile(
        "Py|Table|Xla|TPU|Cudnn|Sentence|Wordpiece|Normalize|Remote|Mutable|Dataset"
    )
    assert {op for op in used if foreign.search(op)} == set()
    core = set(tf.raw_ops.__dict__)
    assert used - core <= {"_Arg", "_Retval"}


# ------------------------------------------------------------------------------- the outputs


def assert_agreement(compact: CompactRanker, signatures, texts) -> None:
    """Asserts that the SavedModel and the NumPy runtime have equal vectors and scores."""
    for side, key in (("query", "queries"), ("title", "titles")):
        expected = getattr(compact, f"encode_{key}")(texts, prior=True)
        vectors = signatures[f"encode_{side}"](**{key: strings(texts)})["embeddings"].numpy()
        assert np.linalg.norm(vectors - expected, axis=1) == approx(0, abs=TOLERANCE)
    expected = np.diag(compact.score_matrix(texts, texts))
    assert scores(signatures, texts, texts) == approx(expected, abs=TOLERANCE)


@pytest.mark.numeric
def test_both_formats_agree_on_difficult_texts(compact, signatures):
    assert_agreement(compact, signatures, ADVERSARIAL)


@settings(max_examples=60)
@given(texts=st.lists(st.text(max_size=25), min_size=1, max_size=8))
@example(texts=[""])
@example(texts=["İ", "ß", "ς", "e\u0301", "\x00", "\ud800", "\u00a0", "x" * 200])
def test_both_formats_agree_on_any_text(compact, signatures, texts):
    assert_agreement(compact, signatures, texts)


@pytest.mark.numeric
def test_the_score_is_the_cosine_plus_the_weighted_log_prior(ranker, signatures):
    titles = ["RED fox!", "green owl", "", "pony", "BLACK bear!", "red fox "]
    queries = ["fox", "a bear", "", "zzyzx"]
    query_embeddings = signatures["encode_query"](queries=strings(queries))["embeddings"].numpy()
    title_embeddings = signatures["encode_title"](titles=strings(titles))["embeddings"].numpy()
    assert (query_embeddings[:, -1] == 1).all()
    # The denominator is 9 clicks, plus 1 for each of 4 titles and 1 for all unknown titles: 14.
    # Red Fox has 5 clicks: ln(6 / 14). An unknown title: ln(1 / 14).
    assert title_embeddings[:, -1] == approx(
        WEIGHT * np.log(np.array([6, 3, 1, 1, 2, 6]) / 14), abs=1e-6
    )
    cosines = ranker.encode_queries(queries) @ ranker.encode_titles(titles).T
    # One query for all titles.
    matrix = np.stack([scores(signatures, [query], titles) for query in queries])
    assert matrix == approx(cosines + title_embeddings[:, -1], abs=TOLERANCE)
    assert matrix == approx(query_embeddings @ title_embeddings.T, abs=TOLERANCE)


def test_empty_inputs_have_empty_outputs(signatures):
    assert signatures["encode_query"](queries=strings([]))["embeddings"].shape == (0, 5)
    assert scores(signatures, [], []).shape == (0,)
    assert scores(signatures, ["fox"], []).shape == (0,)


@pytest.mark.parametrize(("queries", "titles"), [(0, 3), (2, 3), (2, 0)])
def test_inputs_of_different_lengths_are_an_error_that_names_the_shapes(
    signatures, queries, titles
):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"\[{queries},5\] vs. \[{titles},5\]"
    ):
        scores(signatures, ["fox"] * queries, ["owl"] * titles)


def test_a_long_title_has_the_prior_of_an_unknown_title(ranker, signatures):
    long = "red fox " * 10_000
    title_scores = scores(signatures, ["fox"] * 2, [long, "red  fox" + " " * 10_000])
    cosines = ranker.encode_queries(["fox"]) @ ranker.encode_titles([long, "red fox"]).T
    # The denominator is 14, as above.
    expected = cosines[0] + WEIGHT * np.log([1 / 14, 6 / 14])
    assert title_scores == approx(expected, abs=TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize(
    "config",
    [
        LSTM,
        pytest.param(DSSM, marks=pytest.mark.slow),
        pytest.param(CLSM, marks=pytest.mark.slow),
    ],
    ids=["lstm", "dssm", "clsm"],
)
def test_a_model_trained_in_bfloat16_ranks_and_is_exported_in_float32(folder, data, config):
    mixed = {**config, "training": {"precision": "mixed_bfloat16"}}
    name = f"{config['tower']['name']}-bfloat16"
    run = finished_run(folder / name, data, mixed, WEIGHT)
    directory = export_saved_model(run, folder / "models", name)
    assert not any("BFLOAT16" in str(node) for node in nodes(directory))
    compact = CompactRanker.load(export_compact(run, folder / name / "compact"))
    assert_agreement(compact, tf.saved_model.load(str(directory)).signatures, ADVERSARIAL)
    ranker = SemanticRanker.load(run)
    trained = build_model(ranker.config, data.vocabulary.size, "mixed_bfloat16")
    trained.set_weights(ranker.model.get_weights())
    batch = TextFeatures(data.vocabulary)(strings(ADVERSARIAL))
    # bfloat16 has 8 significant bits. CPUs round or truncate to them, an error of at most 2^-7 per
    # operation. About 8 operations follow each other: trigrams, matrix, bias, gate, state and
    # output, for one or two words.
    assert ranker.encode_queries(ADVERSARIAL) == approx(
        np.asarray(trained.encode_query(batch)), abs=8 * 2**-7
    )


# ------------------------------------------------------------------------------- the directory


def test_a_saved_model_cannot_be_copied_as_a_compact_model(exported, tmp_path):
    with pytest.raises(
        UserError,
        match="is a SavedModel, which cannot become a compact model; give its run directory",
    ):
        copy_compact(exported, tmp_path / "copy")


def test_versions_are_numbered_and_the_newest_is_loaded(folder, exported, tmp_path):
    assert exported == folder / "models" / "lstm" / "1"
    for name in ("2", "10", "notes", ".11.incomplete"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == tmp_path / "11"
    assert newest_version(tmp_path) == tmp_path / "10"
    assert newest_version(tmp_path / "2") == tmp_path / "2"


def test_the_export_contains_the_model_card_and_settings(exported, run):
    for name in ("MODEL_CARD.md", "config.yaml", "vocabulary.txt", "spec.json", "query_ids.npy"):
        assert (exported / "assets.extra" / name).read_bytes() == (run / name).read_bytes()


KILLED = """
import os, sys
from dssm_tf.export import saved_model
setattr(saved_model, sys.argv[3], lambda *_: os.kill(os.getpid(), 9))
saved_model.export_saved_model(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write_warmup", "verify"])
def test_the_next_export_removes_the_files_of_a_killed_one(run, tmp_path, step):
    killed = [sys.executable, "-c", KILLED, str(run), str(tmp_path / "out"), step]
    assert subprocess.run(killed).returncode == -9
    export_saved_model(run, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "lstm").iterdir()] == ["1"]


def test_every_file_of_an_export_has_a_checksum(exported):
    lines = (exported / "SHA256SUMS").read_text("utf-8").splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == sorted(
        {*files_in(exported)} - {CHECKSUMS}
    )


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.data-00000-of-00001"])
def test_a_flipped_bit_in_an_export_is_detected(exported, tmp_path, file):
    damaged = shutil.copytree(exported, tmp_path / "1")
    raw = bytearray((damaged / file).read_bytes())
    raw[len(raw) // 2] ^= 1
    (damaged / file).write_bytes(raw)
    with pytest.raises(UserError, match=rf"{file} is damaged .* `dssm export`"):
        load_export(damaged)
    (damaged / file).unlink()
    with pytest.raises(UserError, match=f"{file} does not exist"):
        load_export(damaged)


# ------------------------------------------------------------------------- nothing half-exported


def versions(models: Path) -> list[str]:
    return [path.name for path in models.glob("lstm/*")]


def test_a_changed_weight_is_detected_and_nothing_is_exported(run, tmp_path, monkeypatch):
    save = tf.saved_model.save

    def tampering(served, *arguments, **options):
        weight = served.weights[0]
        before = weight.numpy()
        weight.assign(before + 0.05)
        save(served, *arguments, **options)
        weight.assign(before)

    monkeypatch.setattr(tf.saved_model, "save", tampering)
    with pytest.raises(
        UserError, match=r"encode_queries of .* differs by .* between the exported and the trained"
    ):
        export_saved_model(run, tmp_path)
    assert versions(tmp_path) == []


def test_a_wrong_prior_and_a_weight_that_is_nan_are_detected(run, exported):
    other, shipped = SemanticRanker.load(run), ExportedRanker(exported)
    verify(shipped, other)
    other.prior_weight = WEIGHT + 0.01
    with pytest.raises(UserError, match=r"encode_titles of .* differs by 0\.0"):
        verify(shipped, other)
    other.prior_weight = WEIGHT
    other.model.weights[0].assign(other.model.weights[0] * float("nan"))
    with pytest.raises(UserError, match=r"encode_queries of .* differs by inf between"):
        verify(shipped, other)


@pytest.mark.parametrize(
    "error",
    [tf.errors.ResourceExhaustedError(None, None, "No space left"), OSError("No space left")],
)
def test_an_error_of_tensorflow_is_reported_in_one_line(run, tmp_path, monkeypatch, capsys, error):
    def fail(_, path, **__):
        assert not Path(path).name.isdigit()  # killed here it would leave half a version
        raise error

    monkeypatch.setattr(tf.saved_model, "save", fail)
    assert main(["export", "--model", str(run), "--out", str(tmp_path)]) == 1
    error_output = capsys.readouterr().err
    assert (error_output.count("\n"), "No space left" in error_output) == (1, True)
    assert versions(tmp_path) == []


def test_an_unfinished_run_is_not_exported(run, tmp_path):
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_bytes((run / "config.yaml").read_bytes())
    with pytest.raises(UserError, match=r"is not finished\. Run the same"):
        export_saved_model(unfinished, tmp_path / "models")
    with pytest.raises(UserError, match=r"has no config.yaml"):
        export_saved_model(tmp_path / "elsewhere", tmp_path / "models")
    assert not (tmp_path / "models").exists()

"""The exported model: what TensorFlow Serving sees of it, and that it is the trained one."""

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
from dssm_tf.common.errors import UserError
from dssm_tf.common.model_versions import newest_version, next_version
from dssm_tf.export.saved_model import ExportedRanker, export
from dssm_tf.export.verify import ADVERSARIAL, verify
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.semantic_ranker import SemanticRanker, build_model
from dssm_tf.text.rules import FOLDED, Rules
from tests.clicks import Click, Data, write_data
from tests.export.hashed import python_text_batch
from tests.runs import finished_run

LSTM = {"tower": {"name": "lstm", "cells": 4}}
DSSM = {"tower": {"name": "dssm", "widths": [8, 6]}, "shared_towers": True}
CLSM = {"tower": {"name": "clsm", "window": 5, "features": 4, "widths": [4, 3]}}
LOG = [
    Click("fox", "Red Fox", 5),
    Click("owl", "green owl", 2),
    Click("bear", "black bear", 1),
    Click("tiger", "tíger & \U0001f405 / 虎", 1),
]
WEIGHT = 0.25
SAME = 1e-5  # sums of float32 in another order


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def data(folder) -> Data:
    # Few words and letters, and hash buckets: texts are cut and unseen trigrams matter.
    rules = Rules(False, max_words=6, max_letters=9, hash_buckets=7)
    return write_data(folder / "data", LOG, validation=(), negatives=1, rules=rules)


@pytest.fixture(scope="module")
def run(folder, data) -> Path:
    return finished_run(folder / "run", data, LSTM, WEIGHT)


@pytest.fixture(scope="module")
def ranker(run) -> SemanticRanker:
    return SemanticRanker.load(run)


@pytest.fixture(scope="module")
def exported(run, folder) -> Path:
    return export(run, folder / "models")


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported)).signatures


def strings(texts) -> tf.Tensor:
    return tf.constant([text.encode("utf-8", "surrogatepass") for text in texts], tf.string)


def scores(signatures, queries, titles) -> np.ndarray:
    return signatures["score"](queries=strings(queries), titles=strings(titles))["scores"].numpy()


# ------------------------------------------------------------------------------- the interface


def test_the_signatures_take_raw_strings(signatures):
    assert set(signatures) == {"encode_query", "encode_title", "score", "serving_default"}
    text = tf.TensorSpec([None], tf.string)

    def interface(name):
        inputs = signatures[name].structured_input_signature[1]
        outputs = signatures[name].structured_outputs
        return (
            {key: (one.shape.as_list(), one.dtype) for key, one in inputs.items()},
            {key: (one.shape.as_list(), one.dtype) for key, one in outputs.items()},
        )

    of_text = (text.shape.as_list(), text.dtype)
    vectors = {"embeddings": ([None, 5], tf.float32)}
    both = ({"queries": of_text, "titles": of_text}, {"scores": ([None], tf.float32)})
    assert interface("encode_query") == ({"queries": of_text}, vectors)
    assert interface("encode_title") == ({"titles": of_text}, vectors)
    assert interface("score") == both
    assert interface("serving_default") == both


def nodes(exported: Path) -> list:
    """Every operation of a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((exported / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    return [*graph.node, *(node for one in graph.library.function for node in one.node_def)]


def test_only_core_operations_are_used(exported):
    """No table to initialise, no Python, no extension: a stock TensorFlow Serving loads it."""
    used = {node.op for node in nodes(exported)}
    foreign = re.compile(
        "Py|Table|Xla|TPU|Cudnn|Sentence|Wordpiece|Normalize|Remote|Mutable|Dataset"
    )
    assert {op for op in used if foreign.search(op)} == set()
    core = set(tf.raw_ops.__dict__)
    assert used - core <= {"_Arg", "_Retval"}


# ------------------------------------------------------------------------------- the answers


def agree(ranker, signatures, texts) -> None:
    """The SavedModel, and the trained model on texts hashed in Python, give equal vectors."""
    batch = python_text_batch(ranker.vocabulary, texts)
    for side, key in (("query", "queries"), ("title", "titles")):
        wanted = np.asarray(getattr(ranker.model, f"encode_{side}")(batch))
        found = signatures[f"encode_{side}"](**{key: strings(texts)})["embeddings"].numpy()[:, :-1]
        assert np.linalg.norm(found - wanted, axis=1) == approx(0, abs=SAME)
    wanted = WEIGHT * ranker.prior(texts)
    # The same text on both sides: only the prior remains of a score less its cosine.
    queries, titles = ranker.encode_queries(texts), ranker.encode_titles(texts)
    found = scores(signatures, texts, texts) - np.sum(queries * titles, axis=1)
    assert found == approx(wanted, abs=SAME)


@pytest.mark.numeric
def test_all_three_ways_agree_on_what_once_broke_somebodys_model(ranker, signatures):
    agree(ranker, signatures, ADVERSARIAL)


@settings(max_examples=60)
@given(texts=st.lists(st.text(max_size=25), min_size=1, max_size=8))
@example(texts=[""])
@example(texts=["İ", "ß", "ς", "e\u0301", "\x00", "\ud800", "\u00a0", "x" * 200])
def test_all_three_ways_agree_on_any_text(ranker, signatures, texts):
    agree(ranker, signatures, texts)


def test_the_score_is_the_cosine_plus_the_weighted_log_prior(ranker, signatures):
    # 9 clicks and one more for each of the 4 titles and for all unseen ones: 14.
    # Red Fox was clicked 5 times: ln(6 / 14). A title never seen: ln(1 / 14).
    cosines = ranker.encode_queries(["fox"]) @ ranker.encode_titles(["red fox", "pony"]).T
    wanted = cosines[0] + WEIGHT * np.log([6 / 14, 1 / 14])
    assert scores(signatures, ["fox", "fox"], ["RED fox!", "pony"]) == approx(wanted, abs=SAME)
    assert TitlePrior([], FOLDED)(["anything"]).tolist() == [0.0]


def test_one_query_scores_many_titles(ranker, signatures):
    titles = ["red fox", "green owl", "", "pony"]
    wanted = ranker.score("a bear", titles)
    assert scores(signatures, ["a bear"], titles) == approx(wanted, abs=SAME)
    assert scores(signatures, ["a bear"] * 4, titles) == approx(wanted, abs=SAME)


@pytest.mark.numeric
def test_vectors_with_the_prior_rank_as_score_does(ranker, signatures):
    titles = ["red fox", "green owl", "", "pony", "BLACK bear!", "red fox "]
    queries = ["fox", "a bear", "", "zzyzx"]
    asked = signatures["encode_query"](queries=strings(queries))["embeddings"].numpy()
    held = signatures["encode_title"](titles=strings(titles))["embeddings"].numpy()
    assert (asked[:, -1] == 1).all()
    # Clicks as above: 14. Red Fox was clicked 5 times, the owl 2, the bear once, others never.
    assert held[:, -1] == approx(WEIGHT * np.log(np.array([6, 3, 1, 1, 2, 6]) / 14), abs=1e-6)
    products = asked @ held.T
    wanted = np.stack([scores(signatures, [query], titles) for query in queries])
    assert products == approx(wanted, abs=SAME)
    assert np.argsort(-products.round(4), kind="stable").tolist() == (
        np.argsort(-wanted.round(4), kind="stable").tolist()
    )
    # In Python the same; and the unit vectors are those without the further number.
    assert ranker.encode_queries(queries, prior=True) == approx(asked, abs=SAME)
    assert ranker.encode_titles(titles, prior=True) == approx(held, abs=SAME)
    assert ranker.encode_titles(titles) == approx(held[:, :-1], abs=SAME)


def test_nothing_asked_is_nothing_answered(signatures):
    assert signatures["encode_query"](queries=strings([]))["embeddings"].shape == (0, 5)
    assert scores(signatures, [], []).shape == (0,)
    assert scores(signatures, ["fox"], []).shape == (0,)


@pytest.mark.parametrize(("queries", "titles"), [(0, 3), (2, 3), (2, 0)])
def test_a_score_of_other_sizes_is_an_error_that_names_them(signatures, queries, titles):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"\[{queries},5\] vs. \[{titles},5\]"
    ):
        scores(signatures, ["fox"] * queries, ["owl"] * titles)


def test_a_long_title_has_the_prior_of_an_unseen_one(ranker, signatures):
    long = "red fox " * 10_000
    found = scores(signatures, ["fox"] * 2, [long, "red  fox" + " " * 10_000])
    cosines = ranker.encode_queries(["fox"]) @ ranker.encode_titles([long, "red fox"]).T
    # Clicks as above: 9 and one more for each of 4 titles and for all unseen ones.
    wanted = cosines[0] + WEIGHT * np.log([1 / 14, 6 / 14])
    assert found == approx(wanted, abs=SAME)


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
    directory = export(run, folder / "models", name)
    assert not any("BFLOAT16" in str(node) for node in nodes(directory))
    ranker = SemanticRanker.load(run)
    agree(ranker, tf.saved_model.load(str(directory)).signatures, ADVERSARIAL)
    trained = build_model(ranker.config, data.vocabulary.size, "mixed_bfloat16")
    trained.set_weights(ranker.model.get_weights())
    batch = python_text_batch(data.vocabulary, ADVERSARIAL)
    # bfloat16 has 8 significant bits, to which some CPUs round and others cut off: 2^-7 a time.
    # Trigrams, matrix, bias, gate, state, output, of a word or two: some 8 in a row count.
    assert ranker.encode_queries(ADVERSARIAL) == approx(
        np.asarray(trained.encode_query(batch)), abs=8 * 2**-7
    )


def test_shared_towers_and_no_prior_export_too(folder, data):
    run = finished_run(folder / "shared", data, DSSM, prior_weight=0.0)
    directory = export(run, folder / "models", "twin")
    signatures = tf.saved_model.load(str(directory)).signatures
    one, other = (
        signatures[f"encode_{side}"](**{key: strings(["red fox"])})["embeddings"].numpy()[:, :-1]
        for side, key in (("query", "queries"), ("title", "titles"))
    )
    assert np.array_equal(one, other)
    assert scores(signatures, ["red fox"], ["red fox"]) == approx([1], abs=1e-5)


# ------------------------------------------------------------------------------- the directory


def test_versions_are_numbered_from_one_and_never_overwritten(folder, exported, tmp_path):
    assert exported == folder / "models" / "lstm" / "1"
    for name in ("7", "notes"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == tmp_path / "8"


def test_warm_up_requests_are_prediction_logs_of_every_signature(exported, signatures):
    from tensorflow_serving.apis import prediction_log_pb2

    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    seen = set()
    for raw in tf.data.TFRecordDataset(str(path)):
        request = prediction_log_pb2.PredictionLog.FromString(raw.numpy()).predict_log.request
        assert request.model_spec.name == "lstm"
        inputs = {name: tf.constant(tf.make_ndarray(one)) for name, one in request.inputs.items()}
        answer = signatures[request.model_spec.signature_name](**inputs)
        assert all(np.all(np.isfinite(one)) for one in answer.values())
        seen.add(request.model_spec.signature_name)
    assert seen == set(signatures)


def test_the_model_carries_its_card_and_settings(exported, run):
    for name in ("MODEL_CARD.md", "config.yaml", "vocabulary.txt", "spec.json"):
        assert (exported / "assets.extra" / name).read_bytes() == (run / name).read_bytes()


KILLED = """
import os, sys
from dssm_tf.export import saved_model
setattr(saved_model, sys.argv[3], lambda *_: os.kill(os.getpid(), 9))
saved_model.export(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write_warmup", "verify"])
def test_of_a_killed_export_nothing_is_left_after_the_next(run, tmp_path, step):
    killed = [sys.executable, "-c", KILLED, str(run), str(tmp_path / "out"), step]
    assert subprocess.run(killed).returncode == -9
    export(run, tmp_path / "out")
    assert [one.name for one in (tmp_path / "out" / "lstm").iterdir()] == ["1"]


def contents(folder: Path) -> set[str]:
    return {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()}


def test_every_file_of_an_export_has_a_checksum(exported):
    lines = (exported / "SHA256SUMS").read_text("utf-8").splitlines()
    assert {line.split("  ")[1] for line in lines} == contents(exported) - {"SHA256SUMS"}


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.data-00000-of-00001"])
def test_a_flipped_bit_of_an_export_is_found(exported, tmp_path, file):
    damaged = shutil.copytree(exported, tmp_path / "1")
    raw = bytearray((damaged / file).read_bytes())
    raw[len(raw) // 2] ^= 1
    (damaged / file).write_bytes(raw)
    with pytest.raises(UserError, match=rf"{file} is damaged .* `dssm export`"):
        ExportedRanker(damaged)
    (damaged / file).unlink()
    with pytest.raises(UserError, match=f"{file} does not exist"):
        ExportedRanker(damaged)


def test_an_export_ranks_as_its_run_does(ranker, exported):
    queries, titles = ["fox", "", "a bear"], ["Red  fox", "green owl", "red fox!", "", "pony"]
    served = ExportedRanker(exported)
    found = served.score_matrix(queries, titles)
    wanted = ranker.score_matrix(queries, titles)
    assert found == approx(wanted, abs=SAME)
    assert np.array_equal(found[:, 0], found[:, 2])  # equal titles tie
    assert served.score("fox", titles) == approx(wanted[0], abs=SAME)
    assert served.score_matrix([], titles).shape == (0, 5)


def test_the_newest_version_of_a_model_is_taken(tmp_path):
    for name in ("2", "10", "notes", ".11.incomplete"):
        (tmp_path / name).mkdir()
    assert newest_version(tmp_path) == tmp_path / "10"
    assert newest_version(tmp_path / "2") == tmp_path / "2"


# ------------------------------------------------------------------------- nothing half-exported


def versions(models: Path) -> list[str]:
    return [path.name for path in models.glob("lstm/*")]


def test_a_tampered_weight_is_found_and_nothing_is_exported(run, tmp_path, monkeypatch):
    save = tf.saved_model.save

    def tampering(served, *arguments, **options):
        weight = served.weights[0]
        before = weight.numpy()
        weight.assign(before + 0.05)
        save(served, *arguments, **options)
        weight.assign(before)

    monkeypatch.setattr(tf.saved_model, "save", tampering)
    with pytest.raises(
        UserError, match=r"exported model's encode_queries of .* is .* from the trained"
    ):
        export(run, tmp_path)
    assert versions(tmp_path) == []


def test_a_wrong_prior_and_a_weight_that_is_no_number_are_found(run, exported):
    other, shipped = SemanticRanker.load(run), ExportedRanker(exported)
    clicked = list(other.prior.log_shares)
    verify(shipped, other, clicked)
    other.prior_weight = WEIGHT + 0.01
    with pytest.raises(UserError, match=r"encode_titles of .* is 0\.0"):
        verify(shipped, other, clicked)
    other.prior_weight = WEIGHT
    other.model.weights[0].assign(other.model.weights[0] * float("nan"))
    with pytest.raises(UserError, match=r"encode_queries of .* is inf from"):
        verify(shipped, other, clicked)


@pytest.mark.parametrize(
    "error",
    [tf.errors.ResourceExhaustedError(None, None, "No space left"), OSError("No space left")],
)
def test_an_error_of_tensorflow_is_one_line(run, tmp_path, monkeypatch, capsys, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(tf.saved_model, "save", fail)
    assert main(["export", "--model", str(run), "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), "No space left" in said) == (1, True)
    assert versions(tmp_path) == []


def test_an_unfinished_run_is_not_exported(run, tmp_path):
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_bytes((run / "config.yaml").read_bytes())
    with pytest.raises(UserError, match=r"is not finished\. Run the same"):
        export(unfinished, tmp_path / "models")
    with pytest.raises(UserError, match=r"holds no config.yaml"):
        export(tmp_path / "elsewhere", tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_damaged_weights_are_named(run, data, tmp_path):
    damaged = finished_run(tmp_path / "run", data, LSTM)
    (damaged / "model.weights.h5").write_bytes(b"not HDF5")
    with pytest.raises(UserError, match=r"model.weights.h5 is damaged or was changed"):
        export(damaged, tmp_path / "models")

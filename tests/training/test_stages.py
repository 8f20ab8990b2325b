"""Stages of `maxsim`: start vectors, titles as queries, spelling."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import dssm_tf
from dssm_tf.benchmark.systems import choose_systems
from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.load_run import load_run
from dssm_tf.text.rules import TextRules
from dssm_tf.training.start_vectors import read_start_vectors
from dssm_tf.training.train import train
from tests.clicks import Click, catalog, write_data
from tests.training.configuration import equal

pytestmark = pytest.mark.long  # trainings

MATERIALS = ("steel", "glass", "white", "black", "small", "large")
# No title has two of these words, so only their vectors say that they mean the same.
SYNONYMS = ("fridge", "refrigerator")
OTHERS = ("hammer", "lantern", "bucket", "ladder")
TITLES = [f"{material} {word}" for word in (*SYNONYMS, *OTHERS) for material in MATERIALS]


def settings(**changes):
    return parse_config(
        {
            "tower": {"name": "words", "units": 128},
            "score": {"name": "maxsim", "text_cosine": "auto"},
            "shared_towers": True,
            "whole_words": True,
            "optimizer": {"learning_rate": 0.02},
            "start": {"spelling": True},
            "training": {"epochs": 1, "batch_size": 16, "title_queries": 1, "refit": False},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def titles(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("titles") / "data", [], corpus=TITLES)


@pytest.fixture
def vectors(tmp_path):
    """A file in which the synonyms have one vector."""
    rng = np.random.default_rng(0)
    words = {word: rng.normal(size=32) for word in (*MATERIALS, *SYNONYMS, *OTHERS)}
    words["icebox"] = words["refrigerator"] = words["fridge"]
    path = tmp_path / "words.vec"
    lines = [" ".join([word, *(f"{value:.4f}" for value in row)]) for word, row in words.items()]
    path.write_text("\n".join([f"{len(lines)} 32", *lines, ""]), "utf-8")
    return path


def similarity(ranker, word, other):
    first, second = ranker.maxsim.words([word, other]).vectors
    return float(first @ second)


def test_without_clicks_start_vectors_make_synonyms_similar_and_spelling_comes_last(
    titles, vectors, tmp_path, capsys
):
    config = settings(start={"vectors": str(vectors), "spelling": True})
    result = train(config, titles.path, tmp_path / "run")
    output = " ".join(capsys.readouterr().out.split())
    name = f"start vectors ({vectors})"
    assert f"training maxsim on 36 titles: {name}; spelling" in output
    assert [stage["name"] for stage in result.stages] == [name, "spelling"]
    assert [stage["chosen"] for stage in result.stages] == [False, True]
    ranker = load_run(tmp_path / "run")
    assert ranker.maxsim.text_vectors is None
    synonym = similarity(ranker, "fridge", "refrigerator")
    assert synonym > 0.15
    assert all(similarity(ranker, "fridge", other) < synonym for other in OTHERS)
    ranked = [row.title for row in ranker.rank("steel fridge", titles.titles)]
    assert ranked[:2] == ["steel fridge", "steel refrigerator"]
    ranked = [row.title for row in ranker.rank("hamer", titles.titles)]
    assert all("hammer" in title for title in ranked[: len(MATERIALS)])


def test_a_training_without_clicks_that_is_repeated_after_an_error_has_the_same_weights(
    titles, vectors, tmp_path, monkeypatch
):
    config = settings(start={"vectors": str(vectors), "spelling": True})
    train(config, titles.path, tmp_path / "run", quiet=True)
    with monkeypatch.context() as patch:

        def interrupt(*_, **__):
            raise KeyboardInterrupt

        patch.setattr("dssm_tf.training.starts.learn_spelling", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(config, titles.path, tmp_path / "again", quiet=True)
    train(config, titles.path, tmp_path / "again", quiet=True)
    assert equal(tmp_path / "run", tmp_path / "again")


def test_without_start_vectors_titles_are_queries_and_validation_chooses_the_stage(
    tmp_path, capsys
):
    data = write_data(tmp_path / "data", [], corpus=catalog())
    config = settings(start={"spelling": "auto", "title_epochs": 2})
    result = train(config, data.path, tmp_path / "run")
    output = " ".join(capsys.readouterr().out.split())
    names = ["random rows", "titles as queries, 2 epochs", "spelling"]
    assert f"training maxsim on 300 titles: {'; '.join(names)}" in output
    assert [stage["name"] for stage in result.stages] == names
    [chosen] = [stage for stage in result.stages if stage["chosen"]]
    assert chosen["ndcg@10"] == max(stage["ndcg@10"] for stage in result.stages)
    assert f"chosen by validation: the weights after {chosen['name']}" in output
    assert result.metrics["ndcg@10"] == pytest.approx(chosen["ndcg@10"], abs=1e-6)


def test_rows_of_further_fields_need_clicks_and_training_says_so(tmp_path, capsys):
    titles = [f"{material} hammer␟sony" for material in MATERIALS]
    for own_fields in (1, 2):
        rules = TextRules(False, own_fields=own_fields)
        data = write_data(tmp_path / f"data{own_fields}", [], corpus=titles, rules=rules)
        train(settings(start={"spelling": True}), data.path, tmp_path / f"run{own_fields}")
        output = " ".join(capsys.readouterr().out.split())
        assert ("Preprocess with --field-rows shared." in output) == (own_fields == 2)


def test_words_that_only_queries_have_get_start_vectors_too(vectors, tmp_path):
    log = [Click(f"{word} icebox", f"{word} refrigerator") for word in MATERIALS]
    data = write_data(tmp_path / "data", log, corpus=TITLES)
    resolved = Preprocessed(data.path).with_whole_words()
    assert "icebox" not in resolved.document_frequencies.words
    words, rows = read_start_vectors(str(vectors), resolved)
    assert rows[words.index("icebox")] == pytest.approx(rows[words.index("fridge")])
    config = settings(start={"vectors": str(vectors)}, optimizer={"learning_rate": 1e-9})
    train(config, data.path, tmp_path / "run", quiet=True)
    ranker = load_run(tmp_path / "run")
    assert similarity(ranker, "icebox", "refrigerator") > similarity(ranker, "icebox", "hammer")
    with_vectors = dssm_tf.ClickData(data.path, config).build_model()
    assert load_run(tmp_path / "run").model.query_tower.hashing.kernel.numpy() == pytest.approx(
        with_vectors.query_tower.hashing.kernel.numpy(), abs=1e-6
    )


def test_an_error_in_the_file_of_vectors_leaves_no_run(titles, vectors, tmp_path):
    content = vectors.read_text("utf-8")
    config = settings(start={"vectors": str(vectors)})
    vectors.write_text(content.replace("ladder ", "ladder x"), "utf-8")
    with pytest.raises(UserError, match="after the word 'ladder'; expected 32 finite numbers"):
        train(config, titles.path, tmp_path / "run", quiet=True)
    vectors.write_text("chien 1 2\nchat 3 4\n", "utf-8")
    with pytest.raises(UserError, match="has none of the 12 words"):
        train(config, titles.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    vectors.write_text(content, "utf-8")
    train(config, titles.path, tmp_path / "run", quiet=True)


def test_a_changed_file_of_vectors_is_another_configuration(titles, vectors, tmp_path):
    config = settings(start={"vectors": str(vectors)})
    train(config, titles.path, tmp_path / "run", quiet=True)
    content = vectors.read_bytes()
    vectors.write_bytes(content.replace(b"ladder 0", b"ladder 1").replace(b"ladder -", b"ladder "))
    with pytest.raises(UserError, match=r"another configuration.*\(start\.sha256 was '"):
        train(config, titles.path, tmp_path / "run", quiet=True)
    recorded = json.loads(json.dumps(config.model_dump(mode="json")))
    recorded["start"]["sha256"] = "0" * 64
    with pytest.raises(UserError, match=r"start\.sha256: .* the configuration expects 0000"):
        train(parse_config(recorded), titles.path, tmp_path / "new", quiet=True)
    with gzip.open(tmp_path / "words.vec.gz", "wb") as file:
        file.write(content)
    compressed = settings(start={"vectors": str(tmp_path / "words.vec.gz")})
    train(compressed, titles.path, tmp_path / "compressed", quiet=True)


def test_a_missing_source_is_refused_before_data_are_read_or_written(tmp_path):
    missing = settings(start={"vectors": "nowhere.vec"})
    message = r"'nowhere\.vec', and there is no such file"
    with pytest.raises(UserError, match=message):
        train(missing, tmp_path / "no data", tmp_path / "run")
    with pytest.raises(UserError, match=message):
        dssm_tf.train(corpus=tmp_path / "no corpus.tsv", config=missing)
    with pytest.raises(UserError, match=message):
        choose_systems(["maxsim"], overrides=["start.vectors=nowhere.vec"])

"""A training that starts from an earlier run."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dssm_tf
from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.format import Title
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.build import build_model
from dssm_tf.model.run_files import is_finished, load_titles, training_query_ids
from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS, TextRules
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.run_directory import load_finished_result, start_run
from dssm_tf.training.train import validation_task
from dssm_tf.training.validation import ValidationTask
from dssm_tf.training.warm_start import WarmStart, extend_weights, merge_titles
from tests.clicks import Click, click_log, write_data
from tests.runs import finished_run
from tests.training.configuration import CONFIG, config, trained

pytestmark = pytest.mark.long  # trainings

TEXTS = ["", "red fox", "the zebra quagga", "quagga story", "blue whale 7", "xyzzy"]
TODAY = [
    *(Click(f"quagga {n}", "the zebra quagga", n) for n in range(1, 9)),
    *(Click(f"fox red {n}", "red fox", 1) for n in range(8)),
    *(Click(f"okapi {n}", "okapi story", 2) for n in range(8)),
]


@pytest.fixture(scope="module")
def earlier(folder, data):
    return finished_run(folder / "earlier", data, CONFIG)


@pytest.fixture(scope="module")
def today(folder, data):
    return write_data(folder / "today", TODAY, earlier_vocabulary=data.vocabulary)


def warm_start(run, settings, records):
    return WarmStart.load(run, settings, records)


def test_queries_that_the_earlier_run_was_trained_on_are_not_validation_queries(
    earlier, tmp_path, data
):
    known = [pair.query for pair in data.pairs["train"]][:2]
    clicks = [*TODAY, *(Click(query, "red fox") for query in known)]
    validation = {*known, "quagga 1"}
    today = write_data(
        tmp_path / "today", clicks, validation=validation, earlier_vocabulary=data.vocabulary
    )
    records, settings = Preprocessed(today.path), parse_config(CONFIG)
    start = warm_start(earlier, settings, records)
    assert validation_task(settings.validation, records, start).queries == ("quagga 1",)
    known_only = write_data(
        tmp_path / "only", clicks, validation={*known}, earlier_vocabulary=data.vocabulary
    )
    assert {
        *validation_task(settings.validation, Preprocessed(known_only.path), start).queries
    } == {*known}


def test_a_run_that_becomes_significantly_worse_than_its_start_is_not_marked_as_finished(
    earlier, tmp_path, data, monkeypatch
):
    best = dict.fromkeys(["ndcg@1", "ndcg@3", "ndcg@10"], 1.1)  # better than any epoch
    monkeypatch.setattr(ValidationTask, "ndcg", lambda *_: best)
    new = write_data(
        tmp_path / "new", TODAY, validation={"quagga 1"}, earlier_vocabulary=data.vocabulary
    )
    with pytest.raises(UserError, match=rf"validation queries worse .* than {earlier} \(1.100\)"):
        trained(new, tmp_path / "run", start=earlier)
    assert not is_finished(tmp_path / "run")
    known = data.pairs["train"][0].query
    clicks = [*TODAY, Click(known, "red fox")]
    only = write_data(
        tmp_path / "only", clicks, validation={known}, earlier_vocabulary=data.vocabulary
    )
    # The earlier run was trained on the validation query, so its NDCG proves nothing.
    trained(only, tmp_path / "known", start=earlier)
    assert is_finished(tmp_path / "known")
    assert not (tmp_path / "known" / "state").exists()


@pytest.fixture(scope="module")
def start(earlier, today):
    return warm_start(earlier, parse_config(CONFIG), Preprocessed(today.path))


@pytest.fixture(scope="module")
def warm(folder, earlier, today):
    return folder / "warm", trained(today, folder / "warm", start=earlier)


@pytest.mark.parametrize(
    ("tower", "buckets", "whole_words"), [("dssm", 0, False), ("clsm", 5, False), ("dssm", 0, True)]
)
def test_before_the_first_step_every_text_has_the_vector_of_the_earlier_run(
    tower, buckets, whole_words, tmp_path
):
    def vocabulary(name, log, known=None):
        rules = TextRules(False, hash_buckets=buckets)
        data = Preprocessed(
            write_data(tmp_path / name, log, rules=rules, earlier_vocabulary=known).path
        )
        return (data.with_whole_words() if whole_words else data).vocabulary

    before = vocabulary("yesterday", click_log())
    now = vocabulary("today", TODAY, before)
    assert len(now.ngrams) > len(before.ngrams)
    settings = parse_config({"tower": {"name": tower}})
    old, new = (build_model(settings, size) for size in (before.size, now.size))
    assign_all(new.weights, extend_weights(old, before, now))
    for side in ("query", "title"):
        vectors = Encoder(old, before)(side, TEXTS)
        np.testing.assert_array_equal(Encoder(new, now)(side, TEXTS), vectors)
        assert np.ptp(vectors, axis=0).any()


def test_data_with_further_kinds_of_letter_ngrams_extend_a_run_with_some_of_them(tmp_path):
    rules = TextRules(False, letter_ngrams=NGRAM_KINDS)
    yesterday = write_data(tmp_path / "yesterday", click_log(), rules=rules)
    today = write_data(
        tmp_path / "today", TODAY, rules=rules, earlier_vocabulary=yesterday.vocabulary
    )
    changes = {"letter_ngrams": ["pairs", "trigrams"], "training__epochs": 1}
    finished_run(tmp_path / "run", yesterday, config(**changes))
    trained(today, tmp_path / "warm", start=tmp_path / "run", **changes)
    before, now = (SemanticRanker.load(tmp_path / name).vocabulary for name in ("run", "warm"))
    assert now.ngrams[: len(before.ngrams)] == before.ngrams
    assert now.counts["pairs"] > before.counts["pairs"]
    assert {*now.counts} == {"pairs", "trigrams"}


def test_new_trigrams_are_trained_from_zero_rows(warm, data):
    kernel = np.asarray(SemanticRanker.load(warm[0]).model.title_tower.hashing.kernel)
    known = len(data.vocabulary.ngrams)
    assert (np.abs(kernel[known + 1 :]).sum(1) > 0).mean() > 0.5


def test_clicks_and_query_ids_of_the_earlier_run_are_added(earlier, warm, data, today):
    clicks = {title.text: title.clicks for title in load_titles(warm[0])}
    before = {title.text: title.clicks for title in load_titles(earlier)}
    now = {title.text: title.clicks for title in Preprocessed(today.path).titles}
    assert clicks == {title: before.get(title, 0) + now.get(title, 0) for title in {*before, *now}}
    queries = {
        pair.query for log in (data, today) for pairs in log.pairs.values() for pair in pairs
    }
    assert training_query_ids(warm[0]).tolist() == sorted(map(FOLDED.id, queries))


def test_earlier_clicks_can_count_less():
    earlier = [Title("Red fox", 10, 4), Title("owl", 1, 1)]
    titles = merge_titles(earlier, [Title("red FOX", 3, 2)], 0.3, FOLDED)
    assert titles == [Title("red FOX", 6, 3), Title("owl", 0, 0)]


def test_the_run_records_the_earlier_run(earlier, warm):
    record = json.loads((warm[0] / "earlier_run.json").read_text("utf-8"))
    assert record["fingerprint"] == sha256_of(earlier)
    card = (warm[0] / "MODEL_CARD.md").read_text("utf-8")
    assert f"fingerprint {sha256_of(earlier)[:16]}" in card


def test_a_run_resumes_or_returns_its_result_only_with_the_same_start(folder, start, warm, today):
    settings, records = parse_config(CONFIG), Preprocessed(today.path)
    start_run(settings, records, folder / "started", start)
    assert load_finished_result(settings, records, folder / "started", start) is None
    result = load_finished_result(settings, records, warm[0], start)
    assert result.history == warm[1].history
    message = r"a finished run of another .* \(from was .*, now None\)"
    with pytest.raises(UserError, match=message):
        trained(today, warm[0])


def test_keras_fit_starts_from_the_earlier_run(earlier, start, today):
    clicks = dssm_tf.ClickData(today.path, start=earlier)
    assert clicks.config == parse_config(CONFIG)
    for variable, value in zip(clicks.build_model().weights, start.weights, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tower__widths": [8, 4]}, r"\(tower.widths was \[8, 6\], now \[8, 4\]\)"),
        ({"tower": {"name": "clsm"}}, "tower.name was 'dssm', now 'clsm'"),
        ({"shared_towers": True}, "shared_towers was False, now True"),
        ({"letter_ngrams": ["pairs"]}, r"letter_ngrams was \['trigrams'\], now \['pairs'\]"),
        ({"tower__dropout": 0.0}, "preprocess with --vocabulary-from"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(tmp_path, earlier, changes, message):
    rules = TextRules(False, letter_ngrams=("pairs", "trigrams"))
    records = write_data(tmp_path / "other", TODAY, rules=rules)
    with pytest.raises(UserError, match=message):
        trained(records, tmp_path / "no", start=earlier, **changes)
    assert not (tmp_path / "no").exists()

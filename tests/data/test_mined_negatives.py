"""Hard negatives in batches: whose they are, that passes differ, and what a table may hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.data.batching import parse
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.mined_negatives import MinedNegatives, pairs_of
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.rules import FOLDED
from tests.clicks import click_log, rows_of, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("mined") / "data", click_log())


@pytest.fixture(scope="module")
def mined(data):
    """Five titles of each query but the first, as (query, title), clicked ones among them."""
    queries = list(dict.fromkeys(example.query for example in data.examples["train"]))[1:]
    titles = [row.split("\t")[0] for row in data.titles]
    random = np.random.default_rng(3)
    rows = [(query, titles[at]) for query in queries for at in random.permutation(len(titles))[:5]]
    clicked = [(one.query, one.titles[0].text) for one in data.examples["train"]]
    return [*rows, *(pair for pair in clicked if pair[0] in queries)]


def batches(data, mined, count=2, **options) -> ClickBatches:
    known = Preprocessed(data.path)
    defaults = {"batch_size": 8, "negatives": 0, "in_batch": False}
    found = ClickBatches(known, ("train",), BatchOptions(**(defaults | options)))
    return replace(found, mined=MinedNegatives(known, pairs_of(mined, FOLDED), count))


def rows(dataset):
    return [row for element in dataset for row in rows_of(*element) if row.weight > 0]


def hashed(data, text):
    return tuple(tuple(data.vocabulary.ngram_ids(w)) for w in data.vocabulary.words(text))


def clicked_for(data):
    found = {}
    for example in [*data.examples["train"], *data.examples["validation"]]:
        found.setdefault(hashed(data, example.query), set()).add(
            hashed(data, example.titles[0].text)
        )
    return found


def test_a_query_has_as_many_of_its_titles_as_asked_for_none_clicked_and_others_in_each_pass(
    data, mined
):
    clicked, listed = clicked_for(data), {}
    for query, title in mined:
        listed.setdefault(hashed(data, query), set()).add(hashed(data, title))
    found = rows(batches(data, mined).epochs(0, 0, 2))
    assert any(not row.rivals for row in found)  # the query without a row
    for row in found:
        allowed = listed.get(row.query, set()) - clicked[row.query]
        assert set(row.rivals) <= allowed
        assert len(row.rivals) == min(2, len(allowed))
        assert set(row.rivals.values()) <= {1.0}  # drawn without replacement
    passes = {}
    for row in found:
        passes.setdefault((row.query, row.clicked), []).append(row.rivals)
    assert sum(first != second for first, second in passes.values()) > len(passes) / 2


def test_every_title_that_was_mined_is_drawn_as_often_as_the_others(data, mined):
    query, _ = mined[0]
    own = {FOLDED.id(title) for asked, title in mined if asked == query}
    example = next(one for one in data.examples["train"] if one.query == query)
    own -= set(example.clicked_ids)
    assert len(own) > 2
    times = 4000
    serialized = tf.constant([example.serialize(data.vocabulary)] * times)
    examples = parse(serialized, 0, data.vocabulary.size)
    examples["clicked_ids"] = tf.RaggedTensor.from_tensor(
        [example.clicked_ids] * times, row_splits_dtype=tf.int32
    )
    source = MinedNegatives(Preprocessed(data.path), pairs_of(mined, FOLDED), 1)
    draws = source.draw(times, tf.constant([5, 9], tf.int64))
    drawn = Counter(source.extend(examples, draws)["title_ids"].to_tensor()[:, 1].numpy().tolist())
    assert set(drawn) == own
    # A share p of n draws has the standard deviation sqrt(p (1 - p) / n).
    p = 1 / len(own)
    for found in drawn.values():
        assert found / times == approx(p, abs=5 * (p * (1 - p) / times) ** 0.5)


def test_workers_and_replicas_see_the_titles_one_process_sees(data, mined):
    whole = rows(batches(data, mined, fresh=1).epochs(3, 0, 1))
    cut = [
        row
        for worker in (0, 1)
        for row in rows(
            batches(data, mined, fresh=1).epochs(3, 0, 1, worker=worker, workers=2, replicas=2)
        )
    ]
    assert sorted(cut, key=repr) == sorted(whole, key=repr)


def table(path, rows):
    path.write_text("query\ttitle\n" + "".join(f"{q}\t{t}\n" for q, t in rows), "utf-8")
    return path


def test_a_table_is_read_and_what_the_data_do_not_know_is_counted_and_named(data, mined, tmp_path):
    known = Preprocessed(data.path)
    good = table(tmp_path / "good.tsv", mined)
    found, lost = MinedNegatives.read(known, good, 2)
    assert lost == ""
    np.testing.assert_array_equal(found.pairs, np.unique(pairs_of(mined, FOLDED), axis=0))
    strange = [("what is this", mined[0][1]), (mined[0][0], "a title of another log")]
    found, lost = MinedNegatives.read(known, table(tmp_path / "old.tsv", [*mined, *strange]), 2)
    np.testing.assert_array_equal(found.pairs, np.unique(pairs_of(mined, FOLDED), axis=0))
    assert "1 of " in lost
    assert "queries, such as 'what is this' and 1 of " in lost
    assert "titles, such as 'a title of another log'" in lost


def test_a_table_of_another_log_is_refused(data, tmp_path):
    other = table(tmp_path / "other.tsv", [("who is it", "nobody"), ("who was it", "somebody")])
    says = r"2 of 2 queries, such as 'who is it' and 2 of 2 titles, such as 'nobody'\. No row is"
    with pytest.raises(UserError, match=says):
        MinedNegatives.read(Preprocessed(data.path), other, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("query\ttitle\n", "has a header and no row"),
        ("query\tname\nq\tt\n", "title"),
        ("query\ttitle\nq\t \n", ":2: the title is empty"),
        ("", "mined.tsv"),
    ],
)
def test_a_table_without_pairs_is_refused(data, tmp_path, text, says):
    (tmp_path / "mined.tsv").write_text(text, "utf-8")
    with pytest.raises(UserError, match=says):
        MinedNegatives.read(Preprocessed(data.path), tmp_path / "mined.tsv", 2)

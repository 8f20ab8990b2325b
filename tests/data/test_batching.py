"""A batch says what the records say: compared with the same rules in plain Python."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.data.batching import parse, to_batch
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.schema import Title
from dssm_tf.data.shapes import Part, Shapes, TextShape
from dssm_tf.losses.click_softmax import ClickSoftmax
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import ClickExample, rows_of, text_of

WORDS = ("red", "green", "fox", "owl", "bear", "fish")
VOCABULARY = Vocabulary(
    dict.fromkeys(ngram for word in WORDS for ngram in letter_ngrams(word)), FOLDED
)


def click(query, title, negatives=(), clicked=(), clicks=1.0) -> ClickExample:
    """A record; the title itself is always among the titles clicked for its query."""
    titles = [Title(one, 2, 1) for one in (title, *negatives)]
    ids = {FOLDED.id(one) for one in (title, *clicked)}
    return ClickExample(query, titles, clicks, sorted(ids))


def batch(
    examples,
    *,
    negatives=4,
    in_batch=True,
    real=None,
    shapes=None,
    logq=0.0,
    draws=None,
    joint=False,
):
    serialized = tf.constant([one.serialize(VOCABULARY) for one in examples])
    real = tf.constant([True] * len(examples) if real is None else real)
    parsed = parse(serialized, negatives, VOCABULARY.size)
    parsed["clicked_ids"] = tf.ragged.constant([one.clicked_ids for one in examples], tf.int64)
    inputs, labels = to_batch(parsed, real, in_batch, draws, logq, shapes or Shapes(), joint)
    return inputs, labels


def rows(examples, **options):
    inputs, labels = batch(examples, **options)
    return rows_of(inputs, labels, np.ones(len(examples)))


def text(words: str):
    """A text as `rows_of` sees it."""
    return tuple(VOCABULARY.ngram_ids(word) for word in words.split())


FOXES = [
    click("red", "red fox", ["green owl", "fish"]),
    click("fox", "red fox", ["bear", "fish"], clicked=["green owl"]),
    click("owl", "green owl", ["bear"]),
]


def test_in_batch_candidates_are_the_clicked_titles_that_the_query_never_clicked():
    red, fox, owl = rows(FOXES, negatives=0)
    assert [row.clicked for row in (red, fox, owl)] == [
        text("red fox"), text("red fox"), text("green owl")
    ]  # fmt: skip
    assert red.rivals == {text("green owl"): approx(1)}
    # Somebody who asked for `fox` clicked `green owl` elsewhere in the log: no rival is left.
    assert fox.rivals == {}
    # `red fox` was clicked in two rows, so it counts twice: exp(log 2).
    assert owl.rivals == {text("red fox"): approx(2)}


def test_only_clicked_titles_are_columns_beside_the_recorded_ones():
    # Two of four distinct titles are clicked: 1 + 2 of each record, and 2 in the batch.
    inputs, labels = batch(FOXES)
    assert inputs["candidates"].shape == labels["mask"].shape == (3, 3 + 2)
    # Of compiled programs the shape stays: a column a row.
    fixed, _ = batch(FOXES, shapes=Shapes(distinct_titles=20))
    assert fixed["candidates"].shape == (3, 3 + 3)


def test_recorded_negatives_stand_beside_in_batch_ones():
    red, _, owl = rows(FOXES)
    # green owl is recorded once, and clicked once in the batch: 1 + 1.
    assert red.rivals == {text("green owl"): approx(2), text("fish"): approx(1)}
    assert owl.rivals == {text("bear"): approx(1), text("red fox"): approx(2)}


def test_recorded_negatives_alone_are_the_first_j_of_each_record():
    found = rows(FOXES, in_batch=False, negatives=1)
    assert [row.rivals for row in found] == [
        {text("green owl"): approx(1)}, {text("bear"): approx(1)}, {text("bear"): approx(1)}
    ]  # fmt: skip


def test_a_record_with_fewer_negatives_than_asked_for_has_only_those():
    found = rows(FOXES, in_batch=False, negatives=4)
    assert [len(row.rivals) for row in found] == [2, 2, 1]
    assert all(sum(row.rivals.values()) == approx(len(row.rivals)) for row in found)


def test_a_record_without_negatives_in_a_batch_of_one_has_no_rival_and_no_loss():
    inputs, labels = batch([click("red", "red fox")])
    cosines = tf.ones(inputs["candidates"].shape)
    assert float(ClickSoftmax(10.0)(labels, cosines)) == 0.0
    assert {one.shape for one in labels.values()} == {inputs["candidates"].shape}


def test_a_row_that_fills_the_batch_is_nobodys_candidate():
    red, owl, _ = rows([*FOXES[::2], click("bear", "bear")], real=[True, True, False])
    assert text("bear") not in red.rivals
    assert text("bear") not in {key for key in owl.rivals if owl.rivals[key] > 1}
    # A row repeated to fill does not count its title again.
    red, owl, _ = rows([FOXES[0], FOXES[2], FOXES[0]], negatives=0, real=[True, True, False])
    assert owl.rivals == {text("red fox"): approx(1)}


def test_every_distinct_title_and_word_of_a_batch_is_there_once():
    inputs, _ = batch(FOXES)
    titles = [tuple(row) for row in inputs["titles"]["tokens"].numpy()]
    assert len(titles) == len(set(titles)) == len({"red fox", "green owl", "fish", "bear"})
    words = [tuple(row) for row in inputs["titles"]["word_ngrams"].numpy()]
    assert len(words) == len(set(words)) == 1 + len({"red", "fox", "green", "owl", "fish", "bear"})
    assert not any(words[0])
    assert inputs["query"]["word_ngrams"].shape[0] == 1 + len({"red", "fox", "owl"})


def test_titles_that_differ_only_in_case_and_punctuation_are_one_title():
    inputs, _ = batch([click("red", "Red fox"), click("fox", "red FOX!")], negatives=0)
    assert inputs["titles"]["tokens"].shape[0] == 1
    assert [row.rivals for row in rows([click("red", "Red fox"), click("fox", "red FOX!")])] == [
        {}, {}
    ]  # fmt: skip


def test_an_empty_query_is_a_row_of_padding():
    inputs, _ = batch([click("?!", "red fox"), click("owl", "green owl")])
    assert inputs["query"]["tokens"].numpy()[0].tolist() == [0]
    empty, owl = rows([click("?!", "red fox"), click("owl", "green owl")])
    assert empty.query == ()
    assert empty.rivals == {text("green owl"): approx(1)}
    assert owl.rivals == {text("red fox"): approx(1)}


def test_a_batch_of_empty_texts_still_has_a_column_and_a_row():
    inputs, _ = batch([click("", ""), click("!", "?")])
    assert inputs["query"]["tokens"].shape == (2, 1)
    assert inputs["titles"]["tokens"].shape == (1, 1)
    assert inputs["titles"]["word_ngrams"].shape == (1, 1)


def test_masked_titles_have_probability_exactly_zero():
    inputs, labels = batch(FOXES)
    cosines = tf.Variable(tf.random.stateless_uniform(labels["mask"].shape, [1, 2], -1, 1))
    with tf.GradientTape() as tape:
        loss = ClickSoftmax(3.0, reduction="sum")(labels, cosines)
    # The loss's gradient by a rival's cosine is gamma times its probability.
    probabilities = tape.gradient(loss, cosines).numpy() / 3.0
    tokens, table = (inputs["titles"][name].numpy() for name in ("tokens", "word_ngrams"))
    titles = [tuple(tuple(i for i in table[t] if i) for t in row if t) for row in tokens]
    clicked = [{"red fox"}, {"red fox", "green owl"}, {"green owl"}]
    masked = 0
    for row, own in enumerate(clicked):
        for column, title in enumerate(inputs["candidates"].numpy()[row]):
            if column > 0 and titles[title] in map(text, own):
                assert probabilities[row, column] == 0.0
                masked += 1
    assert masked >= sum(map(len, clicked))
    assert np.all(probabilities[:, 0] < 0)  # the clicked title's own is P - 1
    assert probabilities.sum(axis=1) == approx(np.zeros(3), abs=1e-6)


def test_the_logq_correction_lowers_each_candidate_by_its_log_draws():
    # Draws as a table of the two title statistics: clicks 2, pairs 1 for all of them here.
    def draws(clicks, queries):
        return tf.cast(10 * clicks + queries, tf.float32)

    (red, _, owl), plain = rows(FOXES, logq=0.5, draws=draws), rows(FOXES)
    # Each title has 2 clicks and 1 pair: 0.5 * 21 is taken from every logit, the positive's too.
    factor = math.exp(-0.5 * 21)
    assert red.positive == approx(factor)
    assert red.rivals == {key: approx(value * factor) for key, value in plain[0].rivals.items()}
    assert owl.rivals == {key: approx(value * factor) for key, value in plain[2].rivals.items()}


# ------------------------------------------------------------------------- the same, for any log

texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
records = st.builds(
    click, texts, texts, st.lists(texts, max_size=3), st.lists(texts, max_size=3)
).map(
    lambda one: ClickExample(  # preprocess never records a negative that the query clicked
        one.query,
        [one.titles[0], *[t for t in one.titles[1:] if FOLDED.id(t.text) not in one.clicked_ids]],
        one.clicks,
        one.clicked_ids,
    )
)


def oracle(examples, negatives, in_batch, real):
    """The rows of a batch by the rules, from the records' plain lists."""
    raw = [Example.FromString(one.serialize(VOCABULARY)).features.feature for one in examples]
    parsed = [
        {
            name: list(getattr(value, value.WhichOneof("kind")).value)
            for name, value in one.items()
            if value.WhichOneof("kind")
        }
        for one in raw
    ]
    for one, example in zip(parsed, examples, strict=True):
        one["clicked_ids"] = example.clicked_ids
        for name in ("query_words", "query_word_ngrams", "query_ngrams", "title_words",
                     "title_word_ngrams", "title_ngrams"):  # fmt: skip
            one.setdefault(name, [])
    clicked = Counter(
        (one["title_ids"][0], text_of(one, "title"))
        for one, is_real in zip(parsed, real, strict=True)
        if is_real
    )
    found = []
    for one in parsed:
        rivals: Counter = Counter()
        for position in range(1, min(len(one["title_ids"]), 1 + negatives)):
            rivals[text_of(one, "title", position)] += 1
        if in_batch:
            for (identity, words), times in clicked.items():
                if identity not in one["clicked_ids"]:
                    rivals[words] += times
        found.append((text_of(one, "query"), text_of(one, "title"), dict(rivals)))
    return found


def parts(longest: int) -> st.SearchStrategy[tuple[Part, ...]]:
    """Parts with rows padded, or not; the widths increase."""
    widths = st.lists(st.integers(1, longest), max_size=3, unique=True)
    rows_ = st.sampled_from([0, 2, 9])
    return st.tuples(widths, rows_).map(lambda one: tuple(Part(w, one[1]) for w in sorted(one[0])))


text_shapes = st.builds(TextShape, parts(4), parts(6))
shapes = st.builds(Shapes, text_shapes, text_shapes, st.sampled_from([0, 3, 20]))


@settings(max_examples=60, deadline=None)
@given(
    examples=st.lists(records, min_size=1, max_size=6),
    negatives=st.integers(0, 3),
    in_batch=st.booleans(),
    data=st.data(),
)
def test_any_batch_equals_the_rules_in_plain_python(examples, negatives, in_batch, data):
    others = len(examples) - 1
    real = [True, *data.draw(st.lists(st.booleans(), min_size=others, max_size=others))]
    found = rows(
        examples, negatives=negatives, in_batch=in_batch, real=real, shapes=data.draw(shapes)
    )
    for row, (query, title, rivals) in zip(
        found, oracle(examples, negatives, in_batch, real), strict=True
    ):
        assert row.query == query
        assert row.clicked == title
        assert row.positive == 1.0
        assert row.rivals == {key: approx(value, rel=1e-5) for key, value in rivals.items()}


# --------------------------------------------------------------------------------------- shapes


def one(columns: int, rows: int) -> tuple[Part, ...]:
    return (Part(columns, rows),)


def sizes(parts) -> list[tuple[int, ...]]:
    return [tuple(part.shape) for part in matrices(parts)]


def matrices(parts):
    return parts if isinstance(parts, tuple) else (parts,)


def test_a_batch_is_padded_to_the_planned_shapes_and_says_the_same():
    shapes = Shapes(TextShape(one(4, 3), one(7, 10)), TextShape(one(5, 12), one(8, 16)), 12)
    inputs, labels = batch(FOXES, shapes=shapes)
    assert sizes(inputs["query"]["tokens"]) == [(3, 4)]
    assert sizes(inputs["query"]["word_ngrams"]) == [(10, 7)]
    assert sizes(inputs["titles"]["tokens"]) == [(12, 5)]
    assert sizes(inputs["titles"]["word_ngrams"]) == [(16, 8)]
    padded, plain = rows_of(inputs, labels, np.ones(3)), rows(FOXES)
    assert [row.rivals for row in padded] == [
        {key: approx(value) for key, value in row.rivals.items()} for row in plain
    ]
    assert [row.clicked for row in padded] == [row.clicked for row in plain]


def test_a_batch_that_does_not_fit_grows_by_eighths_of_the_plan():
    # 4 distinct titles on a plan of 3: the step is max(3 // 8, 1) = 1, so 4. The longest has two
    # words, and `#green#` five trigrams; 7 words are 6 distinct ones and the padding.
    small = Shapes(titles=TextShape(one(1, 3), one(2, 3)), distinct_titles=3)
    titles = batch(FOXES, shapes=small)[0]["titles"]
    assert sizes(titles["tokens"]) == [(4, 2)]
    assert sizes(titles["word_ngrams"]) == [(7, 5)]
    # 32 words on a plan of 24 with steps of 3: 24, 27, 30, 33.
    long = [click("red " * 32, "fox")]
    grown = batch(long, shapes=Shapes(query=TextShape(texts=one(24, 1))))[0]
    assert sizes(grown["query"]["tokens"]) == [(1, 33)]


def test_rows_of_like_length_stand_together_and_each_text_knows_its_row():
    titles = TextShape((Part(1), Part(2)), (Part(3), Part(5)))
    inputs, _ = batch(FOXES, shapes=Shapes(titles=titles))
    found = inputs["titles"]
    # `fish` and `bear` have one word; `red fox` and `green owl` two.
    assert sizes(found["tokens"]) == [(2, 1), (2, 2)]
    # Padding, red, fox and owl have up to 3 trigrams; fish and bear 4, green 5.
    assert sizes(found["word_ngrams"]) == [(4, 3), (3, 5)]
    assert not found["word_ngrams"][0].numpy()[0].any()
    assert sorted(found["rows"].numpy()) == [0, 1, 2, 3]


def test_rows_of_parts_can_be_padded_too():
    titles = TextShape((Part(1, 5), Part(3, 4)), (Part(3, 6), Part(6, 8)))
    inputs, labels = batch(FOXES, shapes=Shapes(titles=titles, distinct_titles=10))
    assert sizes(inputs["titles"]["tokens"]) == [(5, 1), (4, 3)]
    assert sizes(inputs["titles"]["word_ngrams"]) == [(6, 3), (8, 6)]
    assert inputs["titles"]["rows"].shape == (10,)
    assert inputs["titles"]["rows"].numpy()[:4].max() <= 6  # 5 rows of the first part, then two
    assert rows_of(inputs, labels, np.ones(3))[0].clicked == text("red fox")


@pytest.mark.parametrize(
    "shape",
    [
        TextShape(),
        TextShape((Part(1), Part(2)), (Part(3), Part(5))),
        TextShape((Part(1, 5), Part(3, 8)), (Part(3, 6), Part(6, 8))),
    ],
)
@pytest.mark.parametrize("distinct_titles", [0, 10])
def test_queries_and_titles_in_one_text_batch_say_the_same(shape, distinct_titles):
    shapes = Shapes(texts=shape, distinct_titles=distinct_titles)
    inputs, labels = batch(FOXES, joint=True, shapes=shapes)
    assert set(inputs) == {"texts", "candidates"}
    joint, apart = rows_of(inputs, labels, np.ones(3)), rows(FOXES)
    assert [(row.query, row.clicked) for row in joint] == [
        (row.query, row.clicked) for row in apart
    ]
    assert [row.rivals for row in joint] == [
        {key: approx(value) for key, value in row.rivals.items()} for row in apart
    ]
    # `red`, `fox` and `owl` stand in queries and in titles, for both of which dropout draws.
    words = [
        tuple(row) for part in matrices(inputs["texts"]["word_ngrams"]) for row in part.numpy()
    ]
    named = [tuple(id for id in word if id) for word in words if any(word)]
    assert sorted(named) == sorted(text(word)[0] for word in ("red", "fox", "owl", *WORDS))


@pytest.mark.parametrize("in_batch", [True, False])
def test_rows_of_padding_among_the_titles_are_nobodys_candidate(in_batch):
    inputs, labels = batch(FOXES, in_batch=in_batch, shapes=Shapes(distinct_titles=20))
    assert inputs["candidates"].numpy()[labels["mask"].numpy()].max() < 4

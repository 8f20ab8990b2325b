"""Terms of training texts: from indices as from raw strings, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.terms import own_rows
from dssm_tf.data.texts import TextIndexer, TextShape, text_batch
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text_features import TextFeatures
from tests.clicks import Click, write_data

LOG = [
    Click("fox", "the red fox", 5),
    Click("owl", "the red owl the red owl", 2),
    Click("bear", "bear", 1),
    Click("foxes", "red fox story fox story", 1),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Preprocessed:
    path = tmp_path_factory.mktemp("terms") / "data"
    return Preprocessed(write_data(path, LOG, validation=(), negatives=1).path).with_whole_words()


@pytest.fixture(scope="module")
def frequencies(data) -> DocumentFrequencies:
    return data.document_frequencies


def test_frequencies_count_each_title_once(data, frequencies):
    assert frequencies.titles == 4
    assert frequencies.words == {
        "the": 2, "red": 3, "fox": 2, "owl": 1, "bear": 1, "story": 1
    }  # fmt: skip
    assert frequencies.pairs == {"the red": 2, "red fox": 2}
    words = [data.vocabulary.words(title) for title in data.texts("titles")]
    expected = DocumentFrequencies.from_titles(words)
    assert (frequencies.words, frequencies.pairs) == (expected.words, expected.pairs)


def terms_of(batch) -> tuple[list, list]:
    """For each text its pairs as IDF values; and the IDF of each token, in the order of texts."""
    batch = {
        key: [part.numpy() for part in value] if isinstance(value, tuple) else value.numpy()
        for key, value in batch.items()
    }
    count = len(batch["tokens"])
    pairs = [
        sorted(idf for (text, _), idf in zip(batch["pairs"], batch["pair_idf"], strict=True)
               if text == row)
        for row in range(count)
    ]  # fmt: skip
    tokens = [batch["word_idf"][row[row > 0]].tolist() for row in batch["tokens"]]
    return pairs, tokens


def test_indices_and_raw_strings_give_the_same_terms(data, frequencies):
    texts = TextIndexer(data).build_tensors(frequencies=frequencies)
    titles = data.texts("titles")
    words = tf.gather(texts.words, texts.first_title + tf.range(len(titles)))
    from_indices = text_batch(words, texts, TextShape(), tf.constant(len(titles)))
    from_strings = TextFeatures(data.vocabulary, frequencies)(tf.constant(titles))
    for values, expected in zip(terms_of(from_indices), terms_of(from_strings), strict=True):
        for value, expected_value in zip(values, expected, strict=True):
            assert value == pytest.approx(expected_value)
    pairs = dict(zip(titles, terms_of(from_indices)[0], strict=True))
    # 4 titles, 2 of them with each pair; a repeated pair counts once.
    assert pairs["the red fox"] == pytest.approx([np.log(2)] * 2)
    assert pairs["the red owl the red owl"] == pytest.approx([np.log(2)])
    assert pairs["bear"] == []


def test_a_batch_without_pairs_has_one_row_of_padding(data, frequencies):
    batch = TextFeatures(data.vocabulary, frequencies)(tf.constant(["bear", ""]))
    assert batch["pairs"].numpy().tolist() == [[2, 0]]
    assert batch["pair_idf"].numpy().tolist() == [0]


def test_an_unknown_word_counts_as_half_a_title(data, frequencies):
    batch = TextFeatures(data.vocabulary, frequencies)(tf.constant(["zzz"]))
    assert batch["word_idf"].numpy() == pytest.approx([0, np.log(4 / 0.5)])


def test_a_word_that_is_read_by_its_letters_lacks_its_own_row_only(data):
    texts = TextIndexer(data).build_tensors(mark_word_rows=True)
    names, _ = data.distinct_words
    fox, foxes = names.index("fox"), names.index("foxes")
    assert texts.has_own_row is not None
    assert texts.has_own_row[fox]  # in two titles
    assert not texts.has_own_row[foxes]  # occurs once
    words = tf.ragged.constant([[fox, foxes]])
    plain, without = (
        text_batch(words, texts, TextShape(), tf.constant(1), letters_only_mask)
        for letters_only_mask in (None, tf.constant(texts.has_own_row))
    )
    rows = [batch["word_ngrams"].numpy() for batch in (plain, without)]
    assert rows[1][1].tolist()[:3] == rows[0][1].tolist()[:3]  # the trigrams of fox
    assert (rows[0][1] > 0).sum() == 4
    assert (rows[1][1] > 0).sum() == 3
    assert rows[1][2].tolist() == rows[0][2].tolist()[: len(rows[1][2])]


def test_a_word_has_an_own_row_if_the_id_of_the_whole_word_follows_its_letter_ngrams():
    import pyarrow as pa

    ngrams = pa.array([[1, 2, 9], [1, 9, 2], [], [9]], pa.list_(pa.int32()))
    assert own_rows(ngrams, np.array([9])).tolist() == [True, False, False, False]

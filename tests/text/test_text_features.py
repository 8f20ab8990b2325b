"""Text handling in TensorFlow ops equals the one in pure Python, for any text."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import chain, combinations

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf import character_ops
from dssm_tf.text.characters import SPACE, character_map
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.text_features import TextFeatures
from tests.reference.unicode_strategies import KINDS, raw_bytes, texts

WITH_ACCENTS = TextRules(keep_accents=True)
KNOWN_TEXT = (
    "the cat et l'été ΟΔΟΣ шалом שלום 漢字 "
    "東京都 ｶﾞｯｺｳ ไทยที่นี่ ລາວ 👍🏽 a aaaa i istanbul b cafe\u0301 1939"
)
WORDS = [word for rules in (FOLDED, WITH_ACCENTS) for word in rules.words(KNOWN_TEXT)]


def known_ngrams(kinds, fields=()) -> list[str]:
    """The n-grams of the known words, first those of marked words."""
    words = [*(f"{field}{SEPARATOR}{word}" for field in fields for word in WORDS), *WORDS]
    return list(dict.fromkeys(n for word in words for n in letter_ngrams(word, kinds=kinds)))


RULES = {
    "defaults": FOLDED,
    "buckets": TextRules(False, hash_buckets=11),
    "tight": TextRules(False, max_words=2, max_letters=3, hash_buckets=5),
    "one letter, one word": TextRules(False, max_words=1, max_letters=1),
    "accents kept": TextRules(True, hash_buckets=11),
    "tight, accents kept": TextRules(True, max_words=2, max_letters=3),
    "own fields": TextRules(False, hash_buckets=11, own_fields=6),
    "tight, own fields": TextRules(False, max_words=3, max_letters=2, own_fields=2),
}
RULES |= {
    ", ".join(kinds): TextRules(False, hash_buckets=7, own_fields=3, letter_ngrams=kinds)
    for count in (1, 2, 3)
    for kinds in combinations(NGRAM_KINDS, count)
} | {
    "every kind, no buckets": TextRules(False, letter_ngrams=NGRAM_KINDS),
    "every kind, tight": TextRules(True, 2, 3, 5, 6, NGRAM_KINDS),
    "pairs of one letter": TextRules(False, max_letters=1, letter_ngrams=("pairs",)),
}
VOCABULARIES = {
    name: Vocabulary(
        known_ngrams(rules.letter_ngrams, (1, 2, 5) if rules.own_fields > 1 else ()), rules
    )
    for name, rules in RULES.items()
} | {
    "empty": Vocabulary([], FOLDED),
    "only buckets": Vocabulary([], TextRules(False, hash_buckets=3)),
    "every kind, only buckets": Vocabulary([], TextRules(False, 9, 9, 3, 2, NGRAM_KINDS)),
}
VOCABULARIES |= {
    f"{name}, whole words": vocabulary.with_words(
        [*WORDS, *(f"{field}{SEPARATOR}{word}" for word in WORDS for field in (1, 5))]
        if vocabulary.rules.own_fields > 1
        else WORDS
    )
    for name, vocabulary in VOCABULARIES.items()
}
# The default tests have each kind of n-grams, limit, and kind of rows at least once.
DEFAULT_TEST_NAMES = (
    "buckets",
    "tight",
    "accents kept",
    "tight, own fields",
    "pairs",
    "sorted_trigrams",
    "every kind, tight",
    "every kind, only buckets",
    "empty, whole words",
    "own fields, whole words",
    "every kind, no buckets, whole words",
)
SLOW_TEST_NAMES = tuple(name for name in VOCABULARIES if name not in DEFAULT_TEST_NAMES)
# Traced once each: the tests run the graphs, and examples run fast.
FEATURES = {name: TextFeatures(vocabulary) for name, vocabulary in VOCABULARIES.items()}
SIGNATURE = [tf.TensorSpec([None], tf.string)]
GRAPHS = {
    name: tf.function(features.__call__, input_signature=SIGNATURE)
    for name, features in FEATURES.items()
}
NORMALIZE = {
    rules: tf.function(
        lambda texts, rules=rules: character_ops.normalize(texts, rules),
        input_signature=SIGNATURE,
        autograph=False,
    )
    for rules in (FOLDED, WITH_ACCENTS)
}

RULE = st.sampled_from([FOLDED, WITH_ACCENTS])
fields = st.lists(texts | st.sampled_from(["the cat", "cat", "1939 b", ""]), max_size=8).map(
    SEPARATOR.join
)


def encoded(some_texts) -> list[bytes]:
    """Texts as UTF-8 bytes; lone surrogates are encoded by the same rule."""
    return [t if isinstance(t, bytes) else t.encode("utf-8", "surrogatepass") for t in some_texts]


def decoded(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def assert_same(name: str, some_texts) -> None:
    vocabulary = VOCABULARIES[name]
    batch = GRAPHS[name](tf.constant(encoded(some_texts), tf.string))
    words_of_texts = [vocabulary.words(decoded(text)) for text in some_texts]
    rows = {
        word: row for row, word in enumerate(dict.fromkeys(chain.from_iterable(words_of_texts)), 1)
    }
    longest = max(map(len, words_of_texts)) or 1
    assert batch["tokens"].numpy().tolist() == [
        [*(rows[word] for word in words), *[0] * (longest - len(words))] for words in words_of_texts
    ]
    table = batch["word_ngrams"].numpy()
    assert [tuple(filter(None, ids)) for ids in table.tolist()] == [
        (), *map(vocabulary.ngram_ids, rows)
    ]  # fmt: skip
    kinds = vocabulary.rules.letter_ngrams
    ngrams = (len(letter_ngrams(word, kinds=kinds)) for word in rows)
    assert table.shape[1] == (max(ngrams, default=0) + bool(vocabulary.whole_words) or 1)


@given(st.lists(texts | raw_bytes | fields, min_size=1, max_size=8), st.integers(0, 12), RULE)
def test_normalized_texts_equal_those_of_python_and_only_long_ones_are_truncated(
    some_texts, longest, rules
):
    keys = [rules.key(decoded(text)).encode() for text in some_texts]
    raw = tf.constant(encoded(some_texts), tf.string)
    assert NORMALIZE[rules](raw).numpy().tolist() == keys
    truncated_keys = character_ops.normalize(raw, rules, longest).numpy()
    for key, truncated in zip(keys, truncated_keys.tolist(), strict=True):
        assert truncated == key if len(key) <= longest else len(truncated) > longest


@pytest.mark.parametrize("keep", [False, True])
def test_letters_become_at_least_a_third_of_their_bytes(keep):
    for code, letters in character_map(keep).items():
        if letters not in (None, SPACE) and chr(code).isalpha():
            size = len((letters if isinstance(letters, str) else chr(letters)).encode())
            assert len(chr(code).encode()) <= character_ops._SHRINKS * size


# Runs of deleted characters, separators and letters, near and far beyond every limit. The string
# must be truncated at the same word as in Python.
runs = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *" \0-a\u00a0\u3000\u00ad\u200d\ufe0f\u0301\u0130\u212a\ud800\ufeff",
                "\n\t",
                "A\u00ad",
            ]
        ),
        st.sampled_from([1, 2, 3, 4, 63, 64, 65, 300]),
    ),
    max_size=9,
).map(lambda parts: "".join(part * count for part, count in parts))


EXAMPLES = {kind: (25, some_texts) for kind, some_texts in KINDS.items()} | {
    "any texts": (100, texts | raw_bytes | fields),
    "long runs": (300, runs | raw_bytes),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "names", [DEFAULT_TEST_NAMES, pytest.param(SLOW_TEST_NAMES, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_texts_of_each_kind_have_the_same_ngrams_as_in_python(kind, names):
    count, some_texts = EXAMPLES[kind]

    @settings(max_examples=count)
    @given(st.lists(some_texts, min_size=1, max_size=8), st.sampled_from(names))
    def check(some_texts, name):
        assert_same(name, some_texts)

    check()


@pytest.mark.parametrize(
    "unit",
    [
        "word ",
        "x",
        " ",
        "\u00ad",
        "w\u00ad",
        "\u6771 ",
        "\u6771",
        "\u6771x",
        "\u0e01\u0e48",
        "\u0e48",
        "\ud800",
        "\u0301",
        "ß",
        "\u1112\u1161\u11ab",
        "\uff76\uff9e",
    ],
)
def test_a_text_of_any_length_is_read_up_to_the_limit_of_words(unit):
    for name in ("buckets", "tight", "tight, own fields"):
        assert_same(name, ["a cat␟a cat", f"first {unit * 3000} last", ""])


LIMITED = """
import resource, sys, tensorflow as tf
from dssm_tf.character_ops import normalize
from dssm_tf.text_features import TextFeatures
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
features = TextFeatures(Vocabulary(["#ca", "cat", "at#"], FOLDED))
read = tf.function(
    lambda texts: (features(texts), normalize(texts, FOLDED, 100)),
    input_signature=[tf.TensorSpec([None], tf.string)],
)
titles = ["a cat number %d" % number for number in range(1000)]
read(tf.constant(titles))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for text in ("word " * 200_000, "x" * 1_000_000, " " * 1_000_000, "\u6771" * 300_000):
    read(tf.constant([*titles, text]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.long
def test_the_memory_for_a_long_text_does_not_depend_on_the_other_texts():
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True
    )
    # The text has a megabyte, so a few copies of it; a thousand copies would be a gigabyte.
    assert int(done.stdout) < 300


def compare_code_points(codes) -> None:
    some_texts = [f"a{chr(code)}B {chr(code)}" for code in codes]
    raw = tf.constant(encoded(some_texts))
    for rules, name in ((FOLDED, "buckets"), (WITH_ACCENTS, "accents kept")):
        normalized = NORMALIZE[rules](raw).numpy().tolist()
        assert normalized == [rules.key(text).encode() for text in some_texts]
        assert_same(name, some_texts)


def test_a_sample_of_code_points_is_treated_as_in_python():
    with_accents, folded = (character_map(keep) for keep in (True, False))
    accented = [code for code, to in folded.items() if with_accents.get(code) != to]
    sample = random.Random(0).sample(range(sys.maxunicode + 1), 4_000)
    compare_code_points([*range(0x600), *range(0x1E00, 0x2000), *accented, *sample])


@pytest.mark.slow
def test_every_code_point_is_treated_as_in_python():
    for start in range(0, sys.maxunicode + 1, 0x10000):
        compare_code_points(range(start, start + 0x10000))


def test_a_batch_by_hand():
    features = TextFeatures(Vocabulary(["#ca", "cat", "at#", "#a#"], FOLDED))
    batch = features(tf.constant(["A cat!", "", "cat dog cat"]))
    # Distinct words in order of appearance: a = 1, cat = 2, dog = 3; dog has no known trigram.
    assert batch["word_ngrams"].numpy().tolist() == [[0, 0, 0], [4, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert batch["tokens"].numpy().tolist() == [[1, 2, 0], [0, 0, 0], [2, 3, 2]]
    assert batch["word_ngrams"].dtype == batch["tokens"].dtype == tf.int32


def test_a_batch_of_every_kind_by_hand():
    rules = TextRules(False, letter_ngrams=NGRAM_KINDS)
    ngrams = ["#c", "ca", "at", "t#", "#ca", "cat", "at#", "~#ac", "~act", "~#at", "#cat#"]
    batch = TextFeatures(Vocabulary(ngrams, rules))(tf.constant(["act at"]))
    # act: #a ac ct t#, #ac act ct#, ~#ac ~act ~#ct, #act#;  at: #a at t#, #at at#, ~#at ~#at, #at#
    assert batch["word_ngrams"].numpy().tolist() == [
        [0] * 11,
        [0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0],
        [0, 3, 4, 0, 7, 10, 10, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    "name",
    [
        *DEFAULT_TEST_NAMES,
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_TEST_NAMES),
    ],
)
def test_a_batch_without_texts_is_defined(name):
    batch = GRAPHS[name](tf.constant([], tf.string))
    assert batch["tokens"].shape == (0, 1)
    assert batch["word_ngrams"].numpy().tolist() == [[0]]
    for normalize in NORMALIZE.values():
        assert normalize(tf.constant([], tf.string)).shape == (0,)


def test_the_graph_needs_no_table_and_no_python():
    graph = GRAPHS["buckets"].get_concrete_function().graph.as_graph_def()
    kinds = {node.op for node in graph.node}
    kinds |= {node.op for function in graph.library.function for node in function.node_def}
    assert "UnicodeDecode" in kinds
    assert not {kind for kind in kinds if "Table" in kind or "PyFunc" in kind or "Var" in kind}

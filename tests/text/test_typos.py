"""Typing errors added to queries."""

from __future__ import annotations

from collections import Counter
from string import ascii_lowercase

import pytest

from dssm_tf.text.typos import with_typo

# All edits of abcd after its first letter: at b or at c.
EDITS = {
    "deletion": {"acd", "abd"},
    "transposition": {"acbd", "abdc"},
    "substitution": {f"a{x}cd" for x in ascii_lowercase if x != "b"}
    | {f"ab{x}d" for x in ascii_lowercase if x != "c"},
    "insertion": {f"a{x}bcd" for x in ascii_lowercase} | {f"ab{x}cd" for x in ascii_lowercase},
}


def test_all_kinds_of_edits_of_the_longest_word_are_equally_likely():
    kinds, words = Counter(), set()
    for number in range(400):
        first, changed, last = with_typo(f"{number}xyz abcd box").split()
        assert (first, last) == (f"{number}xyz", "box")
        (kind,) = (kind for kind, edited in EDITS.items() if changed in edited)
        kinds[kind] += 1
        words.add(changed)
    # 100 of each expected, standard deviation 8.7.
    assert min(kinds[kind] for kind in EDITS) > 65
    assert words >= EDITS["deletion"] | EDITS["transposition"]  # at every offset
    assert len({with_typo("abcd", seed) for seed in range(9)}) > 1


@pytest.mark.parametrize("query", ["", "box", "2 x 4 in.", "16x25x1 air"])
def test_words_of_fewer_than_four_letters_are_unchanged(query):
    assert with_typo(query) == query


@pytest.mark.parametrize("query", ["aaaa", "книги", "Zzzz-rated", "front door"])
def test_an_edit_changes_the_query_and_is_deterministic(query):
    assert with_typo(query) == with_typo(query) != query


def test_on_ties_the_first_of_the_longest_words_is_edited():
    assert all(with_typo(f"{n} abcd efgh").endswith(" efgh") for n in range(20))

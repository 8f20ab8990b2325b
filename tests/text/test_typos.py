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


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("red running shoes", ["red runnipg shoes", "red runnig shoes", "red runing shoes"]),
        ("Leixões 2018", ["Lxixões 2018", "Leicxões 2018", "Lerixões 2018"]),
        ("беговые кроссовки", ["беговые крcссовки", "беговые крссовки", "беговые кросkовки"]),
        ("데스크탑 컴퓨터", ["데스탑크 컴퓨터", "데d크탑 컴퓨터", "데크스탑 컴퓨터"]),
        ("قميص أحمر", ["قيمص أحمر", "قmيص أحمر", "قمصي أحمر"]),
        ("O'Neill wetsuit", ["O'Neill wetsvuit", "O'Neill wetruit", "O'Neill wetsit"]),
        ("iphone 手机壳", ["iphoe 手机壳", "ihpone 手机壳", "iphjone 手机壳"]),
    ],
)
def test_the_errors_of_a_text_are_the_same_in_every_version(query, expected):
    assert [with_typo(query, seed) for seed in range(3)] == expected


@pytest.mark.parametrize(
    "query",
    [
        "红色羊毛帽子",
        "東京タワーの写真",
        "ノートパソコン 15",
        "ﾉｰﾄﾊﾟｿｺﾝ",
        "รองเท้าผ้าใบ",
        "ຫມວກແດງ",
        "ស្បែកជើង",
        "ဖိနပ်အနီရောင်",
        "abc東京タワー",
    ],
)
def test_words_of_scripts_without_spaces_are_unchanged(query):
    assert {with_typo(query, seed) for seed in range(40)} == {query}


def test_beside_a_script_without_spaces_the_longest_other_word_is_edited():
    for number in range(40):
        changed = with_typo("手机壳保护套case红色的", number)
        assert changed.startswith("手机壳保护套c")
        assert changed.endswith("红色的")
        assert changed != "手机壳保护套case红色的"

"""Rules by hand for search: similar words, words that never match, pinned and blocked titles.

A file of rules is UTF-8 text with one rule per line and tabs between its cells:

    similar  WORD   WORD   SIMILARITY      the similarity of two words
    never    WORD   WORD                   two words that never match
    pin      QUERY  TITLE                  a title that comes first for a query
    block    QUERY  TITLE                  a title that is left out for a query

Blank lines and lines that begin with `#` are ignored. docs/rules.md says what rules do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.errors import UserError, similar_name_hint
from dssm_tf.common.files import refuse_special_file
from dssm_tf.common.numbers import read_number
from dssm_tf.text.fields import mark_word, split_mark
from dssm_tf.text.vocabulary import Vocabulary

SIMILAR, NEVER, PIN, BLOCK = "similar", "never", "pin", "block"

_CELLS = {
    SIMILAR: ("WORD", "WORD", "SIMILARITY"),
    NEVER: ("WORD", "WORD"),
    PIN: ("QUERY", "TITLE"),
    BLOCK: ("QUERY", "TITLE"),
}


class WordRule(NamedTuple):
    """The similarity of two words in both directions; 0 if they never match.

    Attributes:
        words: the two words as the model reads them.
        similarity: from 0 to 1.
        line: the number of the line in the file, from 1.
    """

    words: tuple[str, str]
    similarity: float
    line: int


class TitleRule(NamedTuple):
    """A title that comes first for a query, or is left out.

    Attributes:
        query: the words of the query, joined by spaces.
        title: the id of the title, or its text.
        pinned: whether the title comes first; otherwise it is left out.
        line: the number of the line in the file, from 1.
    """

    query: str
    title: str
    pinned: bool
    line: int


@dataclass(frozen=True)
class SearchRules:
    """The rules of a file.

    Args:
        words: at most one rule for two words.
        titles: at most one rule for a query and a title, in the order of the file.
        text: the content of the file.
    """

    words: Sequence[WordRule] = ()
    titles: Sequence[TitleRule] = ()
    text: str = field(default="", repr=False)

    def __len__(self) -> int:
        return len(self.words) + len(self.titles)

    @cached_property
    def _rules_of_word(self) -> Mapping[str, Mapping[str, WordRule]]:
        rules: dict[str, dict[str, WordRule]] = {}
        for rule in self.words:
            first, second = rule.words
            rules.setdefault(first, {})[second] = rule
            rules.setdefault(second, {})[first] = rule
        return rules

    @cached_property
    def _rules_of_query(self) -> Mapping[str, Sequence[TitleRule]]:
        rules: dict[str, list[TitleRule]] = {}
        for rule in self.titles:
            rules.setdefault(rule.query, []).append(rule)
        return rules

    def between(self, word: str, other: str) -> WordRule | None:
        """The rule for two words, in any field of a title; None if there is none."""
        return self._rules_of_word.get(split_mark(word)[1], {}).get(split_mark(other)[1])

    def of_word(self, word: str, fields: int = 1) -> Iterator[tuple[str, float]]:
        """The words whose similarity to a word is set, and these similarities.

        Args:
            word: the word.
            fields: the number of fields with separate words, see `TextRules.own_fields`.
        """
        for other, rule in self._rules_of_word.get(split_mark(word)[1], {}).items():
            for field_number in range(fields):
                yield mark_word(other, field_number), rule.similarity

    def of_query(self, words: Sequence[str]) -> Sequence[TitleRule]:
        """The pinned and blocked titles of a query, in the order of the file."""
        return self._rules_of_query.get(" ".join(words), ())


NO_RULES = SearchRules()


def read_rules(path: Path, vocabulary: Vocabulary) -> SearchRules:
    """Reads a file of rules.

    Args:
        path: the file.
        vocabulary: the vocabulary of the model, which splits texts into words.

    Raises:
        UserError: naming the file and the line: the file cannot be read, a rule is not valid, or
            two rules are about the same words, or about the same query and title.
    """
    refuse_special_file(path, "Write the rules to a file first.")
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        line_number = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}:{line_number}: the text is not UTF-8; save the file as UTF-8."
        ) from None
    rules = _Parser(vocabulary)
    for line_number, line in enumerate(content.replace("\r\n", "\n").split("\n"), start=1):
        try:
            rules.add(line, line_number)
        except ValueError as error:
            raise UserError(f"{path}:{line_number}: {error}") from None
    return SearchRules(tuple(rules.words), tuple(rules.titles), content)


class _Parser:
    """Collects the rules of lines; `add` raises ValueError if a line has none."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.words: list[WordRule] = []
        self.titles: list[TitleRule] = []
        self._lines: dict[tuple[str, str], int] = {}

    def add(self, line: str, line_number: int) -> None:
        """Adds the rule of a line, if it has one."""
        cells = [cell.strip() for cell in line.rstrip().split("\t")]
        if cells == [""] or cells[0].startswith("#"):
            return
        kind, values = cells[0], cells[1:]
        if kind not in _CELLS:
            raise ValueError(
                f"{kind!r:.60} is no kind of rule; expected {', '.join(_CELLS)}, then a tab."
                f"{similar_name_hint(kind, _CELLS)}"
            )
        if len(values) != len(_CELLS[kind]) or not all(values):
            raise ValueError(
                f"the rule has the cells {[kind, *values]!r:.120}; expected "
                f"{', '.join((kind, *_CELLS[kind]))}, with a tab between two cells"
            )
        if kind in (PIN, BLOCK):
            self._add_title(kind, values, line_number)
        else:
            self._add_words(values, line_number)

    def _add_words(self, values: Sequence[str], line_number: int) -> None:
        first, second = sorted(map(self._word, values[:2]))
        if first == second:
            raise ValueError(f"{values[0]!r} and {values[1]!r} are the same word, {first!r}")
        self._check_unique((first, second), line_number)
        similarity = _similarity(values[2]) if len(values) > 2 else 0.0
        self.words.append(WordRule((first, second), similarity, line_number))

    def _add_title(self, kind: str, values: Sequence[str], line_number: int) -> None:
        query, title = values
        words = self._vocabulary.words(query)
        if not words:
            raise ValueError(f"the query {query!r:.60} has no word")
        rule = TitleRule(" ".join(words), title, kind == PIN, line_number)
        self._check_unique((f"{rule.query}\t", rule.title), line_number)
        self.titles.append(rule)

    def _word(self, text: str) -> str:
        """The word of a cell."""
        words = self._vocabulary.words(text)
        if len(words) != 1:
            first_words = " ".join(map(repr, words[:5]))
            raise ValueError(
                f"{text!r:.60} has {len(words)} words{f': {first_words}' if first_words else ''}; "
                "expected one word, as the model splits texts"
            )
        return words[0]

    def _check_unique(self, key: tuple[str, str], line_number: int) -> None:
        """Raises ValueError if an earlier line is about the same two words, or query and title."""
        if key in self._lines:
            names = " and ".join(repr(name.strip()) for name in key)
            raise ValueError(
                f"line {self._lines[key]} is about {names} already; delete one of the lines"
            )
        self._lines[key] = line_number


def _similarity(text: str) -> float:
    """The similarity of a cell."""
    try:
        value = read_number(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise ValueError(
            f"the similarity is {text!r:.60}; expected a number above 0 and up to 1, such as 0.9; "
            f"words of similarity 0 have the rule {NEVER}"
        )
    return value

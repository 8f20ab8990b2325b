"""The columns of people's files, and the rules by which their cells become values.

Rules read a whole column at once; a cell that is unusual is read by the function of `cells` that
says what such a cell may hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dssm_tf.tables import cells
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import TITLE
from dssm_tf.text.fields import SEPARATOR

WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""As `str.strip` takes it away; Polars' own list lacks U+001C to U+001F."""
NULL_MARKERS = frozenset(
    ("-", "--", r"\n", "null", "none", "nil", "nan", "na", "n/a", "#n/a", "<na>", "(null)",
     "<null>", "(none)", "undefined")
)  # fmt: skip
"""Cells by which databases and spreadsheets say that there is no value, in lower case."""

Bad = dict[int, BadRow]
"""Why rows cannot be used, by their place in the column."""
Rule = Callable[[pl.Series, str], tuple[pl.Series, Bad]]
"""Makes values of the strings of a column, whose name is for messages."""

TEXT_KINDS: frozenset[type] = frozenset({str})
ID_KINDS: frozenset[type] = frozenset({str, int})
NUMBER_KINDS: frozenset[type] = frozenset({str, int, float})
ANY_KIND: frozenset[type] = frozenset({str, int, float, bool, list, dict})


@dataclass(frozen=True)
class Column:
    """A column of a file.

    Args:
        name: in frames, and in files unless `--columns` says otherwise.
        rule: what makes values of its cells.
        dtype: of the values.
        kinds: the types of JSON and Parquet that a cell may have.
        wrong_kind: the reason for any other; `{}` stands for the name.
        required: whether a file must have it.
        mends_surrogates: whether half a character in JSON becomes U+FFFD; else the row is rejected.
    """

    name: str
    rule: Rule
    dtype: type[pl.DataType] = pl.String
    kinds: frozenset[type] = TEXT_KINDS
    wrong_kind: str = "{} is not text"
    required: bool = True
    mends_surrogates: bool = True

    def named(self, name: str) -> Column:
        """The same under another name."""
        return replace(self, name=name)

    @property
    def optional(self) -> Column:
        """The same, which a file may lack."""
        return replace(self, required=False)


def _one_line(column: pl.Series) -> pl.Series:
    """Texts without what would end a cell or a line of a table."""
    if column.str.contains("[\t\r\n]").any():
        return column.str.replace_all("[\t\r\n]", " ")
    return column


def _nulls(column: pl.Series, name: str, what: str) -> Bad:
    reason = BadRow(f"no {name}", f"{name!r} is None; expected {what}")
    return dict.fromkeys(column.is_null().arg_true().to_list(), reason)


def _blanks(column: pl.Series, name: str) -> Bad:
    reason = BadRow(f"empty {name}", f"the {name} is empty")
    return dict.fromkeys((column == "").arg_true().to_list(), reason)


def _text(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts on one line, perhaps empty."""
    return _one_line(column), _nulls(column, name, "text")


def _clean_text(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts on one line without white space at their ends, none of them empty."""
    values = _one_line(column).str.strip_chars(WHITE_SPACE)
    return values, _nulls(values, name, "text") | _blanks(values, name)


def _query(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Clean texts without the separator of titles."""
    values, bad = _clean_text(column, name)
    return values, _separators(values, name) | bad


def _separators(values: pl.Series, name: str) -> Bad:
    """The texts that hold what divides the fields of a title."""
    bad: Bad = {}
    for row in values.str.contains(SEPARATOR, literal=True).arg_true().to_list():
        try:
            cells.without_separator(values[row], name)
        except BadRow as reason:
            bad[row] = reason
    return bad


def _title_field(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Fields of a title, perhaps empty, without white space at their ends."""
    values = _one_line(column).fill_null("").str.strip_chars(WHITE_SPACE)
    return values, _separators(values, name)


def _identifier(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts that are not blank, or whole numbers."""
    values = _one_line(column)
    blank = values.str.strip_chars(WHITE_SPACE)
    return values, _nulls(column, name, "text or a whole number") | _blanks(blank, name)


def _optional_text(column: pl.Series, _: str) -> tuple[pl.Series, Bad]:
    """Texts on one line without white space at their ends; empty where there is none."""
    return _one_line(column).fill_null("").str.strip_chars(WHITE_SPACE), {}


def _name(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """As `_optional_text`, but a null marker is no text."""
    values, bad = _optional_text(column, name)
    null = values.str.to_lowercase().is_in(NULL_MARKERS)
    return values.zip_with(~null, pl.Series([""])), bad


def _as_it_is(column: pl.Series, _: str) -> tuple[pl.Series, Bad]:
    """Cells as they are, null where there is none."""
    return column, {}


def _numbers(
    column: pl.Series, dtype: type[pl.DataType], read: Callable[[str | None], float]
) -> tuple[pl.Series, Bad]:
    """Numbers: usual cells all at once, the others one by one.

    Args:
        column: the cells.
        dtype: of the values; what it casts is what `read` gives.
        read: a cell; raises `BadRow`.
    """
    values = column.cast(dtype, strict=False)
    odd = values.is_null().arg_true()
    bad: Bad = {}
    if len(odd):
        known: dict[str | None, float | BadRow] = {}
        mended = []
        for row, cell in zip(odd.to_list(), column.gather(odd).to_list(), strict=True):
            if cell not in known:
                try:
                    known[cell] = read(cell)
                except BadRow as reason:
                    known[cell] = reason
            value = known[cell]
            if isinstance(value, BadRow):
                bad[row] = value
                value = 0
            mended.append(value)
        values = values.scatter(odd, pl.Series(mended, dtype=dtype))
    return values, bad


def counts(default: int) -> Rule:
    """The rule of counts: whole numbers from 0 to 2**40; an empty cell is the default."""

    def rule(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
        values, bad = _numbers(column, pl.Int64, lambda cell: cells.count(cell, name, default))
        for row in (~values.is_between(0, cells.MAX_COUNT)).arg_true().to_list():
            try:
                cells.count(column[row], name, default)
            except BadRow as reason:
                bad[row] = reason
        return values, bad

    return rule


def _position(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Positions from 1; 0 where it is unknown or no whole number."""
    values, bad = counts(0)(column, name)
    return (values.scatter([*bad], 0) if bad else values), {}


def numbers(least: float = -math.inf, most: float = math.inf, *, above: bool = False) -> Rule:
    """The rule of numbers within limits.

    Args:
        least: the smallest.
        most: the largest.
        above: whether the smallest itself is too small.
    """

    def read(cell: str | None, name: str) -> float:
        value = cells.number(cell, name, least, most)
        if above and value == least:
            raise BadRow(
                f"{name} out of range",
                f"{name} {cell!r:.40}; expected a number above {least:g} and at most {most:g}",
            )
        return value

    def rule(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
        values, bad = _numbers(column, pl.Float64, lambda cell: read(cell, name))
        inside = values.is_between(least, most, "right" if above else "both")
        outside = ~inside | values.is_nan()
        for row in outside.arg_true().to_list():
            try:
                read(column[row], name)
            except BadRow as reason:
                bad.setdefault(row, reason)
        return values, bad

    return rule


def text(name: str) -> Column:
    """A column of texts on one line, perhaps empty."""
    return Column(name, _text)


def clean_text(name: str) -> Column:
    """A column of texts on one line that are not empty."""
    return Column(name, _clean_text, mends_surrogates=False)


def identifier(name: str) -> Column:
    """A column of ids."""
    return Column(name, _identifier, kinds=ID_KINDS, wrong_kind="no {}")


def count(name: str, default: int = 0) -> Column:
    """A column of counts."""
    return Column(name, counts(default), pl.Int64, NUMBER_KINDS, "{} is not a number")


def number(
    name: str, least: float = -math.inf, most: float = math.inf, *, above: bool = False
) -> Column:
    """A column of numbers within limits, see `numbers`."""
    rule = numbers(least, most, above=above)
    return Column(name, rule, pl.Float64, NUMBER_KINDS, "{} is not a number")


def raw(name: str, *, required: bool = True) -> Column:
    """A column of cells as they are; what is nested in JSON stays JSON."""
    return Column(name, _as_it_is, kinds=ANY_KIND, required=required)


def title_field(name: str) -> Column:
    """A column that is one of several which make up a title."""
    return Column(name, _title_field, kinds=ID_KINDS, wrong_kind="no {}", mends_surrogates=False)


_OPTIONAL_NAME = Column("", _name, kinds=ANY_KIND, required=False)
CLICK_LOG = (
    Column("query", _query, mends_surrogates=False),
    clean_text(TITLE),
    count("clicks", 1).optional,
    count("impressions").optional,
    _OPTIONAL_NAME.named("session_id"),
    Column("timestamp", _optional_text, kinds=ANY_KIND, required=False),
    Column("position", _position, pl.Int64, ANY_KIND, required=False),
    _OPTIONAL_NAME.named("doc_id"),
)
CORPUS = (identifier("doc_id"), text(TITLE))
JUDGMENTS = (
    identifier("query_id"),
    text("query"),
    *CORPUS,
    number("grade", 0, cells.LARGEST_GRADE),
)


NUMERIC = frozenset(
    column.name for column in (*CLICK_LOG, *JUDGMENTS) if column.kinds == NUMBER_KINDS
)
"""The columns whose cells are numbers."""


def scores(column: str, limits: tuple[float, float]) -> Sequence[Column]:
    """The columns of graded lists: `query`, `title`, and a grade or a score."""
    return clean_text("query"), clean_text(TITLE), number(column, *limits)


def named(columns: Iterable[Column], *names: str) -> list[Column]:
    """The columns of these names."""
    by_name: dict[str, Any] = {column.name: column for column in columns}
    return [by_name[name] for name in names]

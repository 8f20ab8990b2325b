"""The columns of users' files, and the rules by which their cells become values.

A rule parses a full column at once; unusual cells are parsed one by one by a function of `cells`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from dssm_tf.tables import cells
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import TITLE
from dssm_tf.text.fields import SEPARATOR

WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""The characters that `str.strip` removes; those of Polars lack U+001C to U+001F."""
NULL_MARKERS = frozenset(
    ("-", "--", r"\n", "null", "none", "nil", "nan", "na", "n/a", "#n/a", "<na>", "(null)",
     "<null>", "(none)", "undefined")
)  # fmt: skip
"""Cells that mean a missing value in databases and spreadsheets, in lower case."""

Bad = dict[int, BadRow]
"""Reasons why rows cannot be used, by their index in the column."""
Rule = Callable[[pl.Series, str], tuple[pl.Series, Bad]]
"""Parses the strings of a column with a name (for messages) to values and bad rows."""

TEXT_KINDS: frozenset[type] = frozenset({str})
ID_KINDS: frozenset[type] = frozenset({str, int})
NUMBER_KINDS: frozenset[type] = frozenset({str, int, float})
ANY_KIND: frozenset[type] = frozenset({str, int, float, bool, list, dict})


@dataclass(frozen=True)
class Column:
    """A column of a file.

    Args:
        name: name of the column in frames, and in files unless `--columns` renames it.
        rule: parses its cells.
        dtype: type of the values.
        kinds: the types that a cell of JSON or Parquet may have.
        wrong_kind: the reason to reject other types; `{}` stands for the name.
        required: whether a file must have it.
        replace_surrogates: whether surrogates in JSON become U+FFFD; else the row is rejected.
    """

    name: str
    rule: Rule
    dtype: type[pl.DataType] = pl.String
    kinds: frozenset[type] = TEXT_KINDS
    wrong_kind: str = "{} is not text"
    required: bool = True
    replace_surrogates: bool = True

    def with_name(self, name: str) -> Column:
        """A copy with another name."""
        return replace(self, name=name)

    @property
    def optional(self) -> Column:
        """A copy that is not required."""
        return replace(self, required=False)


def _without_breaks(column: pl.Series) -> pl.Series:
    """Replaces tabs and line ends by spaces."""
    if column.str.contains("[\t\r\n]").any():
        return column.str.replace_all("[\t\r\n]", " ")
    return column


def _nulls(column: pl.Series, name: str, expected: str) -> Bad:
    reason = BadRow(f"no {name}", f"{name!r} is None; expected {expected}")
    return dict.fromkeys(column.is_null().arg_true().to_list(), reason)


def _blanks(column: pl.Series, name: str) -> Bad:
    reason = BadRow(f"empty {name}", f"the {name} is empty")
    return dict.fromkeys((column == "").arg_true().to_list(), reason)


def _text(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts on one line; may be empty."""
    return _without_breaks(column), _nulls(column, name, "text")


def _clean_text(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts on one line without white space at their ends, none of them empty."""
    values = _without_breaks(column).str.strip_chars(WHITE_SPACE)
    return values, _nulls(values, name, "text") | _blanks(values, name)


def _query(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Clean texts without the separator of titles."""
    values, bad = _clean_text(column, name)
    return values, _separators(values, name) | bad


def _separators(values: pl.Series, name: str) -> Bad:
    """The rows whose texts contain the separator of the fields of a title."""
    bad: Bad = {}
    for row in values.str.contains(SEPARATOR, literal=True).arg_true().to_list():
        try:
            cells.without_separator(values[row], name)
        except BadRow as reason:
            bad[row] = reason
    return bad


def _title_field(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Fields of a title without white space at their ends; may be empty."""
    values = _without_breaks(column).fill_null("").str.strip_chars(WHITE_SPACE)
    return values, _separators(values, name)


def _identifier(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts that are not blank, or whole numbers."""
    values = _without_breaks(column)
    blank = values.str.strip_chars(WHITE_SPACE)
    return values, _nulls(column, name, "text or a whole number") | _blanks(blank, name)


def _optional_text(column: pl.Series, _: str) -> tuple[pl.Series, Bad]:
    """Texts on one line without white space at their ends; missing ones are empty."""
    return _without_breaks(column).fill_null("").str.strip_chars(WHITE_SPACE), {}


def _optional_id(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
    """Texts as in `_optional_text`; null markers become empty."""
    values, bad = _optional_text(column, name)
    null = values.str.to_lowercase().is_in(NULL_MARKERS)
    return values.zip_with(~null, pl.Series([""])), bad


def _unchanged(column: pl.Series, _: str) -> tuple[pl.Series, Bad]:
    """Cells unchanged; missing ones are null."""
    return column, {}


def _numbers(
    column: pl.Series, dtype: type[pl.DataType], read: Callable[[str | None], float]
) -> tuple[pl.Series, Bad]:
    """Parses numbers: usual cells by one cast, each distinct value of the others once.

    Args:
        column: the cells.
        dtype: type of the values; where a cast to it succeeds, the result must equal `read`.
        read: parses a cell; raises `BadRow`.
    """
    values = column.cast(dtype, strict=False)
    unusual = values.is_null().arg_true()
    bad: Bad = {}
    if len(unusual):
        unusual_cells = column.gather(unusual)
        parsed: dict[str | None, float] = {}
        reasons: dict[str | None, BadRow] = {}
        for cell in unusual_cells.unique().to_list():
            try:
                parsed[cell] = read(cell)
            except BadRow as reason:
                parsed[cell], reasons[cell] = 0, reason
        if reasons:
            rows = zip(unusual.to_list(), unusual_cells.to_list(), strict=True)
            bad = {row: reasons[cell] for row, cell in rows if cell in reasons}
        replacements = unusual_cells.replace_strict(
            [*parsed], pl.Series([*parsed.values()], dtype=dtype), return_dtype=dtype
        )
        values = values.scatter(unusual, replacements)
    return values, bad


def counts(default: int) -> Rule:
    """The rule of counts: integers from 0 to 2**40; an empty cell is the default."""

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
    """Positions from 1; unknown ones and those that are not whole numbers become 0."""
    values, bad = counts(0)(column, name)
    return (values.scatter([*bad], 0) if bad else values), {}


def numbers(
    minimum: float = -math.inf, maximum: float = math.inf, *, exclude_minimum: bool = False
) -> Rule:
    """The rule of numbers within limits.

    Args:
        minimum: lower limit.
        maximum: upper limit.
        exclude_minimum: whether the lower limit itself is outside.
    """

    def read(cell: str | None, name: str) -> float:
        value = cells.number(cell, name, minimum, maximum)
        if exclude_minimum and value == minimum:
            raise BadRow(
                f"{name} out of range",
                f"{name} {cell!r:.40}; expected a number above {minimum:g} and at most {maximum:g}",
            )
        return value

    def rule(column: pl.Series, name: str) -> tuple[pl.Series, Bad]:
        values, bad = _numbers(column, pl.Float64, lambda cell: read(cell, name))
        inside = values.is_between(minimum, maximum, "right" if exclude_minimum else "both")
        outside = ~inside | values.is_nan()
        for row in outside.arg_true().to_list():
            try:
                read(column[row], name)
            except BadRow as reason:
                bad.setdefault(row, reason)
        return values, bad

    return rule


def text(name: str) -> Column:
    """A column of texts on one line; may be empty."""
    return Column(name, _text)


def clean_text(name: str) -> Column:
    """A column of texts on one line that are not empty."""
    return Column(name, _clean_text, replace_surrogates=False)


def identifier(name: str) -> Column:
    """A column of ids."""
    return Column(name, _identifier, kinds=ID_KINDS, wrong_kind="no {}")


def count(name: str, default: int = 0) -> Column:
    """A column of counts."""
    return Column(name, counts(default), pl.Int64, NUMBER_KINDS, "{} is not a number")


def number(
    name: str,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    *,
    exclude_minimum: bool = False,
) -> Column:
    """A column of numbers within limits, see `numbers`."""
    rule = numbers(minimum, maximum, exclude_minimum=exclude_minimum)
    return Column(name, rule, pl.Float64, NUMBER_KINDS, "{} is not a number")


def unchanged(name: str, *, required: bool = True) -> Column:
    """A column of unchanged cells; nested JSON values remain JSON strings."""
    return Column(name, _unchanged, kinds=ANY_KIND, required=required)


def stored(name: str) -> Column:
    """A column that an index stores: texts and numbers; null markers become empty."""
    return Column(name, _optional_id, kinds=ANY_KIND)


def title_field(name: str) -> Column:
    """A column with one of the fields of a title."""
    return Column(name, _title_field, kinds=ID_KINDS, wrong_kind="no {}", replace_surrogates=False)


_OPTIONAL_ID = Column("", _optional_id, kinds=ANY_KIND, required=False)
CLICK_LOG = (
    Column("query", _query, replace_surrogates=False),
    clean_text(TITLE),
    count("clicks", 1).optional,
    count("impressions").optional,
    _OPTIONAL_ID.with_name("session_id"),
    Column("timestamp", _optional_text, kinds=ANY_KIND, required=False),
    Column("position", _position, pl.Int64, ANY_KIND, required=False),
    _OPTIONAL_ID.with_name("doc_id"),
)
CORPUS = (identifier("doc_id"), text(TITLE))
JUDGMENTS = (
    identifier("query_id"),
    text("query"),
    *CORPUS,
    number("grade", 0, cells.MAX_GRADE),
)


NUMERIC = frozenset(
    column.name for column in (*CLICK_LOG, *JUDGMENTS) if column.kinds == NUMBER_KINDS
)
"""Names of the columns whose cells are numbers."""


def scores(name: str, limits: tuple[float, float]) -> Sequence[Column]:
    """The columns of graded lists: `query`, `title`, and a grade or a score."""
    return clean_text("query"), clean_text(TITLE), number(name, *limits)

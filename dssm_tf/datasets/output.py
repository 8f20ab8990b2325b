"""What an adapter writes: clicks, corpus, judgments; titles and events are held in memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.judgments import (
    CORPUS_COLUMNS,
    JUDGMENT_COLUMNS,
    format_grade,
    judgments_from_clicks,
)
from dssm_tf.tables.splits import is_held_out
from dssm_tf.tables.times import Clock
from dssm_tf.text.rules import FOLDED

CLICKS, CORPUS, JUDGMENTS = "clicks.tsv", "corpus.tsv", "judgments.tsv"
HELD_OUT = "held-out queries"
_UNPRINTABLE = re.compile(r"[\t\r\n\x00]+")
_NO_TITLE = "click on a title that the corpus lacks"


class ClickEvent(NamedTuple):
    """One row of a click log, before its title is known.

    Args:
        query: raw text.
        doc_id: of the corpus.
        clicks: clicks the row stands for; 0 for a title that was only shown.
        timestamp: as `Clock` reads it.
        session_id: empty where unknown.
        position: of the title in the list, from 1; empty where unknown.
        impressions: how often the title was shown; empty where unknown.
    """

    query: str
    doc_id: str
    clicks: int = 1
    timestamp: str = ""
    session_id: str = ""
    position: str = ""
    impressions: str = ""


class Output(ExitStack):
    """Writes the three tables into a directory; a context that closes them.

    Titles come first, by `add_title`; clicks and judgments then name them by id. Rows that cannot
    be used (an empty text, an id that nothing stands for, a repeated pair) are left out and counted
    in `dropped` by reason. Memory grows with titles and events, about 500 bytes each.

    Args:
        folder: exists; see `dssm_tf.common.files.atomic_directory`.
        extra: columns of the click log beside query, title, clicks and doc_id.
        timed: whether `split_by_time` will divide the events, which then need time stamps.

    Attributes:
        titles: by id.
        queries: by id, for adapters whose files hold them apart.
        rows: how many a table has.
    """

    def __init__(self, folder: Path, extra: Sequence[str] = (), timed: bool = True) -> None:
        super().__init__()
        self.folder, self._extra = folder, tuple(extra)
        self.dropped: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.titles: dict[str, str] = {}
        self.queries: dict[str, str] = {}
        self._judged: set[tuple[str, str]] = set()
        self._events: list[tuple[float, ClickEvent]] = []
        self._clock = Clock() if timed else None
        columns = {
            CLICKS: ("query", "title", "clicks", "doc_id", *extra),
            CORPUS: CORPUS_COLUMNS,
            JUDGMENTS: JUDGMENT_COLUMNS,
        }
        self._files = {
            name: self.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
            for name in columns
        }
        for name, header in columns.items():
            self._files[name].write("\t".join(header) + "\n")

    def add_title(self, doc_id: str, title: str) -> None:
        """Adds a title to the corpus; of several with one id the first counts."""
        doc_id, title = clean(doc_id), clean(title)
        if not doc_id or not title:
            self.dropped["title without text or id"] += 1
        elif doc_id in self.titles:
            self.dropped["title whose id was there already"] += 1
        else:
            self.titles[doc_id] = title
            self._write(CORPUS, doc_id, title)

    def add_click(self, event: ClickEvent) -> None:
        """Writes a row of the click log."""
        query, doc_id = clean(event.query), clean(event.doc_id)
        if not FOLDED.key(query):
            self.dropped["click on a query without a word"] += 1
        elif doc_id not in self.titles:
            self.dropped[_NO_TITLE] += 1
        else:
            extra = (clean(getattr(event, name)) for name in self._extra)
            self._write(CLICKS, query, self.titles[doc_id], str(event.clicks), doc_id, *extra)

    def add_judgment(self, query_id: str, query: str, doc_id: str, grade: float) -> None:
        """Writes a judgment; of several for one pair the first counts."""
        query_id, query, doc_id = clean(query_id), clean(query), clean(doc_id)
        if not query_id or not FOLDED.key(query):
            self.dropped["judgment of a query without a word or id"] += 1
        elif doc_id not in self.titles:
            self.dropped["judgment of a title that the corpus lacks"] += 1
        elif (query_id, doc_id) in self._judged:
            self.dropped["judgment of a pair that was judged already"] += 1
        else:
            self._judged.add((query_id, doc_id))
            title = self.titles[doc_id]
            self._write(JUDGMENTS, query_id, query, doc_id, title, format_grade(grade))

    def add_event(self, event: ClickEvent) -> None:
        """Keeps a row of a log until `split_by_time`.

        Raises:
            BadRow: its time stamp cannot be read, or compared with those before.
        """
        try:
            at = self._clock(event.timestamp) if self._clock else 0.0
        except UserError as error:
            raise BadRow("no usable time stamp", str(error).rstrip(".")) from None
        clean_event = event._replace(query=clean(event.query), doc_id=clean(event.doc_id))
        self._events.append((at, clean_event))

    def split_by_time(self, held_out: float) -> None:
        """Writes the earlier events as clicks and grades the titles by the later ones.

        Args:
            held_out: share of the clicks, the latest, that become judgments instead, graded as
                by `judgments_from_clicks`.
        """
        limit = sum(event.clicks for _, event in self._events) * (1.0 - held_out)
        seen, later = 0, []
        for _, event in sorted(self._events, key=lambda one: (one[0], one[1][:2])):
            if seen < limit:
                self.add_click(event)
            elif event.doc_id not in self.titles:
                self.dropped[_NO_TITLE] += 1
            else:
                later.append((event.query, event.doc_id, float(event.clicks)))
            seen += event.clicks
        same = {doc_id: doc_id for _, doc_id, _ in later}
        for judged in judgments_from_clicks(later, FOLDED, same):
            self.add_judgment(judged.query_id, judged.query, judged.doc_id, judged.grade)

    def finish(self, source: str) -> None:
        """Completes the tables; one without a row is taken away.

        Raises:
            UserError: there is no title, or neither a click nor a judgment.
        """
        self.close()
        if not self.rows[CORPUS] or not (self.rows[CLICKS] or self.rows[JUDGMENTS]):
            reasons = ", ".join(f"{count:,} x {why}" for why, count in self.dropped.most_common())
            raise UserError(
                f"{source} gave {self.rows[CORPUS]:,} titles, {self.rows[CLICKS]:,} rows of clicks "
                f"and {self.rows[JUDGMENTS]:,} judgments, which is of no use"
                + (f"; left out: {reasons}." if reasons else "; its files are empty.")
            )
        for name in self._files:
            if not self.rows[name]:
                (self.folder / name).unlink()

    def _write(self, name: str, *cells: str) -> None:
        self._files[name].write("\t".join(cells) + "\n")
        self.rows[name] += 1


def clean(text: str) -> str:
    """The text on one line, as UTF-8 can hold it, without white space at its ends."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return _UNPRINTABLE.sub(" ", text).strip()


def split_by_query(
    output: Output,
    judged: Iterator[tuple[str, str, str, float]],
    held_out: float,
    clicked_from: float,
) -> None:
    """Divides judged pairs: queries held out become judgments, the others' good pairs clicks.

    Args:
        output: has all titles.
        judged: `(query_id, query, doc_id, grade)`.
        held_out: share of the queries, see `is_held_out`.
        clicked_from: the least grade that counts as a click.
    """
    for query_id, query, doc_id, grade in judged:
        if is_held_out(query, held_out, HELD_OUT):
            output.add_judgment(query_id, query, doc_id, grade)
        elif grade >= clicked_from:
            output.add_click(ClickEvent(query, doc_id))

"""What an adapter writes: clicks, corpus and judgments, with nothing large held in memory."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
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
_INDEX = ".index.sqlite"
_UNPRINTABLE = re.compile(r"[\t\r\n\x00]+")


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


class Output:
    """Writes the three tables into a directory.

    Titles come first, by `add_title`; clicks and judgments then name them by id. Titles are
    found again through an index on disk. Rows that cannot be used (an empty text, an id that
    nothing stands for, a repeated pair) are left out and counted in `dropped` by reason.

    Args:
        folder: exists; see `dssm_tf.common.files.atomic_directory`.
        extra: columns of the click log beside query, title, clicks and doc_id.
        timed: whether `split_by_time` will divide the events, which then need time stamps.
    """

    def __init__(self, folder: Path, extra: Sequence[str] = (), timed: bool = True) -> None:
        self.folder = folder
        self.dropped: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self._extra = tuple(extra)
        self._clock = Clock() if timed else None
        self._files = {name: (folder / name).open("wb") for name in (CLICKS, CORPUS, JUDGMENTS)}
        self._corpus_bytes = 0
        self._line(CLICKS, ("query", "title", "clicks", "doc_id", *extra))
        self._line(CORPUS, [*CORPUS_COLUMNS])
        self._line(JUDGMENTS, [*JUDGMENT_COLUMNS])
        self._titles = (folder / CORPUS).open("rb")
        self._flushed = 0
        self._numbered = 0
        # Lost with the directory if anything fails, so nothing has to be safe on disk.
        self._index = sqlite3.connect(folder / _INDEX, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "PRAGMA cache_size = -200000",
            "CREATE TABLE title (id TEXT PRIMARY KEY, start INTEGER) WITHOUT ROWID",
            "CREATE TABLE text (kind TEXT, id TEXT, text TEXT, PRIMARY KEY (kind, id))"
            " WITHOUT ROWID",
            "CREATE TABLE judged (query_id TEXT, doc_id TEXT, PRIMARY KEY (query_id, doc_id))"
            " WITHOUT ROWID",
            "CREATE TABLE event (at REAL, query TEXT, doc_id TEXT, clicks INTEGER, timestamp TEXT,"
            " session_id TEXT, position TEXT, impressions TEXT)",
            "BEGIN",
        ):
            self._index.execute(statement)

    def add_title(self, doc_id: str, title: str) -> None:
        """Adds a title to the corpus; of several with one id the first counts."""
        doc_id, title = clean(doc_id), clean(title)
        if not doc_id or not title:
            self.dropped["title without text or id"] += 1
            return
        found = self._index.execute(
            "INSERT OR IGNORE INTO title VALUES (?, ?)", (doc_id, self._corpus_bytes)
        )
        if found.rowcount:
            self._line(CORPUS, (doc_id, title))
        else:
            self.dropped["title whose id was there already"] += 1

    def has_title(self, doc_id: str) -> bool:
        """Whether the corpus has an id."""
        return self._start(clean(doc_id)) is not None

    def title(self, doc_id: str) -> str | None:
        """The title of an id, None if the corpus lacks it."""
        start = self._start(doc_id)
        if start is None:
            return None
        if start >= self._flushed:
            self._files[CORPUS].flush()
            self._flushed = self._corpus_bytes
        self._titles.seek(start)
        return self._titles.readline().decode("utf-8").rstrip("\n").split("\t", 1)[1]

    def query_id(self, query: str) -> str:
        """An id for a query of a source that has none: numbered in order of appearance."""
        known = self.recall("id of", query)
        if known is None:
            self._numbered += 1
            known = f"q{self._numbered:06d}"
            self.remember("id of", query, known)
        return known

    def remember(self, kind: str, name: str, text: str) -> None:
        """Keeps a text by name, on disk; of several the first counts."""
        row = (kind, clean(name), clean(text))
        self._index.execute("INSERT OR IGNORE INTO text VALUES (?, ?, ?)", row)

    def recall(self, kind: str, name: str) -> str | None:
        """What was remembered, or None."""
        row = self._index.execute(
            "SELECT text FROM text WHERE kind = ? AND id = ?", (kind, clean(name))
        ).fetchone()
        return None if row is None else row[0]

    def add_click(self, event: ClickEvent) -> None:
        """Writes a row of the click log."""
        query, title = clean(event.query), self.title(clean(event.doc_id))
        if not FOLDED.key(query):
            self.dropped["click on a query without a word"] += 1
        elif title is None:
            self.dropped["click on a title that the corpus lacks"] += 1
        else:
            extra = (clean(getattr(event, name)) for name in self._extra)
            self._line(CLICKS, (query, title, str(event.clicks), clean(event.doc_id), *extra))

    def add_judgment(self, query_id: str, query: str, doc_id: str, grade: float) -> None:
        """Writes a judgment; of several for one pair the first counts."""
        query_id, query, doc_id = clean(query_id), clean(query), clean(doc_id)
        title = self.title(doc_id)
        if not query_id or not FOLDED.key(query):
            self.dropped["judgment of a query without a word or id"] += 1
        elif title is None:
            self.dropped["judgment of a title that the corpus lacks"] += 1
        else:
            found = self._index.execute(
                "INSERT OR IGNORE INTO judged VALUES (?, ?)", (query_id, doc_id)
            )
            if found.rowcount:
                self._line(JUDGMENTS, (query_id, query, doc_id, title, format_grade(grade)))
            else:
                self.dropped["judgment of a pair that was judged already"] += 1

    def add_event(self, event: ClickEvent) -> None:
        """Keeps a row of a log, on disk, until `split_by_time`.

        Raises:
            BadRow: its time stamp cannot be read, or compared with those before.
        """
        at = 0.0
        if self._clock:
            try:
                at = self._clock(event.timestamp)
            except UserError as error:
                raise BadRow("no usable time stamp", str(error).rstrip(".")) from None
        row = (clean(cell) if isinstance(cell, str) else cell for cell in event)
        self._index.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (at, *row))

    def split_by_time(self, held_out: float) -> None:
        """Writes the earlier events as clicks and grades the titles by the later ones.

        Args:
            held_out: share of the clicks, the latest, that become judgments instead, graded as
                by `judgments_from_clicks`.
        """
        (clicks,) = self._index.execute("SELECT SUM(clicks) FROM event").fetchone()
        limit = (clicks or 0) * (1.0 - held_out)
        seen = 0
        later: dict[tuple[str, str], int] = {}
        for row in self._index.execute("SELECT * FROM event ORDER BY at, query, doc_id, rowid"):
            event = ClickEvent(*row[1:])
            if seen < limit:
                self.add_click(event)
            elif self.title(event.doc_id) is None:
                self.dropped["click on a title that the corpus lacks"] += 1
            elif event.clicks:
                pair = (event.query, event.doc_id)
                later[pair] = later.get(pair, 0) + event.clicks
            seen += event.clicks
        counted = ((query, doc_id, float(count)) for (query, doc_id), count in later.items())
        same = {doc_id: doc_id for _, doc_id in later}
        for judged in judgments_from_clicks(counted, FOLDED, same):
            self.add_judgment(judged.query_id, judged.query, judged.doc_id, judged.grade)

    def close(self, source: str) -> None:
        """Completes the tables; one without a row is taken away.

        Raises:
            UserError: there is no title, or neither a click nor a judgment.
        """
        self.abandon()
        (self.folder / _INDEX).unlink()
        counts = {name: self.written[name] - 1 for name in self._files}
        if not counts[CORPUS] or not (counts[CLICKS] or counts[JUDGMENTS]):
            reasons = ", ".join(f"{count:,} x {why}" for why, count in self.dropped.most_common())
            raise UserError(
                f"{source} gave {counts[CORPUS]:,} titles, {counts[CLICKS]:,} rows of clicks and "
                f"{counts[JUDGMENTS]:,} judgments, which is of no use"
                + (f"; left out: {reasons}." if reasons else "; its files are empty.")
            )
        for name, count in counts.items():
            if not count:
                (self.folder / name).unlink()

    def abandon(self) -> None:
        """Closes the files as they are."""
        self._index.close()
        self._titles.close()
        for file in self._files.values():
            file.close()

    def rows(self, name: str) -> int:
        """Rows of a table, the header not counted."""
        return self.written[name] - 1

    def _line(self, name: str, cells: Sequence[str]) -> None:
        line = ("\t".join(cells) + "\n").encode()
        self._files[name].write(line)
        self.written[name] += 1
        if name == CORPUS:
            self._corpus_bytes += len(line)

    def _start(self, doc_id: str) -> int | None:
        """Where the corpus has the line of an id."""
        row = self._index.execute("SELECT start FROM title WHERE id = ?", (doc_id,)).fetchone()
        return None if row is None else int(row[0])


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

"""What an adapter writes: clicks, corpus, judgments; titles and events are held in memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.judgments import CorpusTitle, Judgment, judgments_from_clicks
from dssm_tf.tables.splits import is_held_out
from dssm_tf.tables.times import Clock
from dssm_tf.text.rules import FOLDED

CLICKS, CORPUS, JUDGMENTS = "clicks.tsv", "corpus.tsv", "judgments.tsv"
HELD_OUT = "held-out queries"
_UNPRINTABLE = re.compile(r"[\t\r\n\x00]+")


class Output(ExitStack):
    """Writes the three tables into a directory; a context that closes them.

    Titles come first; clicks and judgments then name them by id. Rows that cannot be used (an
    empty text, an id that nothing stands for, a repeated pair) are left out and counted in
    `dropped` by reason. Memory grows with titles and events, about 500 bytes each.

    Args:
        folder: exists; see `dssm_tf.common.files.atomic_directory`.
        extra: columns of the click log beside query, title, clicks and doc_id.
        held_out: the share of the queries, or of the latest clicks, that becomes judgments.

    Attributes:
        titles: by id.
        judged: ids of the queries and titles of the judgments.
        rows: how many a table has.
    """

    def __init__(self, folder: Path, extra: Sequence[str] = (), held_out: float = 0.0) -> None:
        super().__init__()
        self.folder = folder
        self.dropped: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.titles: dict[str, str] = {}
        self.judged: set[tuple[str, str]] = set()
        self._queries: dict[str, str] = {}
        self._held_out = held_out
        self._events: list[tuple[float, str, str, int, Sequence[object]]] = []
        self._clock = Clock() if 0 < held_out < 1 else None
        columns = {
            CLICKS: ("query", "title", "clicks", "doc_id", *extra),
            CORPUS: CorpusTitle._fields,
            JUDGMENTS: Judgment._fields,
        }
        self._files = {}
        for name, header in columns.items():
            file = (folder / name).open("w", encoding="utf-8", newline="\n")
            self._files[name] = self.enter_context(file)
            self._write(name, *header)
        self.rows.clear()

    def add_title(self, doc_id: object, title: object) -> None:
        """Adds a title to the corpus; of several with one id the first counts."""
        doc_id, title = clean(doc_id), clean(title)
        if not doc_id or not title:
            self.dropped["title without text or id"] += 1
        elif doc_id in self.titles:
            self.dropped["title whose id was there already"] += 1
        else:
            self.titles[doc_id] = title
            self._write(CORPUS, doc_id, title)

    def add_query(self, query_id: object, query: object) -> None:
        """Notes the text of a query; of several with one id the first counts."""
        self._queries.setdefault(clean(query_id), clean(query))

    def query(self, query_id: object) -> str:
        """The text of a query; empty if its id is unknown."""
        return self._queries.get(clean(query_id), "")

    def add_click(
        self, query: object, doc_id: object, clicks: int = 1, extra: Sequence[object] = ()
    ) -> None:
        """Writes a row of the click log.

        Args:
            query: its text.
            doc_id: of the title.
            clicks: how many the row stands for; 0 for a title that was only shown.
            extra: cells of the further columns.
        """
        query, doc_id = clean(query), clean(doc_id)
        if self._usable("click", query, doc_id):
            self._write(CLICKS, query, self.titles[doc_id], str(clicks), doc_id, *map(clean, extra))

    def add_judgment(self, query_id: object, query: object, doc_id: object, grade: float) -> None:
        """Writes a judgment; of several for one pair the first counts."""
        query_id, query, doc_id = clean(query_id), clean(query), clean(doc_id)
        if (query_id, doc_id) in self.judged:
            self.dropped["judgment of a pair that was judged already"] += 1
        elif self._usable("judgment", query_id and query, doc_id):
            self.judged.add((query_id, doc_id))
            title = self.titles[doc_id]
            self._write(JUDGMENTS, query_id, query, doc_id, title, f"{grade:.9g}")

    def add_graded(
        self, query_id: object, query: str, doc_id: object, grade: float, clicked_from: float
    ) -> None:
        """Writes a judgment if the query is held out, else a click if the grade is good.

        Args:
            query_id: of the query.
            query: its text, which decides whether it is held out, see `is_held_out`.
            doc_id: of the title.
            grade: of the pair.
            clicked_from: the least grade that counts as a click.
        """
        if is_held_out(query, self._held_out, HELD_OUT):
            self.add_judgment(query_id, query, doc_id, grade)
        elif grade >= clicked_from:
            self.add_click(query, doc_id)

    def add_event(
        self, query: object, doc_id: object, clicks: int, timestamp: str, *extra: object
    ) -> None:
        """Keeps a row of a log until `finish` divides it by time.

        Raises:
            BadRow: its time stamp cannot be read, or compared with those before.
        """
        try:
            at = self._clock(timestamp) if self._clock else 0.0
        except UserError as error:
            raise BadRow("no usable time stamp", str(error).rstrip(".")) from None
        self._events.append((at, clean(query), clean(doc_id), clicks, (timestamp, *extra)))

    def finish(self, source: str) -> None:
        """Completes the tables; one without a row is taken away.

        Of events the earlier ones become clicks; the latest, the share that is held out, grade
        titles as `judgments_from_clicks` does.

        Raises:
            UserError: there is no title, or neither a click nor a judgment.
        """
        limit = sum(clicks for _, _, _, clicks, _ in self._events) * (1.0 - self._held_out)
        seen, later = 0, []
        for _, query, doc_id, clicks, extra in sorted(self._events, key=lambda one: one[:3]):
            if seen < limit:
                self.add_click(query, doc_id, clicks, extra)
            elif self._usable("click", query, doc_id):
                later.append((query, doc_id, float(clicks)))
            seen += clicks
        for judged in judgments_from_clicks(later, FOLDED, self.titles):
            self.add_judgment(judged.query_id, judged.query, judged.doc_id, judged.grade)
        self.close()
        if not self.rows[CORPUS] or not (self.rows[CLICKS] or self.rows[JUDGMENTS]):
            reasons = ", ".join(f"{count:,} x {why}" for why, count in self.dropped.most_common())
            raise UserError(
                f"{source} gave {self.rows[CORPUS]:,} titles, {self.rows[CLICKS]:,} rows of clicks "
                f"and {self.rows[JUDGMENTS]:,} judgments, which is not usable; left out: "
                f"{reasons or 'nothing, its files are empty'}."
            )
        for name in self._files:
            if not self.rows[name]:
                (self.folder / name).unlink()

    def _usable(self, what: str, query: str, doc_id: str) -> bool:
        """Whether a pair can be written; counts it if not."""
        reason = "for a title that the corpus lacks" if doc_id not in self.titles else ""
        if not FOLDED.key(query):
            reason = "for a query that is unknown or has no word"
        if reason:
            self.dropped[f"{what} {reason}"] += 1
        return not reason

    def _write(self, name: str, *cells: str) -> None:
        self._files[name].write("\t".join(cells) + "\n")
        self.rows[name] += 1


def clean(value: object) -> str:
    r"""A cell's text on one line, as UTF-8 can hold it, without white space at its ends.

    >>> clean(" caf\u00e9\n\ud800 "), clean(None)
    ('café ?', '')
    """
    text = "" if value is None else str(value)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return _UNPRINTABLE.sub(" ", text).strip()

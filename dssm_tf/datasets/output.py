"""The output of an adapter: clicks, corpus, judgments. Titles and events are kept in memory."""

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
from dssm_tf.tables.times import TimeParser
from dssm_tf.text.rules import FOLDED

CLICKS, CORPUS, JUDGMENTS = "clicks.tsv", "corpus.tsv", "judgments.tsv"
DATASET_SPLIT = "held-out queries"
"""Purpose of the queries that `DatasetWriter.add_graded` holds out; see `is_held_out`."""
_UNPRINTABLE = re.compile(r"[\t\r\n\x00]+")


class DatasetWriter(ExitStack):
    """Writes three tables into a directory; a context manager that closes the files.

    Titles must be added first; clicks and judgments refer to them by id. Rows that cannot be used
    (an empty text, an unknown id, a repeated pair) are left out and counted in `dropped` by
    reason. Memory grows with titles and events, about 500 bytes each.

    Args:
        folder: an existing folder; see `dssm_tf.common.files.atomic_directory`.
        extra_columns: columns of the click log besides query, title, clicks and doc_id.
        held_out: fraction of the queries, or of the latest clicks, that becomes judgments.

    Attributes:
        titles: the titles by doc id.
        judged: ids of the query and the title of each judgment.
        rows: number of rows of each table.
    """

    def __init__(
        self, folder: Path, extra_columns: Sequence[str] = (), held_out: float = 0.0
    ) -> None:
        super().__init__()
        self.folder = folder
        self.dropped: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.titles: dict[str, str] = {}
        self.judged: set[tuple[str, str]] = set()
        self._queries: dict[str, str] = {}
        self._held_out = held_out
        self._events: list[tuple[float, str, str, int, Sequence[object]]] = []
        self._parse_time = TimeParser() if 0 < held_out < 1 else None
        columns = {
            CLICKS: ("query", "title", "clicks", "doc_id", *extra_columns),
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
        """Adds a title to the corpus; later titles with the same id are dropped."""
        doc_id, title = clean(doc_id), clean(title)
        if not doc_id or not title:
            self.dropped["title without text or id"] += 1
        elif doc_id in self.titles:
            self.dropped["title with a repeated id"] += 1
        else:
            self.titles[doc_id] = title
            self._write(CORPUS, doc_id, title)

    def add_query(self, query_id: object, query: object) -> None:
        """Stores the text of a query; later texts with the same id are ignored."""
        self._queries.setdefault(clean(query_id), clean(query))

    def query(self, query_id: object) -> str:
        """The text of a query; empty if its id is unknown."""
        return self._queries.get(clean(query_id), "")

    def add_click(
        self, query: object, doc_id: object, clicks: int = 1, extra_cells: Sequence[object] = ()
    ) -> None:
        """Writes a row of the click log.

        Args:
            query: text of the query.
            doc_id: id of the title.
            clicks: number of clicks; 0 for a title that was displayed and not clicked.
            extra_cells: cells of the `extra_columns` of the log.
        """
        query, doc_id = clean(query), clean(doc_id)
        if self._usable("click", query, doc_id):
            self._write(
                CLICKS, query, self.titles[doc_id], str(clicks), doc_id, *map(clean, extra_cells)
            )

    def add_judgment(self, query_id: object, query: object, doc_id: object, grade: float) -> None:
        """Writes a judgment; later judgments of the same pair are dropped."""
        query_id, query, doc_id = clean(query_id), clean(query), clean(doc_id)
        if (query_id, doc_id) in self.judged:
            self.dropped["judgment of a pair that was judged already"] += 1
        elif self._usable("judgment", query_id and query, doc_id):
            self.judged.add((query_id, doc_id))
            title = self.titles[doc_id]
            self._write(JUDGMENTS, query_id, query, doc_id, title, f"{grade:.9g}")

    def add_graded(
        self, query_id: object, query: str, doc_id: object, grade: float, min_click_grade: float
    ) -> None:
        """Writes a judgment if the query is held out, else a click if the grade is high enough.

        Args:
            query_id: id of the query.
            query: its text; `is_held_out` depends on it.
            doc_id: id of the title.
            grade: grade of the title for the query.
            min_click_grade: minimum grade that counts as a click.
        """
        if is_held_out(query, self._held_out, DATASET_SPLIT):
            self.add_judgment(query_id, query, doc_id, grade)
        elif grade >= min_click_grade:
            self.add_click(query, doc_id)

    def add_event(
        self, query: object, doc_id: object, clicks: int, timestamp: str, *extra: object
    ) -> None:
        """Stores a row of a click log; `finish` splits the rows by time.

        Raises:
            BadRow: its timestamp cannot be read, or cannot be compared with earlier ones.
        """
        try:
            time = self._parse_time(timestamp) if self._parse_time else 0.0
        except UserError as error:
            raise BadRow("no usable timestamp", str(error).rstrip(".")) from None
        self._events.append((time, clean(query), clean(doc_id), clicks, (timestamp, *extra)))

    def finish(self, source: str) -> None:
        """Completes the tables and deletes those without rows.

        Early events become clicks. The latest ones, with the fraction `held_out` of all clicks,
        become judgments, see `judgments_from_clicks`.

        Raises:
            UserError: there is no title, or neither a click nor a judgment.
        """
        limit = sum(clicks for _, _, _, clicks, _ in self._events) * (1.0 - self._held_out)
        cumulative_clicks, later = 0, []
        for _, query, doc_id, clicks, extra in sorted(self._events, key=lambda event: event[:3]):
            if cumulative_clicks < limit:
                self.add_click(query, doc_id, clicks, extra)
            elif self._usable("click", query, doc_id):
                later.append((query, doc_id, float(clicks)))
            cumulative_clicks += clicks
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

    def _usable(self, kind: str, query: str, doc_id: str) -> bool:
        """Whether a pair can be written; otherwise counts it as dropped."""
        reason = "for a title that the corpus lacks" if doc_id not in self.titles else ""
        if not FOLDED.key(query):
            reason = "for a query that is unknown or has no word"
        if reason:
            self.dropped[f"{kind} {reason}"] += 1
        return not reason

    def _write(self, name: str, *cells: str) -> None:
        self._files[name].write("\t".join(cells) + "\n")
        self.rows[name] += 1


def clean(value: object) -> str:
    r"""The text of a cell on one line, as valid UTF-8, without white space at its ends.

    >>> clean(" caf\u00e9\n\ud800 "), clean(None)
    ('café ?', '')
    """
    text = "" if value is None else str(value)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return _UNPRINTABLE.sub(" ", text).strip()

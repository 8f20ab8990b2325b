"""The titles of an index that have remembered clicks: `clicked_titles.npy`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array, write_array
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.retrieval.maxsim_files import REBUILD_HINT
from dssm_tf.runtime.remembered_clicks import QueryClicks, RememberedClicks
from dssm_tf.text.vocabulary import Vocabulary

CLICKED_TITLES = "clicked_titles.npy"

_NO_TITLES = np.zeros(0, np.int32)


class ClickedTitles(NamedTuple):
    """Remembered clicks with the positions of their titles in the arrays of an index.

    Attributes:
        remembered_clicks: the remembered clicks.
        positions: int32, the position of each title of `remembered_clicks`, or -1 if the index
            lacks it.
    """

    remembered_clicks: RememberedClicks
    positions: NDArray[np.int32]

    @classmethod
    def find(
        cls, remembered_clicks: RememberedClicks, table: Any, arrays: Arrays, vocabulary: Vocabulary
    ) -> ClickedTitles:
        """Finds the titles in an index.

        Args:
            remembered_clicks: the remembered clicks.
            table: Arrow table of the entries, with `title`.
            arrays: the arrays of the index.
            vocabulary: the vocabulary of the model.
        """
        column = table["title"]
        first_entries = arrays.docs[arrays.doc_starts[:-1]].tolist()
        hashes = vocabulary.rules.ids(column[entry].as_py() for entry in first_entries)
        order = np.argsort(hashes)
        offsets = np.searchsorted(hashes, remembered_clicks.titles, sorter=order)
        candidates = order[offsets.clip(max=len(order) - 1)]
        positions = np.where(hashes[candidates] == remembered_clicks.titles, candidates, -1).astype(
            np.int32
        )
        return cls(remembered_clicks, positions)

    @classmethod
    def read(
        cls, directory: Path, remembered_clicks: RememberedClicks, title_count: int
    ) -> ClickedTitles:
        """Reads the positions that `save` wrote.

        Args:
            directory: the index.
            remembered_clicks: the remembered clicks of its model.
            title_count: number of distinct titles of the index.

        Raises:
            UserError: the file is damaged, or does not fit the model.
        """
        path = directory / CLICKED_TITLES
        positions = map_array(path, REBUILD_HINT, mapped=False)
        is_valid = positions.dtype == np.int32 and positions.shape == remembered_clicks.titles.shape
        if not is_valid or not ((positions >= -1) & (positions < title_count)).all():
            raise UserError(
                f"{path}: expected a title of the index, or -1, for each of the "
                f"{len(remembered_clicks.titles)} remembered titles. {REBUILD_HINT}"
            )
        return cls(remembered_clicks, positions)

    def save(self, directory: Path) -> None:
        """Writes `CLICKED_TITLES`."""
        write_array(directory / CLICKED_TITLES, self.positions)

    def titles(self, words: Sequence[str]) -> NDArray[np.int32]:
        """The positions of the titles that were clicked for a query.

        Args:
            words: the words of the query, in order.
        """
        query_clicks = self.remembered_clicks.of_query(words)
        if query_clicks is None:
            return _NO_TITLES
        positions = self.positions[query_clicks.rows]
        return positions[positions >= 0]

    def added(
        self, words: Sequence[str], titles: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """The part of the scores that remembered clicks add.

        Args:
            words: the words of the query, in order.
            titles: positions of the titles.
            scores: their scores without remembered clicks.

        Returns:
            float64 `(titles,)`, 0 for a title without clicks; None for a query without clicks.
        """
        query_clicks = self.remembered_clicks.of_query(words)
        if query_clicks is None:
            return None
        clicks = self._clicks(query_clicks, titles)
        added: NDArray[np.float64] = np.where(
            clicks > 0, self.remembered_clicks.added(clicks, scores, query_clicks.log_sum), 0.0
        )
        return added

    def _clicks(self, query_clicks: QueryClicks, titles: NDArray[np.int32]) -> NDArray[np.int64]:
        """The clicks of each title."""
        clicks_of = dict(
            zip(
                self.positions[query_clicks.rows].tolist(),
                query_clicks.clicks.tolist(),
                strict=True,
            )
        )
        return np.array([clicks_of.get(title, 0) for title in titles.tolist()], np.int64)

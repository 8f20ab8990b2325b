"""The queries and pairs that a model was trained on, as ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dssm_tf.text.rules import TextRules
from dssm_tf.text.stable_hash import pair_fingerprints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """The queries and the pairs of a query and a title that a model was trained on, as ids.

    Texts are compared after normalization. The ids contain no text.

    Args:
        rules: the text rules of the ids.
        query_ids: int64 `(queries,)`; see `TextRules.id`.
        pair_ids: int64 `(pairs,)`, see `pair_fingerprints`; None if the pairs are unknown.
    """

    rules: TextRules
    query_ids: NDArray[np.int64]
    pair_ids: NDArray[np.int64] | None

    @classmethod
    def from_clicks(cls, clicks: Iterable[tuple[str, str, float]], rules: TextRules) -> TrainingLog:
        """The log of rows `(query, title, clicks)`."""
        rows = list(clicks)
        queries = rules.ids(query for query, _, _ in rows)
        titles = rules.ids(title for _, title, _ in rows)
        return cls(rules, queries, pair_fingerprints(queries, titles))

    def has_queries(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Whether the log has each query, `(queries,)`."""
        import numpy as np

        return np.isin(self.rules.ids(queries), self.query_ids)

    def has_pairs(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.bool_] | None:
        """Whether the log has each query with the title at its position; None if unknown.

        The pairs are known to be absent if none of the queries is in the log.

        Args:
            queries: one for each title.
            titles: raw texts.

        Returns:
            `(titles,)`.
        """
        import numpy as np

        query_ids = self.rules.ids(queries)
        if self.pair_ids is not None:
            return np.isin(pair_fingerprints(query_ids, self.rules.ids(titles)), self.pair_ids)
        has_queries = np.isin(query_ids, self.query_ids)
        return None if has_queries.any() else has_queries

"""The distinct clicked pairs of a log, from which models learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Click
from dssm_tf.common.errors import NoClicksError
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self


class ClickedPairs(NamedTuple):
    """The distinct clicked pairs of a log in which both the query and the title have a word.

    Attributes:
        queries: normalized, one per pair.
        titles: normalized, one per pair.
        clicks: `(pairs,)`, summed over the log.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    clicks: NDArray[np.float64]

    @classmethod
    def from_clicks(cls, clicks: Iterable[Click], needed_by: str | None = None) -> Self:
        """Sums the clicks of each pair; pairs are in alphabetical order.

        Args:
            clicks: the log.
            needed_by: name of the model, if it needs at least one pair; None if it needs none.

        Raises:
            NoClicksError: there is no pair, and one is needed.
        """
        key = cache(FOLDED.key)  # cached because a log repeats texts
        sums: dict[tuple[str, str], float] = defaultdict(float)
        for query, title, count in clicks:
            pair = key(query), key(title)
            if all(pair) and count > 0:
                sums[pair] += count
        if needed_by and not sums:
            raise NoClicksError(
                f"{needed_by} learns from clicks; the log has no click with a word in both the "
                "query and the title."
            )
        pairs = sorted(sums)
        queries, titles = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(queries, titles, np.array([sums[pair] for pair in pairs], np.float64))

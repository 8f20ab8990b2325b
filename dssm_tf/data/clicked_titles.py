"""`clicked_titles.tsv.gz`: which titles were clicked for a query, anywhere in the log.

A row a (query, clicked title) pair, whatever its clicks and its part: `query_id` and `title_id`,
both a `Rules.id`. A training masks these titles. They stand here once, and not in each record of
the query: a query with n clicked titles has n records, which would hold n * n ids.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import csv

from dssm_tf.common.errors import UserError

CLICKED_TITLES = "clicked_titles.tsv.gz"
HEADER = b"query_id\ttitle_id\n"


class ClickedTitles:
    """The clicked titles of each query, found by binary search.

    Args:
        query_ids: int64 `(pairs,)`, in any order.
        title_ids: int64 `(pairs,)`.

    Attributes:
        queries: int64 `(queries,)`, increasing.
        titles: int64 `(pairs,)`, query after query.
        splits: int64 `(queries + 1,)`; titles `splits[i]` to `splits[i + 1]` are those of query i.
    """

    def __init__(self, query_ids: NDArray[np.int64], title_ids: NDArray[np.int64]) -> None:
        order = np.argsort(query_ids, kind="stable")
        self.titles = title_ids[order]
        self.queries, first = np.unique(query_ids[order], return_index=True)
        self.splits = np.append(first, len(order)).astype(np.int64)

    def of(self, query: int) -> list[int]:
        """The ids of all titles clicked for a query; none for a query that the log lacks."""
        at = int(np.searchsorted(self.queries, query))
        if at == len(self.queries) or self.queries[at] != query:
            return []
        return [int(one) for one in self.titles[self.splits[at] : self.splits[at + 1]]]


def load_clicked_titles(directory: Path) -> ClickedTitles:
    """Reads `clicked_titles.tsv.gz`.

    Raises:
        UserError: it is missing or damaged.
    """
    path = Path(directory) / CLICKED_TITLES
    names = HEADER.decode().split()
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.int64()))
    try:
        table = csv.read_csv(path, None, csv.ParseOptions(delimiter="\t"), convert)
        columns = [table[name].to_numpy() for name in names]
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; preprocess writes it.") from None
    except (pyarrow.ArrowInvalid, KeyError, OSError) as error:
        what = str(error).splitlines()[0]
        raise UserError(f"{path} is damaged ({what}); run preprocess again.") from None
    if any(column.dtype != np.int64 for column in columns):  # an empty cell makes floats
        raise UserError(f"{path} is damaged (a number is missing); run preprocess again.")
    return ClickedTitles(*columns)

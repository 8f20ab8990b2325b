r"""Published data sets as clicks, corpus and judgments, one data set per file; and bundled data.

`search_engine` and `engine_run` write the ranking of a search engine as a TREC run. Each folder of
bundled data has an ATTRIBUTION.md. May import tables, text and common.

Example:
    >>> from importlib.resources import files
    >>> table = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    >>> table.read_text(encoding="utf-8").splitlines()[1].split("\t")[3]
    'natalie portman'
"""

from __future__ import annotations

from dssm_tf.datasets import best_buy, esci, home_depot, msmarco, trec, ubi, wands
from dssm_tf.datasets.adapter import Adapter

ADAPTERS: dict[str, Adapter] = {
    "esci": esci.ADAPTER,
    "wands": wands.ADAPTER,
    "msmarco": msmarco.MSMARCO,
    "orcas": msmarco.ORCAS,
    "ubi": ubi.ADAPTER,
    "homedepot": home_depot.ADAPTER,
    "bestbuy": best_buy.ADAPTER,
    "trec": trec.ADAPTER,
}

__all__ = ["ADAPTERS", "Adapter"]

"""Published data sets as clicks, corpus and judgments: one source a file.

May import tables, text and common.
"""

from __future__ import annotations

from dssm_tf.adapters import best_buy, esci, home_depot, msmarco, trec, ubi, wands
from dssm_tf.adapters.adapter import Adapter

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

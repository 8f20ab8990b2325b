"""The systems the papers compare with, one model a file, behind one interface."""

from __future__ import annotations

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.bm25 import BM25

BASELINES: dict[str, type[Baseline]] = {
    "bm25": BM25,
}

__all__ = ["BASELINES", "Baseline", "Click"]

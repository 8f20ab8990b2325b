"""The registry of baselines, by their names in tables and commands."""

from __future__ import annotations

from typing import Any

from dssm_tf.baselines.base import Baseline
from dssm_tf.baselines.bltm import BLTM
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.baselines.lce import LCE
from dssm_tf.baselines.lda import LDA
from dssm_tf.baselines.lsa import LSA
from dssm_tf.baselines.mrf import MRF
from dssm_tf.baselines.plsa import PLSA
from dssm_tf.baselines.ptm import PTM
from dssm_tf.baselines.skip_thought.baseline import SkipThought
from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.baselines.trigram_tfidf import TrigramTfIdf
from dssm_tf.baselines.ulm import ULM
from dssm_tf.baselines.wtm import WTM
from dssm_tf.dse.dse_tfidf import DSEWithTfIdf
from dssm_tf.dse.rankers import DSE, PSI, SSI

_CLASSES: tuple[type[Baseline[Any]], ...] = (
    BM25,
    ULM,
    TfIdf,
    TrigramTfIdf,
    PLSA,
    LDA,
    BLTM,
    MRF,
    LCE,
    WTM,
    PTM,
    Doc2Vec,
    LSA,
    SkipThought,
    DSE,
    SSI,
    PSI,
    DSEWithTfIdf,
)
"""Baselines in the order of tables. Add new ones here; their modules must load without Keras."""

BASELINES: dict[str, type[Baseline[Any]]] = {baseline.name: baseline for baseline in _CLASSES}

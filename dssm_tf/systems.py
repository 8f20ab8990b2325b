"""Every baseline, by the name it has in tables and commands."""

from __future__ import annotations

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

BASELINES: dict[str, type[Baseline]] = {
    "bm25": BM25,
    "ulm": ULM,
    "tfidf": TfIdf,
    "trigram_tfidf": TrigramTfIdf,
    "plsa": PLSA,
    "lda": LDA,
    "bltm": BLTM,
    "mrf": MRF,
    "lce": LCE,
    "wtm": WTM,
    "ptm": PTM,
    "doc2vec": Doc2Vec,
    "lsa": LSA,
    "skip_thought": SkipThought,
    "dse": DSE,
    "ssi": SSI,
    "psi": PSI,
    "dse+tfidf": DSEWithTfIdf,
}

"""Every baseline, by the name it has in tables and commands."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dssm_tf.baselines.base import Baseline


class _Baselines(dict[str, Any]):
    """Names to classes, each imported when it is first asked for."""

    def __getitem__(self, name: str) -> type[Baseline]:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, _, name_there = found.partition(":")
            found = self[name] = getattr(import_module(module), name_there)
        kind: type[Baseline] = found
        return kind


BASELINES = _Baselines(
    {
        "bm25": "dssm_tf.baselines.bm25:BM25",
        "ulm": "dssm_tf.baselines.ulm:ULM",
        "tfidf": "dssm_tf.baselines.tfidf:TfIdf",
        "trigram_tfidf": "dssm_tf.baselines.trigram_tfidf:TrigramTfIdf",
        "plsa": "dssm_tf.baselines.plsa:PLSA",
        "lda": "dssm_tf.baselines.lda:LDA",
        "bltm": "dssm_tf.baselines.bltm:BLTM",
        "mrf": "dssm_tf.baselines.mrf:MRF",
        "lce": "dssm_tf.baselines.lce:LCE",
        "wtm": "dssm_tf.baselines.wtm:WTM",
        "ptm": "dssm_tf.baselines.ptm:PTM",
        "doc2vec": "dssm_tf.baselines.doc2vec:Doc2Vec",
        "lsa": "dssm_tf.baselines.lsa:LSA",
        "skip_thought": "dssm_tf.baselines.skip_thought.baseline:SkipThought",
        "dse": "dssm_tf.dse.rankers:DSE",
        "ssi": "dssm_tf.dse.rankers:SSI",
        "psi": "dssm_tf.dse.rankers:PSI",
        "dse+tfidf": "dssm_tf.dse.dse_tfidf:DSEWithTfIdf",
    }
)

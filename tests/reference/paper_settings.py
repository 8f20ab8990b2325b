"""The settings of the papers' trainings, transcribed from their text and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TRIGRAMS = 25_000
"""With this number, the parameter counts of Palangi et al. 2016 are those of its first matrices."""


class PaperRow(NamedTuple):
    """A row of a paper's table, or a model of an equation that has no row.

    Attributes:
        tower: sizes and variant of the model.
        negatives: unclicked titles per click: n in Palangi et al. 2016, and J in Shen et al.
            2014.
        millions: millions of parameters, if the table has them.
        gamma: None if the paper sets it on held-out data and does not print it.
    """

    tower: Mapping[str, Any]
    negatives: int
    millions: float | None = None
    gamma: float | None = None


def _cells(name: str, cells: int, *, of_equation: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "cells": cells,
        "peepholes": of_equation,
        "forget_gate": of_equation,
    }


def _windows(window: int, features: int, width: int) -> dict[str, Any]:
    return {"name": "clsm", "window": window, "features": features, "widths": (width,)}


P16 = {
    # Table IV. Sec. V: "we will remove the peephole connections and the forget gate from the
    # LSTM-RNN model in the current task"; "4 negative samples, i.e., n = 4".
    "dssm-p16": PaperRow({"name": "dssm", "widths": (288, 96)}, 4, 14.4),
    "clsm-p16-win1": PaperRow(_windows(1, 288, 96), 4, 14.4),
    "clsm-p16-win3": PaperRow(_windows(3, 288, 96), 4, 43.2),
    "clsm-p16-win5": PaperRow(_windows(5, 288, 96), 4, 72.0),
    "rnn-288": PaperRow({"name": "rnn", "hidden": 288}, 4, 14.4),
    "lstm-32": PaperRow(_cells("lstm", 32), 4, 4.8),
    "lstm-64": PaperRow(_cells("lstm", 64), 4, 9.6),
    "lstm-96": PaperRow(_cells("lstm", 96), 4, 14.4),
    "bilstm-96": PaperRow(_cells("bilstm", 96), 4),
    # Eq. 2 with all terms.
    "lstm_full-96": PaperRow(_cells("lstm", 96, of_equation=True), 4),
    "bilstm_full-96": PaperRow(_cells("bilstm", 96, of_equation=True), 4),
    # Palangi et al. 2014, eq. 1-6; eq. 9 does not scale the cosines.
    "lstm-p14": PaperRow(_cells("lstm", 96, of_equation=True), 4, gamma=1.0),
}
"""Palangi et al., trained by Nesterov's method, algorithm 1."""

S14 = {
    # Table 5, row 12, and table 6: "300/300/128", "K = 300, L = 128".
    "dssm-s14": PaperRow({"name": "dssm", "widths": (300, 300, 128)}, 4),
    "clsm-s14-win1": PaperRow(_windows(1, 300, 128), 50),
    "clsm-s14-win3": PaperRow(_windows(3, 300, 128), 50),
    "clsm-s14-win5": PaperRow(_windows(5, 300, 128), 50),
}
"""Shen et al. 2014, sec. 4 and 5.2, trained by plain stochastic gradient descent."""

S14_BATCH = 1024
"""Sec. 4: "Each mini-batch consists of 1024 training samples"."""

P16_MOMENTUM = {"ends": 0.9, "middle": 0.995, "fraction of each end": 0.02}
"""Sec. IV, of all parameter updates."""

OFF_IN_PAPERS = {
    "shared_towers": False,
    "tower.dropout": 0.0,
    "tower.ngram_dropout": 0.0,
    "loss.name": "click_softmax",
    "negatives.fresh": 0,
    "negatives.in_batch": False,
    "optimizer.schedule.name": "constant",
    "training.averaging": 0.0,
    "training.title_queries": 0,
    "training.refit": False,
    "training.click_weight": "none",
    "ranking.prior": 0.0,
}
"""Two towers, without the extensions of this package.

Reference: Palangi et al. 2016, algorithm 1; Shen et al. 2014, sec. 5.2.
"""

DOC2VEC = {
    "min_count": 1,
    "window": 5,
    "vector_size": 100,
    "sample": 1e-4,
    "negative": 5,
    "epochs": 30,
}
"""Palangi et al. 2016, sec. V-B, by gensim's current parameter names."""

SKIP_THOUGHT = {"kind": "combine", "units": 2400, "word_units": 620}
"""Vectors of 4,800 numbers, a uni-skip of 2,400 and a bi-skip of 1,200 per direction.

Reference: Palangi et al. 2016, sec. V-B. The word vectors of 620 numbers are those of Kiros et al.
2015, whose published model is used there.
"""

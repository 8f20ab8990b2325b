"""Fits the systems of the DSE paper to pages that answer each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy import sparse

from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
from dssm_tf.dse.networks import BagPair, DSEPair, DSETower, PSIPair, SSIPair, encode
from dssm_tf.dse.pretraining import Told
from dssm_tf.dse.settings import FineTuning, Pretraining

_NEIGHBOURS = 5
_SHOWN_WORDS = 40

Settings = TypeVar("Settings", FineTuning, Pretraining)


def tenth(settings: Settings) -> Settings:
    """A tenth of the steps: to see that it works, not to quote."""
    return replace(settings, steps=max(20, settings.steps // 10))


def fit_system(
    name: str,
    task: LinkTask,
    dimension: int,
    settings: FineTuning,
    *,
    tower: DSETower | None = None,
    tuples: int | None = None,
    seed: int = 0,
    told: Told = lambda _: None,
) -> BagPair:
    """Fits `dse`, `ssi` or `psi` to the links of a task.

    Args:
        name: of the system.
        task: pages and links.
        dimension: C.
        settings: how.
        tower: a pretrained one, which `dse` starts from; any number of fits can start from it.
        tuples: size of the training set of tuples; all that the links allow by default.
        seed: of everything random.
        told: how it goes.

    Raises:
        UserError: C exceeds the number of words, or the training diverges.
    """
    words = task.queries.shape[1]
    model: BagPair
    if name == "dse":
        widths = None if tower is None else [machine.units for machine in tower.machines[:-1]]
        model = DSEPair(words, dimension, widths=widths, seed=seed)
        if tower is not None:
            model.query_tower.set_weights(tower.get_weights())
    else:
        model = {"ssi": SSIPair, "psi": PSIPair}[name](words, dimension, seed=seed)
    fine_tune(model, task, settings, tuples=tuples, seed=seed, told=told)
    return model


def nearest_words(tower: DSETower, words: Sequence[str]) -> dict[str, list[str]]:
    """For 40 words of all frequencies, those with the nearest activities in the first layer.

    Each word is alone in its input, as in W14 table 2; nearness is the correlation of the
    activities over the hidden units, since what all words have in common says nothing.
    """
    alone = sparse.identity(len(words), dtype=np.float32).tocsr()
    activities = encode(tower.machines[0], alone).astype(np.float64)
    correlation = np.asarray(np.corrcoef(activities))
    correlation[np.diag_indices(len(words))] = -np.inf
    order = np.argsort(-correlation, axis=1, kind="stable")
    order = order[:, : min(_NEIGHBOURS, len(words) - 1)]
    shown = range(0, len(words), max(1, len(words) // _SHOWN_WORDS))
    return {words[place]: [words[near] for near in order[place]] for place in shown}

"""Fits the systems of the DSE paper to pages and links, and measures their rank loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.dse.margin_training import FineTuning, Pretraining, encode, fine_tune, pretrain
from dssm_tf.dse.networks.bag_pair import BagPair
from dssm_tf.dse.networks.dse import DSE, DSEPair
from dssm_tf.dse.networks.psi import PSI
from dssm_tf.dse.networks.ssi import SSI
from dssm_tf.dse.relevance import TupleBatches
from dssm_tf.evaluation.rank_loss import rank_loss

Rows = Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]]
"""Scores of some pages as queries: one row each, one column a page."""

Told = Callable[[str], None]

WEIGHTS = np.linspace(0, 1, 21)
NEIGHBOURS = 5
SHOWN_WORDS = 40


@dataclass(frozen=True)
class LinkTask:
    """Pages that answer each other: what is learned, what is measured.

    Args:
        bags: `(pages, words)`.
        train: links to learn from, bool `(pages, pages)`.
        test: links to measure on.
        known: what must not serve as irrelevant while learning.
        ignored: what counts neither as relevant nor as irrelevant while measuring.
        validation: links to choose by; None where nothing is chosen.
    """

    bags: sparse.csr_matrix
    train: sparse.csr_matrix
    test: sparse.csr_matrix
    known: sparse.csr_matrix
    ignored: sparse.csr_matrix
    validation: sparse.csr_matrix | None = None

    def loss(self, scores: Rows, links: sparse.csr_matrix | None = None) -> float:
        """Rank loss in per cent on the test links, or on others.

        Links that are not measured are left out, wherever they stand.
        """
        measured = self.test if links is None else links
        return rank_loss(scores, measured, _without(self.ignored, measured))


@dataclass(frozen=True)
class Effort:
    """How a system is trained.

    Args:
        fitting: to tuples.
        pretraining: of the RBMs of DSE.
        batch_size: links a batch.
    """

    fitting: FineTuning
    pretraining: Pretraining = field(default_factory=Pretraining)
    batch_size: int = 256

    def quick(self) -> Effort:
        """A tenth of the steps: to see that it works, not to quote."""

        def tenth(plan: Any) -> Any:
            return replace(plan, steps=max(20, plan.steps // 10))

        return replace(self, fitting=tenth(self.fitting), pretraining=tenth(self.pretraining))


def fit_system(
    name: str,
    task: LinkTask,
    dimension: int,
    effort: Effort,
    *,
    widths: tuple[int, ...] | None = None,
    lower: DSE | None = None,
    taught: DSE | None = None,
    tuples: int | None = None,
    seed: int = 0,
    told: Told = lambda _: None,
) -> BagPair:
    """Fits `dse`, `ssi` or `psi` to the links of a task.

    Args:
        name: of the system.
        task: pages and links.
        dimension: C.
        effort: how long.
        widths: of DSE's binary layers, the paper's rule by default.
        lower: a tower whose binary RBMs are taken over.
        taught: a tower whose RBMs are all taken over; there is no pretraining then.
        tuples: size of the training set of tuples; all that the links allow by default.
        seed: of everything random.
        told: how it goes.

    Raises:
        UserError: C exceeds the number of words, or the training diverges.
    """
    words = task.bags.shape[1]
    if not 1 <= dimension <= words:
        raise UserError(
            f"C = {dimension} with {words} words; an embedding needs 1 <= C <= D. "
            "Lower C, or keep more words."
        )
    model: BagPair
    if name == "dse":
        model = DSEPair(words, dimension, widths=widths, seed=seed)
        tower = model.query_tower
        if taught is not None:
            tower.set_weights(taught.get_weights())
        else:
            pretrain(tower, task.bags, effort.pretraining, telling(told), lower)
    else:
        model = (SSI if name == "ssi" else PSI)(words, dimension, seed=seed)
    batches = TupleBatches(
        task.train, task.known, batch_size=effort.batch_size, tuples=tuples, seed=seed
    )
    check = None
    if task.validation is not None:
        validation = task.validation

        def check() -> float:
            return task.loss(model_scores(model, task.bags), validation)

    fine_tune(
        model,
        task.bags,
        task.bags,
        batches,
        effort.fitting,
        check=check,
        advance=lambda step, state: told(f"step {step}/{effort.fitting.steps} {state}"),
    )
    return model


def model_scores(model: BagPair, bags: sparse.csr_matrix) -> Rows:
    """Scores of every page for pages as queries, encoded once."""
    queries, titles = encode(model.query_vectors, bags), encode(model.title_vectors, bags)
    return lambda rows: queries[rows] @ titles.T


def cosine_scores(bags: sparse.csr_matrix) -> Rows:
    """Scores of pages by the dot product of their normalised vectors."""
    return lambda rows: (bags[rows] @ bags.T).toarray()


def mixed_scores(task: LinkTask, semantic: Rows, lexical: Rows) -> tuple[Rows, float]:
    """A linear combination with the weight that validation likes best.

    Returns:
        The combination, and the share of the lexical scores in it, from 0 to 1.
    """
    sample = semantic(np.arange(min(500, task.bags.shape[0])))
    spread = float(np.std(sample)) or 1.0

    def mixed(weight: float) -> Rows:
        return lambda rows: (1 - weight) * semantic(rows) / spread + weight * lexical(rows)

    losses = [task.loss(mixed(weight), task.validation) for weight in WEIGHTS]
    best = float(WEIGHTS[int(np.argmin(losses))])
    return mixed(best), best


def nearest_words(tower: DSE, words: Sequence[str]) -> dict[str, list[str]]:
    """For 40 words of all frequencies, those with the nearest activities in the first layer.

    Each word is alone in its input, as in W14 table 2; nearness is the correlation of the
    activities over the hidden units, since what all words have in common says nothing.
    """
    alone = sparse.identity(len(words), dtype=np.float32).tocsr()
    activities = encode(tower.machines[0], alone).astype(np.float64)
    correlation = np.asarray(np.corrcoef(activities))
    correlation[np.diag_indices(len(words))] = -np.inf
    order = np.argsort(-correlation, axis=1, kind="stable")
    order = order[:, : min(NEIGHBOURS, len(words) - 1)]
    shown = range(0, len(words), max(1, len(words) // SHOWN_WORDS))
    return {words[place]: [words[near] for near in order[place]] for place in shown}


def telling(told: Told) -> Callable[[int, str], None]:
    """What `pretrain` tells, without the number of the step, which the text has too."""
    return lambda _, state: told(state)


@contextmanager
def experiment_bar(console: Console, total: int) -> Iterator[Callable[[str], Told]]:
    """A bar over the systems of an experiment.

    Gives a function that starts the next system, by its name, and returns what to tell about it.
    """
    with progress_of("fits", total, console, "done") as task:
        started: list[str] = []

        def start(name: str) -> Told:
            task.update(len(started), name)
            started.append(name)
            return lambda state: task.update(len(started) - 1, f"{name}: {state}")

        yield start


def _without(ignored: sparse.csr_matrix, links: sparse.csr_matrix) -> sparse.csr_matrix:
    kept = (ignored.astype(np.int8) - ignored.multiply(links).astype(np.int8)).tocsr()
    kept.eliminate_zeros()
    return kept.astype(bool)

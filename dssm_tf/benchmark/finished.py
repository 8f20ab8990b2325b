"""Systems that were trained or fitted before: runs, exports, compact models, saved baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline
from dssm_tf.benchmark.foreign import Foreign
from dssm_tf.benchmark.worker import megabytes, microseconds
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.by_cosine import without_prior
from dssm_tf.evaluation.evaluate import RankerScores
from dssm_tf.evaluation.evaluation import about_vocabulary
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.load import find_model, load
from dssm_tf.export.saved_model import EXTRA
from dssm_tf.model.run_files import QUERY_IDS, were_learned
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.systems import BASELINES


class Finished(NamedTuple):
    """A system that was not trained here.

    Attributes:
        kind: `model`, of a run, an export or a compact model, or `baseline`.
        system: its scores.
        known: `(queries,)`, whether the log it learned from holds the task's queries; None where
            it does not say.
    """

    kind: Literal["model", "baseline"]
    system: Foreign
    known: NDArray[np.bool_] | None


def finished_source(name: str, path: Path, task: RankingTask) -> Finished:
    """A system as it is, ranked without being trained again.

    Args:
        name: of the row.
        path: what `dssm train`, `dssm export` or a baseline's `save` wrote.
        task: what is ranked.

    Raises:
        UserError: there is no such system, or it is damaged.
    """
    ranker, log = load_finished(name, path)
    about: dict[str, Any] = {"source": str(path), "notes": []}
    if isinstance(ranker, SemanticRanker):
        about |= about_vocabulary(ranker.vocabulary.unknown_share(task.queries))
        about["parameters"] = int(ranker.model.count_params())
    known = None
    if log is not None:
        known = were_learned(task.queries, log)
    if known is None:
        lead = "what it learned from is not known and"
    else:
        lead = (
            f"learned from a log with {known.sum():,} of the {len(known):,} judged queries, which"
        )
    # A log without a judged query holds no click that is judged.
    if known is None or known.any():
        about["notes"] = [*about["notes"], f"was not trained here: {lead} may hold judged clicks"]
    kind: Literal["model", "baseline"] = "baseline"
    if not isinstance(ranker, Baseline):
        # A row of its own adds the prior, as to every other system.
        kind, ranker = "model", without_prior(ranker)
    about["microseconds_per_query"] = microseconds(ranker, task)
    return Finished(kind, Foreign(RankerScores(ranker, task), megabytes(path), about), known)


def load_finished(name: str, path: Path) -> tuple[Ranker, Path | None]:
    """The ranker, and the directory that tells which queries it learned from.

    Args:
        name: what tables call it; which baseline it is, where a directory does not tell.
        path: what `dssm train`, `dssm export` or a baseline's `save` wrote.

    Raises:
        UserError: there is no such system, or it is damaged.
    """
    if place := find_model(path):
        log = place.path / EXTRA if place.kind == "export" else place.path
        return load(path, name), log if (log / QUERY_IDS).exists() else None
    saved = [one for one in BASELINES if (path / f"{one}.npz").exists()]
    if name in BASELINES and name not in saved and not saved:
        saved = [name]  # one that has other files, such as skip-thought's weights
    if len(saved) != 1 or not path.is_dir():
        raise UserError(
            f"{path}: expected a directory that `dssm train` or `dssm export` "
            f"wrote, or that one baseline was saved in; it holds {', '.join(saved) or 'none'}."
        )
    return BASELINES[saved[0]].load(path), None

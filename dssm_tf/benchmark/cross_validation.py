"""Two-fold cross validation of free parameters, as the papers do it.

The queries are halved. What is reported on one half was chosen on the other,
so no query's judgments take part in anything that is measured on it; then the
two halves are joined. Beside it stands a final choice, by all queries, which is
to be deployed and never reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.evaluate import Measured
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import Ranking, RelevantRanks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.evaluation.typos import SUFFIX
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import FOLDED

Half = NDArray[np.int64]
"""`(queries,)`: 0 or 1."""


def halves(task: RankingTask) -> Half:
    """Halves the queries by the fingerprints of their normalised texts.

    Queries that normalise to one text are in one half, and so is a query with a typing error;
    the split does not depend on the order of the judgments. The queries that means count are
    split evenly; the others are in the first half.
    """
    texts = dict(zip(task.query_ids, task.queries, strict=True))
    keys = [FOLDED.key(texts.get(name.removesuffix(SUFFIX), texts[name])) for name in texts]
    left_out = set(task.left_out())
    counted = {key for row, key in enumerate(keys) if row not in left_out}
    ordered = sorted(counted, key=lambda key: (fingerprint64(key), key))
    half_of = {key: place % 2 for place, key in enumerate(ordered)}
    return np.array([half_of.get(key, 0) for key in keys], dtype=np.int64)


def grid(free: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of values, the last name's changing first.

    >>> grid({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [dict(zip(free, values, strict=True)) for values in product(*free.values())]


def choose(
    values: Sequence[NDArray[np.float64]] | NDArray[np.float64], half: Half
) -> tuple[int, int] | None:
    """For each half, the setting with the best mean on the other half; the first of equals.

    Args:
        values: a metric, `(settings, queries)`, NaN for queries that means leave out.
        half: see `halves`.

    Returns:
        Settings for the first and the second half; None when a half has no query to
        choose by, so that nothing can be chosen.
    """
    table = np.asarray(values, dtype=np.float64)
    if not all((~np.isnan(table[0, half == number])).any() for number in (0, 1)):
        return None
    return choose_final(table[:, half == 1]), choose_final(table[:, half == 0])


def to_choose_by(ranks: RelevantRanks, metric: str, task: RankingTask) -> NDArray[np.float64]:
    """A metric by query, NaN for those that nothing is chosen by: with typing errors, too."""
    return np.where(task.misspelt, np.nan, per_query(ranks, [metric])[metric])


def choose_final(values: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> int:
    """The setting with the best mean on all queries that means count; the first of equals.

    Args:
        values: see `choose`.
    """
    table = np.asarray(values, dtype=np.float64)
    counted = ~np.isnan(table[0])
    # Means that differ by rounding only are equal.
    return int(np.argmax(table[:, counted].mean(axis=1).round(9))) if counted.any() else 0


@dataclass(frozen=True)
class ByHalf:
    """A system's rankings of all queries, by what was chosen for each half.

    A fusion chooses its weights for one half by rankings of the other, so it
    needs the setting of a half on all queries, not on that half only.

    Attributes:
        settings: the rankings of all queries by the setting of the first half, and by
            that of the second; the same object when they do not differ.
        half: see `halves`.
        final: the rankings of all queries by the final setting; None where it is the first half's.
    """

    settings: tuple[Measured, Measured]
    half: Half
    final: Measured | None = None

    def deployed(self) -> Measured:
        """The rankings of all queries by the final setting."""
        return self.final or self.settings[0]

    def joined(self) -> Measured:
        """What is reported: each query ranked by the setting of its own half."""
        first, second = self.settings
        if first is second:
            return first
        ranks = first.ranks
        own = np.where(self.half[ranks.query] == 0, ranks.rank, second.ranks.rank)
        rankings = [self.settings[h].rankings[row] for row, h in enumerate(self.half)]
        return Measured(RelevantRanks(ranks.queries, ranks.query, own, ranks.grade), rankings)

    def save(self, path: Path) -> None:
        """Writes an `.npz`."""
        arrays: dict[str, NDArray[Any]] = {}
        all_three = (*self.settings, self.deployed())
        kept = list({id(measured): measured for measured in all_three}.values())
        arrays["places"] = np.array([list(map(id, kept)).index(id(one)) for one in all_three])
        for number, measured in enumerate(kept):
            columns, scores = zip(*measured.rankings, strict=True)
            arrays |= {
                f"rank{number}": measured.ranks.rank,
                f"lengths{number}": np.array([len(row) for row in columns], np.int64),
                f"columns{number}": np.concatenate(columns),
                f"scores{number}": np.concatenate(scores),
            }
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path, task: RankingTask, half: Half) -> ByHalf:
        """Reads what `save` wrote for the same task."""
        with np.load(path) as arrays:
            settings = []
            places = arrays["places"].tolist()
            for number in range(max(places) + 1):
                cuts = np.cumsum(arrays[f"lengths{number}"])[:-1]
                rows = zip(
                    np.split(arrays[f"columns{number}"], cuts),
                    np.split(arrays[f"scores{number}"], cuts),
                    strict=True,
                )
                grades = [task.relevant_grades(row) for row in range(len(task.queries))]
                ends = np.cumsum([len(row) for row in grades])[:-1]
                ranks = RelevantRanks.from_lists(np.split(arrays[f"rank{number}"], ends), grades)
                settings.append(Measured(ranks, [Ranking(*row) for row in rows]))
        first, second, final = (settings[place] for place in places)
        return cls((first, second), half, final)

    @classmethod
    def of_one(cls, measured: Measured, half: Half) -> ByHalf:
        """Of a system for which nothing was chosen."""
        return cls((measured, measured), half)


def chosen_to_json(
    settings: Sequence[Mapping[str, Any]],
    chosen: tuple[int, int],
    values: Sequence[Sequence[NDArray[np.float64]]],
    half: Half,
    tune: str,
) -> list[dict[str, Any]]:
    """What was chosen for each half, and how it did on both.

    Args:
        settings: what could be chosen.
        chosen: places in `settings`, for the first half and for the second.
        values: of the metric; `values[h][setting]`, `(queries,)`, is what the choice for
            half `h` was made by.
        half: see `halves`.
        tune: the metric.
    """
    found = []
    for number, place in enumerate(chosen):
        row = values[number][place]
        tuned, reported = (float(np.nanmean(row[half == h])) for h in (1 - number, number))
        found.append(
            {
                "tuned_on": f"half {2 - number}",
                "reported_on": f"half {1 + number}",
                "values": dict(settings[place]),
                "metric": tune,
                "tuned": tuned,
                "reported": reported,
            }
        )
    return found


def final_to_json(
    settings: Sequence[Mapping[str, Any]],
    place: int,
    values: Sequence[NDArray[np.float64]],
    tune: str,
) -> dict[str, Any]:
    """The final choice, and how it did on the queries that it was chosen on.

    Args:
        settings: what could be chosen.
        place: the final one.
        values: of the metric, `(settings, queries)`.
        tune: the metric.
    """
    return {
        "chosen_on": "all judged queries, to deploy; what is reported was chosen by halves",
        "values": dict(settings[place]),
        "metric": tune,
        "tuned": float(np.nanmean(values[place])),
        "queries": int(np.count_nonzero(~np.isnan(values[place]))),
    }

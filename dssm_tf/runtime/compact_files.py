"""Reads and checks the files of a compact model.

compact.json    `format`; `name`; `score`, which is `{"name": "cosine"}` or `{"name": "maxsim",
                "threshold": ..., "text_cosine": ..., "gamma": ...}`, gamma the factor of the
                training's softmax; text `rules`; `prior_weight`; `mean_prior`; `cutoff`; `unseen`,
                the log-prior of a title without clicks. With cosine also `tower`, its
                configuration, and `tower_names`: `query_tower` and, unless the towers are shared,
                `title_tower`
vocabulary.txt  letter n-grams and whole words, one per line, by id from 1
weights.npz     with cosine, arrays by tower and Keras name, such as `query_tower/hashing/kernel`;
                an int8 kernel has an additional array `scale`. With maxsim, `kernel`, its `scale`
                if it is int8, `importance`, `side_weights` and `pair_bias`; with `text_cosine`
                above 0 also `text_kernel`, its `text_scale` and `text_importance`, see
                `dssm_tf.runtime.maxsim`
prior.npz       `titles`, the sorted 64-bit hashes of clicked titles, and `log_priors`, their
                log-priors: the logs of their fractions of all clicks
document_frequencies.json
                with maxsim: the words of the training titles and their counts, see
                `dssm_tf.text.document_frequencies`
rules.tsv       rules by hand, if there are any, see `dssm_tf.runtime.search_rules`
remembered_clicks.npz
                in an index with `--clicks`, see `dssm_tf.runtime.remembered_clicks`
spec.json       the specification of the training data; not read here
MODEL_CARD.md
SHA256SUMS
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.checksums import check_files, listed_files
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json
from dssm_tf.common.model_versions import newest_version
from dssm_tf.runtime.remembered_clicks import (
    REMEMBERED_CLICKS,
    RememberedClicks,
    read_remembered_clicks,
)
from dssm_tf.runtime.search_rules import NO_RULES, SearchRules, read_rules
from dssm_tf.runtime.towers import TOWERS
from dssm_tf.runtime.weight_shapes import tower_problem, weights_problem
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary

COMPACT = "compact.json"
INDEX_MODEL = "model"
"""The folder of a search index that contains the index's compact model."""
VOCABULARY = "vocabulary.txt"
WEIGHTS = "weights.npz"
PRIOR = "prior.npz"
DOCUMENT_FREQUENCIES = "document_frequencies.json"
SEARCH_RULES = "rules.tsv"

FORMAT = 12
"""Increased when older versions of this package cannot read the files."""

COSINE, MAXSIM = "cosine", "maxsim"
"""Names of scores."""

NamedArrays = dict[str, NDArray[Any]]
"""Arrays by name."""

_REBUILD_HINT = "Copy the directory again, or write it again with `dssm export --format compact`."
_LARGEST_PRIOR = 1e6  # of a log-prior, and of its weight
_LARGEST_TEXT_COSINE = 10.0
_LARGEST_CUTOFF = float(np.finfo(np.float32).max)
_NUMBER_RANGES = {
    "prior_weight": (0.0, _LARGEST_PRIOR),
    "mean_prior": (-(_LARGEST_PRIOR**2), _LARGEST_PRIOR**2),
    "cutoff": (-_LARGEST_CUTOFF, _LARGEST_CUTOFF),
    "unseen": (-_LARGEST_PRIOR, _LARGEST_PRIOR),
}
"""Numbers of compact.json with the smallest and the largest value."""

LARGEST_WEIGHT = 1e9
"""Larger weights are refused, so that scores do not overflow float32."""


class CompactFiles(NamedTuple):
    """The content of a compact model, as described at the top of this module.

    Attributes:
        directory: the directory of the version.
        settings: the content of compact.json.
        vocabulary: the letter n-grams and text rules.
        weights: the arrays of weights.npz.
        prior: the arrays of prior.npz.
        frequencies: document frequencies, with the score maxsim only.
        search_rules: the rules by hand, with the score maxsim only.
        remembered_clicks: remembered clicks, with the score maxsim only.
    """

    directory: Path
    settings: dict[str, Any]
    vocabulary: Vocabulary
    weights: NamedArrays
    prior: NamedArrays
    frequencies: DocumentFrequencies | None
    search_rules: SearchRules = NO_RULES
    remembered_clicks: RememberedClicks | None = None

    @property
    def score(self) -> str:
        """The name of the score, `COSINE` or `MAXSIM`."""
        return str(self.settings["score"]["name"])


def read_compact(directory: Path) -> CompactFiles:
    """Reads and checks a compact model.

    Args:
        directory: a version, or a model; then its newest version is read.

    Raises:
        UserError: the directory does not exist or has another format, a file was damaged or
            changed, or a value is impossible.
    """
    directory = newest_version(directory)
    check_files(directory, (COMPACT, VOCABULARY, WEIGHTS, PRIOR), _REBUILD_HINT)
    settings = read_json(directory / COMPACT, _REBUILD_HINT)
    if not isinstance(settings, dict):
        raise UserError(f"{directory / COMPACT} is not a JSON object. {_REBUILD_HINT}")
    version = settings.get("format")
    if version != FORMAT:
        raise UserError(
            f"{directory} is of format {version!r:.20}; this version reads {FORMAT}. "
            "Install the version of dssm-tf or dssm-runtime that wrote it, or export it again."
        )
    _refuse(directory / COMPACT, _settings_problem(settings))
    try:
        text_rules = TextRules.from_json(settings["rules"])
    except (TypeError, ValueError) as error:
        raise UserError(f"{directory / COMPACT}: rules: {error}. {_REBUILD_HINT}") from None
    vocabulary = Vocabulary.load(directory / VOCABULARY, text_rules)
    weights, prior = (read_arrays(directory / name, _REBUILD_HINT) for name in (WEIGHTS, PRIOR))
    _refuse(directory / PRIOR, _prior_problem(prior))
    frequencies, search_rules, remembered_clicks = None, NO_RULES, None
    if settings["score"]["name"] == MAXSIM:
        check_files(directory, (DOCUMENT_FREQUENCIES,), _REBUILD_HINT)
        frequencies = DocumentFrequencies.load(directory / DOCUMENT_FREQUENCIES)
        has_text_vectors = settings["score"]["text_cosine"] > 0
        problem = _maxsim_problem(weights, 1 + vocabulary.size, has_text_vectors)
        _refuse(directory / WEIGHTS, problem)
        if (directory / SEARCH_RULES).exists() or SEARCH_RULES in listed_files(
            directory, _REBUILD_HINT
        ):
            check_files(directory, (SEARCH_RULES,), _REBUILD_HINT)
            search_rules = read_rules(directory / SEARCH_RULES, vocabulary)
        if (directory / REMEMBERED_CLICKS).exists() or REMEMBERED_CLICKS in listed_files(
            directory, _REBUILD_HINT
        ):
            check_files(directory, (REMEMBERED_CLICKS,), _REBUILD_HINT)
            remembered_clicks = read_remembered_clicks(directory)
    else:
        tower, tower_names = settings["tower"], settings["tower_names"]
        problem = weights_problem(weights, tower, tower_names, 1 + vocabulary.size)
        _refuse(directory / WEIGHTS, problem)
    _refuse(directory / WEIGHTS, number_problem(weights, LARGEST_WEIGHT))
    return CompactFiles(
        directory,
        settings,
        vocabulary,
        weights,
        prior,
        frequencies,
        search_rules,
        remembered_clicks,
    )


def _refuse(path: Path, problem: str | None) -> None:
    """Raises UserError if there is a problem."""
    if problem is not None:
        raise UserError(f"{path}: {problem}. {_REBUILD_HINT}")


def _settings_problem(settings: Mapping[str, Any]) -> str | None:
    """Describes a missing or impossible value of compact.json; None if all are valid."""
    name, score, text_rules = (settings.get(key) for key in ("name", "score", "rules"))
    if not isinstance(name, str) or not name:
        return f"name is {name!r:.60}; expected text"
    for key, (low, high) in _NUMBER_RANGES.items():
        if not _is_number(settings.get(key), low, high):
            return f"{key} is {settings.get(key)!r:.60}; expected a number from {low:g} to {high:g}"
    if not isinstance(text_rules, dict):
        return f"rules is {text_rules!r:.60}; expected an object"
    if not isinstance(score, dict) or score.get("name") not in (COSINE, MAXSIM):
        return f"score is {score!r:.60}; expected an object with the name cosine or maxsim"
    if score["name"] == MAXSIM:
        threshold: Any = score.get("threshold")
        if not _is_number(threshold, 0, 1) or threshold == 1:
            return f"score.threshold is {threshold!r:.60}; expected a number from 0 to below 1"
        text_cosine: Any = score.get("text_cosine")
        if not _is_number(text_cosine, 0, _LARGEST_TEXT_COSINE):
            return (
                f"score.text_cosine is {text_cosine!r:.60}; expected a number from 0 to "
                f"{_LARGEST_TEXT_COSINE:g}"
            )
        gamma: Any = score.get("gamma")
        if not _is_number(gamma, 0, LARGEST_WEIGHT) or gamma == 0:
            return (
                f"score.gamma is {gamma!r:.60}; expected a number above 0, up to {LARGEST_WEIGHT:g}"
            )
        return None
    tower, tower_names = settings.get("tower"), settings.get("tower_names")
    if not isinstance(tower, dict) or str(tower.get("name")) not in TOWERS:
        return f"tower is {tower!r:.60}; expected one of {', '.join(TOWERS)}"
    if tower_names not in (["query_tower"], ["query_tower", "title_tower"]):
        return (
            f"tower_names is {tower_names!r:.60}; expected query_tower, or query_tower and "
            "title_tower"
        )
    return tower_problem(tower)


def _prior_problem(prior: NamedArrays) -> str | None:
    """Describes the problem of the arrays of prior.npz; None if they are valid."""
    if sorted(prior) != ["log_priors", "titles"]:
        return f"it has the arrays {_names(prior)}; expected log_priors, titles"
    titles, log_priors = prior["titles"], prior["log_priors"]
    if titles.dtype != np.int64 or titles.ndim != 1 or log_priors.shape != titles.shape:
        return (
            f"titles is {_shape(titles)} and log_priors {_shape(log_priors)}; expected one int64 "
            "and one number per title"
        )
    if (titles[1:] < titles[:-1]).any():
        return "titles is not sorted"
    return number_problem({"log_priors": log_priors}, _LARGEST_PRIOR)


def _maxsim_problem(weights: NamedArrays, row_count: int, has_text_vectors: bool) -> str | None:
    """Describes the problem of the arrays of a maxsim model; None if they are valid.

    Args:
        weights: the arrays.
        row_count: number of ids, including that of padding.
        has_text_vectors: whether the model has vectors of texts.
    """
    prefixes = ("", "text_") if has_text_vectors else ("",)
    shapes: dict[str, tuple[int, ...]] = {"side_weights": (2,), "pair_bias": (2,)}
    for prefix in prefixes:
        kernel = weights.get(f"{prefix}kernel", np.zeros(0))
        columns = kernel.shape[1] if kernel.ndim == 2 else 0
        shapes |= {
            f"{prefix}kernel": (row_count, max(columns, 1)),
            f"{prefix}importance": (row_count, 2),
            f"{prefix}scale": (row_count, 1),
        }
    scales = {f"{prefix}scale" for prefix in prefixes}
    expected = sorted({*shapes} - scales)
    if sorted({*weights} - scales) != expected:
        return f"it has the arrays {_names(weights)}; expected {', '.join(expected)}"
    for name, array in weights.items():
        if array.shape != shapes[name]:
            return f"{name} is {_shape(array)}; expected {shapes[name]}"
    for prefix in prefixes:
        dtype, scale = weights[f"{prefix}kernel"].dtype, f"{prefix}scale"
        if (dtype == np.int8) != (scale in weights):
            return (
                f"{prefix}kernel is {dtype}; expected int8 with the array {scale}, or floats "
                "without"
            )
    for name, array in weights.items():
        if array.dtype.kind != "f" and not (name.endswith("kernel") and array.dtype == np.int8):
            return f"{name} is {array.dtype}; expected floats"
    return None


def number_problem(arrays: Mapping[str, NDArray[Any]], largest: float) -> str | None:
    """Describes an array with a number that is not finite or too large; None if there is none.

    Args:
        arrays: by name.
        largest: the largest absolute value.
    """
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            return f"{name} has a number that is not finite"
        if array.size and not -largest <= float(array.min()) <= float(array.max()) <= largest:
            return f"{name} has a number that is larger than {largest:g}"
    return None


def _is_number(value: object, low: float, high: float) -> bool:
    return type(value) in (int, float) and low <= value <= high  # type: ignore[operator]


def _names(arrays: NamedArrays) -> str:
    return ", ".join(sorted(arrays))[:100] or "none"


def _shape(array: NDArray[Any]) -> str:
    return f"{array.dtype} {array.shape}"

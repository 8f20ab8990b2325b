"""Turns a maxsim model and its titles into plain data, for the script of the page.

Rows of the kernels are rounded to 16 bits with one scale per row. A number of a row changes by at
most 1/65534 of the largest number of the row, so a similarity changes by about 1e-5.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.hashed_words import HashedWords
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.text.characters import TABLE

LARGEST = 32767
"""The largest absolute number of a rounded row, in 16 bits."""


def model_data(ranker: MaxSimRanker, titles: Sequence[str]) -> dict[str, Any]:
    """The numbers that the score of a model needs, and the titles to rank.

    Args:
        ranker: a model without hash buckets, separate fields, rules and remembered clicks.
        titles: the titles. Titles with equal scores stay in this order.

    Returns:
        Plain data for JSON; arrays are little-endian numbers in base64.

    Raises:
        ValueError: the model has a part that the script does not compute.
    """
    model, rules = ranker.maxsim, ranker.vocabulary.rules
    if (
        rules.hash_buckets
        or rules.own_fields != 1
        or len(ranker.search_rules)
        or ranker.remembered_clicks is not None
    ):
        raise ValueError(
            "The model has hash buckets, separate fields, rules or remembered clicks; the page "
            "shows models without them."
        )
    text_vectors = model.text_vectors
    return {
        "rules": asdict(rules),
        "characters": TABLE.read_text("utf-8"),
        "ngrams": ranker.vocabulary.ngrams,
        "word_vectors": _arrays(model),
        "text_vectors": None if text_vectors is None else _arrays(text_vectors),
        "text_cosine": 0.0 if text_vectors is None else text_vectors.factor,
        "side_weights": model.side_weights.tolist(),
        "pair_bias": model.pair_bias.tolist(),
        "threshold": model.threshold,
        "cutoff": ranker.cutoff,
        "title_count": model.frequencies.titles,
        "word_titles": model.frequencies.words,
        "pair_titles": model.frequencies.pairs,
        "titles": list(titles),
        "priors": ranker.weighted_prior(titles).tolist(),
    }


def _arrays(words: HashedWords) -> dict[str, Any]:
    """The vectors and importances of all ids."""
    scales = np.abs(words.kernel[1:]).max(axis=1, keepdims=True, initial=0.0) / LARGEST
    rows = np.rint(words.kernel[1:] / np.where(scales > 0, scales, 1))
    return {
        "dimension": words.dimension,
        "rows": _base64(rows, "<i2"),
        "scales": _base64(scales, "<f4"),
        "importance": _base64(words.importance[1:], "<f4"),
    }


def _base64(array: NDArray[np.floating[Any]], dtype: str) -> str:
    """The numbers of an array in base64, row after row.

    Args:
        array: the array.
        dtype: the type of the encoded numbers, such as `<f4`.
    """
    return b64encode(np.ascontiguousarray(array, dtype).tobytes()).decode("ascii")

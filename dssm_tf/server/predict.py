"""Answers Predict requests in blocks; runs in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dssm_tf.export.signatures import INPUTS
from dssm_tf.runtime.trained_ranker import TrainedRanker, Vectors
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.server.limits import INVALID, Limits, Refusal
from dssm_tf.server.models import ServedModel
from dssm_tf.server.scheduler import Blocks

OUTPUTS = {
    "score": "scores", "serving_default": "scores",
    "encode_query": "embeddings", "encode_title": "embeddings",
}  # fmt: skip
"""The name of each signature's output."""

_MAX_TEXT_BYTES = 1 << 16  # longer texts are truncated; models read only the first words
_BLOCK_TEXTS, _BLOCK_WORDS = 256, 2500


def signature_of(name: str) -> str:
    """The signature of a request, `serving_default` if it is empty; raises Refusal if unknown."""
    if (signature := name or "serving_default") not in INPUTS:
        expected = ", ".join(INPUTS)
        raise Refusal(INVALID, f"signature_name: {name!r:.100}; expected one of {expected}.")
    return signature


def compute(
    model: ServedModel,
    signature: str,
    inputs: Mapping[str, Sequence[bytes]],
    limits: Limits,
    reserve: Callable[[int], None] = lambda _: None,
) -> Blocks[Vectors]:
    """Computes a signature in blocks of texts.

    Args:
        model: the model.
        signature: one of `INPUTS`.
        inputs: UTF-8 texts by the names of the inputs; with titles, one query for all or one per
            title.
        limits: limits on the texts.
        reserve: for vectors, called with the count of all their components after the first block.

    Returns:
        Scores `(titles,)` or vectors `(texts, dimension)`.

    Raises:
        Refusal: the inputs are not those of the signature, or are too many.
    """
    expected = INPUTS[signature]
    if set(inputs) != set(expected):
        raise Refusal(
            INVALID,
            f"inputs: expected {' and '.join(expected)} for this signature, not "
            f"{', '.join(sorted(inputs)) or 'nothing'}.",
        )
    for name in expected:
        if len(inputs[name]) > limits.texts:
            raise Refusal(
                INVALID,
                f"{name}: {len(inputs[name]):,} texts; at most {limits.texts:,} are allowed.",
            )
    texts = {
        name: [text[:_MAX_TEXT_BYTES].decode("utf-8", "replace") for text in inputs[name]]
        for name in expected
    }
    counts = {name: [_count_words(text) for text in texts[name]] for name in expected}
    if (words := sum(map(sum, counts.values()))) > limits.words:
        raise Refusal(INVALID, f"inputs: {words:,} words; at most {limits.words:,} are allowed.")
    if len(expected) == 1:
        return (yield from _encode(model.ranker, expected[0], texts[expected[0]], counts, reserve))
    return (yield from _score(model.ranker, texts["queries"], texts["titles"], counts["titles"]))


def _encode(
    ranker: TrainedRanker,
    name: str,
    texts: list[str],
    counts: Mapping[str, Sequence[int]],
    reserve: Callable[[int], None],
) -> Blocks[Vectors]:
    if not isinstance(ranker, VectorRanker):
        raise Refusal(
            INVALID,
            f"{ranker.name} is a maxsim model, which has no vector per text; use the signature "
            "score.",
        )
    encode = getattr(ranker, f"encode_{name}")
    vectors = []
    for start, end in _blocks(counts[name]):
        if start:
            yield
        vectors.append(encode(texts[start:end], prior=True))
        if not start:
            reserve(len(texts) * vectors[0].size // max(1, len(vectors[0])))
    return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)


def _score(
    ranker: TrainedRanker, queries: list[str], titles: list[str], word_counts: Sequence[int]
) -> Blocks[Vectors]:
    """Scores of titles, whose numbers of words are `word_counts`."""
    if len(queries) not in (1, len(titles)):
        raise Refusal(
            INVALID,
            f"inputs have {len(queries)} queries and {len(titles)} titles; expected the same "
            "number of both, or one query for all titles.",
        )
    if len(set(queries)) == 1:  # clients that batch repeat the query
        queries = queries[:1]
    scores = []
    for start, end in _blocks(word_counts):
        if start:
            yield
        block_queries = queries if len(queries) == 1 else queries[start:end]
        scores.append(ranker.score_pairs(block_queries, titles[start:end]))
    return scores[0] if len(scores) == 1 else np.concatenate(scores)


def _blocks(word_counts: Sequence[int]) -> list[tuple[int, int]]:
    """The start and the end of each block of texts; at least one block.

    Args:
        word_counts: the number of words of each text.

    >>> _blocks([1] * 3), _blocks([2000, 2000, 1])
    ([(0, 3)], [(0, 1), (1, 3)])
    """
    starts, words = [0], 0
    for position, count in enumerate(word_counts):
        if words and (words + count > _BLOCK_WORDS or position - starts[-1] >= _BLOCK_TEXTS):
            starts.append(position)
            words = 0
        words += count
    return list(zip(starts, [*starts[1:], len(word_counts)], strict=True))


def _count_words(text: str) -> int:
    """The approximate number of words. Each letter outside ASCII also counts as one.

    >>> _count_words("red  shoe"), _count_words("虎 ラーメン"), _count_words("")
    (2, 7, 0)
    """
    count = len(text.split())
    return count if text.isascii() else count + len(text) - len(text.encode("ascii", "ignore"))

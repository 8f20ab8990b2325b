"""Checks that the files of an export give the scores of the trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.export.search_engine.evaluation import engine_score
from dssm_tf.export.search_engine.write import expansion_lines
from dssm_tf.export.verify import ADVERSARIAL, WORD_TOLERANCE
from dssm_tf.runtime.maxsim import QUERY, TITLE
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_files import read_search_engine
from dssm_tf.runtime.search_engine_hits import FIELDS
from dssm_tf.text.typos import with_typo

_TITLES = 32
_ALL_TERMS = 1 << 30


def verify_search_engine(directory: Path, trained: MaxSimRanker) -> None:
    """Compares scores by the written queries and documents with those of the trained model.

    With all similar words, the scores of adversarial texts equal the model's. With the table of the
    export, so do those of titles that are their own query: a word is most similar to itself. The
    engine's scores are compared with those of the model without the cosine of text vectors, and the
    scores of `SearchEngineClient.rescored` with those of the model.

    Args:
        directory: the directory of the export.
        trained: the trained model.

    Raises:
        UserError: a score differs by more than the tolerance; the message names the texts.
    """
    files = read_search_engine(directory)
    client = SearchEngineClient(files)
    titles = _some_titles(client)
    rules = files.ranker.search_rules
    trained = trained.with_rules(rules)
    words_with_rules = [word for rule in rules.words[:_TITLES] for word in rule.words]
    texts = [*ADVERSARIAL, *titles, *words_with_rules]
    queries = [*texts, *(with_typo(title) for title in titles)]
    words = sorted({word for text in texts for word in client.words(text)})
    model = files.ranker.maxsim
    all_similar = SearchEngineClient(
        files._replace(
            manifest=replace(files.manifest, similar_words=0, catalog_words=len(words)),
            lines={word: line for word, _, line in expansion_lines(model, words, words, None)},
        )
    )
    _compare(all_similar, trained, queries, texts)
    for title in titles:
        _compare(client, trained, [title], [title])


def _some_titles(client: SearchEngineClient) -> list[str]:
    """Titles made of pairs of words of the training data, with words between them."""
    pairs = list(client.pairs)[:: max(1, len(client.pairs) // _TITLES)][:_TITLES]
    words = client.catalog[:: max(1, len(client.catalog) // _TITLES)][:_TITLES]
    return [f"{pair} {word}" for pair, word in zip(pairs, words, strict=False)] or words


def _compare(
    client: SearchEngineClient, trained: MaxSimRanker, queries: list[str], titles: list[str]
) -> None:
    """Raises UserError unless an engine with the client's queries gives the model's scores."""
    writer = DocumentWriter(client, ("title",))
    documents = [{"_id": "", FIELDS: writer.fields(title)} for title in titles]
    similarities = trained.similarity_matrix(queries, titles)
    cosine_parts = _cosine_parts(trained, queries, titles)
    priors = trained.weighted_prior(titles)
    for query, of_query, cosine_parts_of_query in zip(
        queries, similarities, cosine_parts, strict=True
    ):
        dsl = client.query(query, max_terms=_ALL_TERMS)
        hits = []
        for row, (document, prior) in enumerate(zip(documents, priors, strict=True)):
            score = engine_score(dsl, document)
            name = "the score" if score is not None else "no match, so the score"
            if score is None:
                score = 0.0
            elif client.manifest.prior_weight:
                score += client.manifest.prior_offset - prior
            similarity = of_query[row] - cosine_parts_of_query[row]
            _check(score, similarity, query, titles[row], name)
            hits.append({"_id": row, "_score": score, "_source": document})
        for hit in client.rescored(query, hits):
            row = hit["_id"]
            _check(hit["_score"], of_query[row], query, titles[row], "the rescored score")


def _cosine_parts(
    trained: MaxSimRanker, queries: Sequence[str], titles: Sequence[str]
) -> NDArray[np.floating[Any]]:
    """The part of the scores that text vectors add, `(queries, titles)`."""
    text_vectors = trained.maxsim.text_vectors
    if text_vectors is None:
        return np.zeros((len(queries), len(titles)))
    query_vectors, title_vectors = (
        np.array([text_vectors.of_text(trained.vocabulary.words(text), side) for text in texts])
        for texts, side in ((queries, QUERY), (titles, TITLE))
    )
    return text_vectors.factor * (query_vectors @ title_vectors.T)


def _check(score: float, expected: float, query: str, title: str, name: str) -> None:
    """Raises UserError if a score differs from the model's.

    Args:
        score: the score of the title for the query, by the export.
        expected: the score of the model.
        query: the query.
        title: the title.
        name: what the score is, for the message.
    """
    if not np.isclose(score, expected, rtol=0, atol=WORD_TOLERANCE):
        raise UserError(
            f"the query {query[:40]!r} gives the title {title[:40]!r} {name} {score:.6g}; the "
            f"model gives {expected:.6g} (allowed difference: {WORD_TOLERANCE:g}). Nothing was "
            "exported."
        )

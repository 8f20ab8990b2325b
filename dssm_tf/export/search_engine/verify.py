"""Checks that the files of an export give the scores of the trained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.export.search_engine.evaluation import engine_score
from dssm_tf.export.search_engine.write import expansion_lines
from dssm_tf.export.verify import ADVERSARIAL, WORD_TOLERANCE
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_engine_client import FIELDS, SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_files import read_search_engine
from dssm_tf.text.typos import with_typo

_TITLES = 32
_ALL_TERMS = 1 << 30


def verify_search_engine(directory: Path, trained: MaxSimRanker) -> None:
    """Compares scores by the written queries and documents with those of the trained model.

    With all similar words, the scores of adversarial texts equal the model's. With the table of the
    export, so do those of titles that are their own query: a word is most similar to itself.

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
    priors = trained.weighted_prior(titles)
    for query, expected in zip(queries, similarities, strict=True):
        dsl = client.query(query, max_terms=_ALL_TERMS)
        for title, document, similarity, prior in zip(
            titles, documents, expected, priors, strict=True
        ):
            score = engine_score(dsl, document)
            matched = score is not None
            if score is None:
                score = 0.0
            elif client.manifest.prior_weight:
                score += client.manifest.prior_offset - prior
            if not np.isclose(score, similarity, rtol=0, atol=WORD_TOLERANCE):
                raise UserError(
                    f"the query {query[:40]!r} gives the title {title[:40]!r} the score "
                    f"{score:.6g}{'' if matched else ' (no match)'}; the model gives "
                    f"{similarity:.6g} (allowed difference: {WORD_TOLERANCE:g}). Nothing was "
                    "exported."
                )

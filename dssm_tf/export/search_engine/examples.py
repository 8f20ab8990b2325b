"""Queries and documents with the expected results, for clients in other languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dssm_tf.runtime.search_engine_client import MAX_TERMS, SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_hits import FIELDS, TEXT_COSINE, Json
from dssm_tf.text.typos import with_typo

_EXAMPLES = 3


def query_examples(client: SearchEngineClient) -> dict[str, Any]:
    """The content of test_vectors.json.

    Args:
        client: a client of the export.

    Returns:
        An object with `version`, `queries`, `documents` and `text_cosines`; see specification.md.
    """
    pairs = list(client.pairs)[:: max(1, len(client.pairs) // _EXAMPLES)][:_EXAMPLES]
    long_words = sorted(client.catalog, key=lambda word: (-len(word), word))
    words = long_words[:: max(1, len(long_words) // _EXAMPLES)][:_EXAMPLES]
    first = words[0] if words else "hat"
    rules = client.ranker.search_rules
    words_with_rules = [word for rule in rules.words[:_EXAMPLES] for word in rule.words]
    queries_with_rules = [*client.title_rules][:_EXAMPLES]
    queries: list[tuple[str, str, bool, int]] = [
        ("empty query", "", True, MAX_TERMS),
        ("no word", " - !? ", True, MAX_TERMS),
        ("upper case, accents and punctuation", f"  {first.upper()}, CAF\u00c9!", True, MAX_TERMS),
        ("repeated words", f"{first} {first} hat {first}", True, MAX_TERMS),
        ("unknown words", "zzyzx qqqq", True, MAX_TERMS),
        ("without the prior", " ".join(words), False, MAX_TERMS),
        ("two terms", " ".join([*words, *pairs]), True, 2),
        ("twenty terms", " ".join([*words, *pairs]), True, 20),
        ("script without spaces", "\u6771\u4eac\u90fdTokyo", True, MAX_TERMS),
        *(("a known word", word, True, MAX_TERMS) for word in words),
        *(("a typing error", with_typo(word), True, MAX_TERMS) for word in words),
        *(("a pair", pair, True, MAX_TERMS) for pair in pairs),
        *(("a pair with a typing error", with_typo(pair), True, MAX_TERMS) for pair in pairs),
        *(("a word of a rule", word, True, MAX_TERMS) for word in words_with_rules),
        *(("a pinned or blocked title", query, True, MAX_TERMS) for query in queries_with_rules),
    ]
    writer = DocumentWriter(client, ("title",))
    titles = ["", *words, *pairs, " ".join([*pairs, *words, *words]), "A new zzyzx title"]
    documents = [{"title": title, FIELDS: writer.fields(title)} for title in titles]
    return {
        "version": client.manifest.version,
        "queries": [
            {
                "name": name,
                "query": text,
                "prior": prior,
                "max_terms": max_terms,
                "words": client.words(text),
                "pairs": client.pairs_of(text),
                "dsl": client.query(text, prior, max_terms),
            }
            for name, text, prior, max_terms in queries
        ],
        "documents": documents,
        "text_cosines": _text_cosines(
            client, ["", f"{first} zzyzx", " ".join([*words, *pairs])], documents
        ),
    }


def _text_cosines(
    client: SearchEngineClient, queries: Sequence[str], documents: Sequence[Json]
) -> list[Json]:
    """The part that text vectors add to the score of each document; empty without text vectors."""
    if not client.text_cosine:
        return []
    hits = [{"_score": 0.0, "_source": document} for document in documents]
    return [
        {"query": query, "title": hit["_source"]["title"], "part": hit[TEXT_COSINE]}
        for query in queries
        for hit in client.rescored(query, hits)
    ]

"""Rules by hand of an export work on a real node, without writing the documents again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pytest import approx

from dssm_tf.commands.export import export_model
from dssm_tf.runtime.search_engine_client import PIN_STEP, SearchEngineClient
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.search_engines.conftest import INDEX
from tests.search_engines.expected_scores import ExpectedScores
from tests.search_engines.test_nodes import assert_first_are_expected, hits_of

UNKNOWN = "qqzzqx"
"""A word that no title has."""


class Ruled(NamedTuple):
    """The shop's export with rules by hand.

    Attributes:
        client: a client of the export.
        word: the word of titles to which `UNKNOWN` has the similarity 0.9.
        never: a word and its most similar other word of the catalog, which never match.
        query: a query with two pinned titles and a blocked one.
        pinned: the numbers of the documents that are pinned, in order.
        blocked: the numbers of those that are blocked.
    """

    client: SearchEngineClient
    word: str
    never: tuple[str, str]
    query: str
    pinned: list[int]
    blocked: list[int]


@pytest.fixture(scope="session")
def ruled(shop, tmp_path_factory) -> Ruled:
    folder: Path = tmp_path_factory.mktemp("rules")
    counts = Counter(word for title in shop.titles for word in shop.client.words(title))
    word = next(word for word, count in counts.most_common() if count < 40)
    never = next(
        (name, other)
        for name, count in counts.most_common()
        if 3 <= count < 40 and name != word
        for other in [*shop.client.word(name).similar][1:2]
        if counts[other] >= 3
    )
    query = " ".join(shop.client.vocabulary.words(shop.titles[0]))
    numbers = np.argsort(-shop.expected.of_query(query), kind="stable")
    last, by_text, first = numbers[-1], numbers[500], numbers[0]
    pinned = [number for number, title in enumerate(shop.titles) if title == shop.titles[by_text]]
    rules = [
        f"similar\t{UNKNOWN}\t{word}\t0.9",
        f"never\t{never[0]}\t{never[1]}",
        f"pin\t{query.upper()}\t{last}",
        f"pin\t{query}\t{shop.titles[by_text]}",
        f"block\t{query}\t{first}",
    ]
    (folder / "rules.tsv").write_text("\n".join(rules), "utf-8")
    titles = [CorpusTitle(str(number), title) for number, title in enumerate(shop.titles)]
    write_corpus(folder / "corpus.tsv", titles)
    export_model(
        model=shop.export / "model",
        name="shop",
        out=folder / "export",
        format="opensearch",
        corpus=folder / "corpus.tsv",
        rules=folder / "rules.tsv",
    )
    client = SearchEngineClient(folder / "export" / "shop" / "1")
    return Ruled(client, word, never, query, [int(last), *pinned], [int(first)])


@pytest.fixture(scope="session")
def expected(shop, ruled) -> ExpectedScores:
    """The scores of all titles by the definition with the rules."""
    model = ruled.client.ranker.maxsim
    return ExpectedScores(model, shop.titles, ruled.client.manifest.similar_words)


def test_documents_need_not_be_written_again_for_rules(node, ruled):
    ruled.client.check_index(node.ask("GET", f"/{INDEX}/_mapping"))


def test_a_similar_word_of_a_rule_is_found(node, shop, ruled, expected):
    hits = hits_of(node, query=ruled.client.query(UNKNOWN, prior=False), size=3000)
    with_word = [n for n, t in enumerate(shop.titles) if ruled.word in shop.client.words(t)]
    assert {*with_word} <= {*hits}
    # The best word of these titles has the similarity 0.9: the query's only word counts 0.9.
    best = hits_of(node, query=ruled.client.query(UNKNOWN, prior=False))
    assert_first_are_expected(best, expected.of_query(UNKNOWN))
    learned = shop.client.word(UNKNOWN).similar
    assert learned.get(ruled.word, 0) < 0.89
    assert min(hits[n] for n in with_word) >= 0.9 * ruled.client.manifest.query_side


def test_words_never_match_by_a_rule(node, shop, ruled, expected):
    for word, other in (ruled.never, ruled.never[::-1]):
        query = ruled.client.query(word, prior=False)
        assert_first_are_expected(hits_of(node, query=query), expected.of_query(word))
        hits = hits_of(node, query=query, size=3000)
        learned = hits_of(node, query=shop.client.query(word, prior=False), size=3000)
        words = {n: {*shop.client.words(shop.titles[n])} for n in learned}
        changed = [n for n in learned if other in words[n] and word not in words[n]]
        assert changed
        assert all(hits.get(n, 0) < learned[n] for n in changed)


def test_pinned_documents_come_first_with_the_models_score(node, shop, ruled, expected):
    query = {"query": ruled.client.query(ruled.query, prior=False), "size": 20}
    response = node.ask("POST", f"/{INDEX}/_search", query)
    hits = response["hits"]["hits"]
    count = len(ruled.pinned)
    # The titles of the second rule are equal; each has its own place.
    assert [int(hit["_id"]) for hit in hits[:count]] == ruled.pinned
    for place, hit in enumerate(hits[:count], 1):
        assert hit["matched_queries"] == [f"pinned {place}"]
    assert not any("matched_queries" in hit for hit in hits[count:])
    for place, hit in enumerate(hits[:count]):
        score = expected.of_query(ruled.query)[int(hit["_id"])]
        assert hit["_score"] == approx(PIN_STEP * (count - place) + score, abs=1e-3)
    others = {int(hit["_id"]): hit["_score"] for hit in hits[count:]}
    scores = expected.of_query(ruled.query).copy()
    scores[[*ruled.pinned, *ruled.blocked]] = 0
    best = np.sort(scores)[::-1][: len(others)]
    np.testing.assert_allclose([*others.values()], best, rtol=1e-5)


def test_a_blocked_document_is_left_out_for_its_query_only(node, ruled):
    def is_found(query: str) -> bool:
        ids = {"ids": {"values": [*map(str, ruled.blocked)]}}
        body = {"bool": {"must": [ruled.client.query(query)], "filter": [ids]}}
        return bool(hits_of(node, query=body))

    assert not is_found(ruled.query)
    assert not is_found(f" {ruled.query.upper()}! ")
    assert is_found(f"{ruled.query} {UNKNOWN}")
    assert is_found(ruled.query.rpartition(" ")[0])


def test_filters_hold_for_pinned_documents(node, shop, ruled):
    color = shop.colors[ruled.pinned[0]]
    for chosen in ("red", "green", "blue"):
        filtered = {"must": [ruled.client.query(ruled.query)]}
        filtered["filter"] = [{"term": {"color": chosen}}]
        first = next(iter(hits_of(node, query={"bool": filtered})))
        assert (first == ruled.pinned[0]) == (chosen == color)

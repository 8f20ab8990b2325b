"""Latency and quality of a maxsim model in a search engine, beside the model's own ranking.

    make test-opensearch                    # fetches the engine
    python -m tests.benchmarks.search_engine --model RUN --corpus corpus.tsv \
        --judgments judgments.tsv [--engine elasticsearch8]

exports the model for the catalog, starts a node of the engine on this machine, with a heap of 512
MiB and one shard, and indexes the documents as one segment. All queries are sent once to warm up.
Then the queries are measured, one at a time on one kept connection: the time of the client to write
the query DSL, the time from sending it to having read the response, the time of the client to add
the cosine of text vectors, and all together. The response has the ids of the ten best documents; if
the model has text vectors, the ids and the words of the 200 best. "Typing error" measures the same
queries with one typing error each; the client has not seen these words. Milliseconds are wall clock
time. Other processes slow it down, so each search counts with the minimum of three rounds, each
with a new client.

Quality is that of the first titles of the whole catalog; titles without a judgment have grade 0.
The model's own ranking has the full formula, with all similar words, and the cosine of text vectors
in the scores of all titles.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.export.load import load
from dssm_tf.export.search_engine.export import export_search_engine
from dssm_tf.runtime.search_engine_client import RESCORED, SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_hits import FIELDS
from dssm_tf.tables.judgments import CorpusTitle, read_corpus, read_judgments
from dssm_tf.tables.trec import Run
from dssm_tf.text.typos import with_typo
from tests.search_engines.nodes import JARS, Node, running_node

SIZE = 10
METRICS = ("ndcg@1", "ndcg@3", f"ndcg@{SIZE}")
_INDEX = "catalog"
_DOCUMENTS = 5_000  # per bulk request
_ROUNDS = 3
_TIMES = ("query", "engine", "rescoring", "all")


def bulk_requests(
    client: SearchEngineClient, corpus: Sequence[CorpusTitle], documents: int = _DOCUMENTS
) -> Iterator[bytes]:
    """The bodies of bulk requests that index a catalog; `_id` is the doc id."""
    writer = DocumentWriter(client, ("title",))
    for start in range(0, len(corpus), documents):
        lines = [
            json.dumps(line)
            for doc_id, title in corpus[start : start + documents]
            for line in (
                {"index": {"_id": doc_id}},
                writer.with_fields({"title": title}),
            )
        ]
        yield ("\n".join(lines) + "\n").encode()


def write_index(
    node: Node, export: Path, client: SearchEngineClient, corpus: Sequence[CorpusTitle]
) -> float:
    """Indexes a catalog as one segment; returns the seconds, those of the fields included."""
    started = perf_counter()
    body = json.loads((export / "settings_and_mapping.json").read_bytes())
    body["mappings"]["properties"]["title"] = {"type": "text"}
    node.ask("PUT", f"/{_INDEX}", body)
    for request in bulk_requests(client, corpus):
        response = node.ask("POST", f"/{_INDEX}/_bulk", request)
        if response["errors"]:
            raise UserError(f"The engine refused a document: {response['items'][0]}")
    node.ask("POST", f"/{_INDEX}/_forcemerge?max_num_segments=1")
    node.ask("POST", f"/{_INDEX}/_refresh")
    return perf_counter() - started


class Searches:
    """Sends queries on one connection, and measures them.

    Args:
        node: the node.
        client: writes the query DSL, and adds the cosine of text vectors.
    """

    def __init__(self, node: Node, client: SearchEngineClient) -> None:
        address = urlsplit(node.url)
        self._connection = http.client.HTTPConnection(address.netloc, timeout=60)
        self._client = client

    def search(self, query: str) -> tuple[dict[str, float], list[float]]:
        """The scores of the best documents by id, and the milliseconds of `_TIMES`."""
        started = perf_counter()
        dsl = self._client.query(query)
        written = perf_counter()
        limits: dict[str, Any] = {"size": SIZE, "_source": False}
        if self._client.text_cosine:
            limits = {"size": RESCORED, "_source": [f"{FIELDS}.words"]}
        body = json.dumps({"query": dsl, **limits})
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/{_INDEX}/_search", body, headers)
        content: Any = json.load(self._connection.getresponse())
        answered = perf_counter()
        hits = self._client.rescored(query, content["hits"]["hits"])[:SIZE]
        ended = perf_counter()
        times = (written - started, answered - written, ended - answered, ended - started)
        return {hit["_id"]: hit["_score"] for hit in hits}, [1000 * time for time in times]

    def times(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """The milliseconds of `_TIMES`, `(queries, times)`."""
        return np.array([self.search(query)[1] for query in queries])


def cells(rounds: Sequence[NDArray[np.float64]]) -> str:
    """Cells of the table: median and 95 % percentile of the fastest round of each query."""
    fastest = np.min(rounds, axis=0)
    middle, high = np.median(fastest, axis=0), np.percentile(fastest, 95, axis=0)
    return " | ".join(f"{m:.2f} ({h:.2f})" for m, h in zip(middle, high, strict=True))


def main(*, model: Path, corpus: Path, judgments: Path, engine: str = "opensearch") -> None:
    """Prints a table of times and one of metrics.

    Args:
        model: a run or a compact model with the score maxsim.
        corpus: the catalog, a table with doc_id, title.
        judgments: a table with query_id, query, doc_id, title, grade.
        engine: the engine, as `make test-opensearch SEARCH_ENGINES=...` names it.
    """
    if not (JARS / engine).is_dir():
        raise UserError(f"{engine} is missing; run `make test-opensearch SEARCH_ENGINES={engine}`.")
    titles, graded = read_corpus(corpus), read_judgments(judgments)
    relevant = {judgment.query_id for judgment in graded if judgment.grade > 0}
    queries = {j.query_id: j.query for j in graded if j.query_id in relevant}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        texts, doc_ids = [title.title for title in titles], [title.doc_id for title in titles]
        export = export_search_engine(model, folder / "export", titles=texts, doc_ids=doc_ids)
        client = SearchEngineClient(export)
        with running_node(engine, folder / "node") as node:
            seconds = write_index(node, export, client, titles)
            warm = Searches(node, client)
            ranking: Run = {name: warm.search(query)[0] for name, query in queries.items()}
            texts = [*queries.values()]
            rounds: dict[str, list[NDArray[np.float64]]] = {"as typed": [], "typing error": []}
            for _ in range(_ROUNDS):
                searches = Searches(node, SearchEngineClient(export))
                searches.times(texts)
                rounds["as typed"].append(searches.times(texts))
                rounds["typing error"].append(searches.times([*map(with_typo, texts)]))
    write = sys.stdout.write
    write(f"{len(titles):,} titles indexed in {seconds:.0f} s, {len(queries):,} queries\n\n")
    write(f"| {engine}, ms (95 %) | {' | '.join(_TIMES)} |\n|---{'|---' * len(_TIMES)}|\n")
    for name, times in rounds.items():
        write(f"| {name} | {cells(times)} |\n")
    loaded: Any = load(model)
    result = evaluate({"model": loaded}, graded, titles, metrics=METRICS, runs={engine: ranking})
    write(f"\n| ranking | {' | '.join(METRICS)} |\n|---|---|---|---|\n")
    for name in ("model", engine):
        means = [f"{result.mean(name, metric):.4f}" for metric in METRICS]
        write(f"| {name} | {' | '.join(means)} |\n")


if __name__ == "__main__":
    sys.exit(run("search_engine", main, None))

"""`dssm data run`: writes the ranking of a search engine as a TREC run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.terminal import say

_Depth = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=10_000))]
_Batch = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=1_000))]
_Seconds = Annotated[float, Parameter(validator=validators.Number(gt=0, lte=3_600))]
_Retries = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=20))]


def run(
    *,
    engine: str,
    index: str,
    queries: Path,
    query_template: Path,
    out: Path,
    id_field: str = "",
    corpus: Path | None = None,
    depth: _Depth = 100,
    batch: _Batch = 20,
    timeout: _Seconds = 30.0,
    retries: _Retries = 4,
    ca_file: Path | None = None,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Write the ranking of OpenSearch or Elasticsearch as a TREC run.

    `dssm benchmark --runs` and `dssm evaluate --runs` then compare it with other systems. An
    interrupted command continues where it stopped. Set credentials in the environment variables
    DSSM_ENGINE_USER and DSSM_ENGINE_PASSWORD, or DSSM_ENGINE_API_KEY.

        dssm data run --engine http://localhost:9200 --index shop --queries SPLIT/judgments.tsv
        --query-template query.json --out engine.trec

    Args:
        engine: address of a node
        index: index or alias to search
        queries: table with query_id and query, such as the judgments
        query_template: JSON file, the body of a search; {{query}} in its strings is the query
        out: file to write, new
        id_field: field with the doc_id of the corpus; by default the document's _id
        corpus: table with doc_id, title: leave out all other hits
        depth: number of titles per query
        batch: number of searches per request
        timeout: seconds to wait for a response
        retries: number of repetitions of a request if the node is busy or the connection breaks
        ca_file: file with the certificates to trust for https; by default, those of the system
        tables: layout of the tables

    Raises:
        UserError: an input cannot be used, `out` exists, or the node refuses.
    """
    from dssm_tf.datasets.engine_run import QueryTemplate, read_queries, write_engine_run
    from dssm_tf.datasets.search_engine import SearchEngine
    from dssm_tf.tables.judgments import read_corpus

    layout = tables.layout()
    template = QueryTemplate(query_template, depth, id_field)
    texts = read_queries(queries, layout)
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    known_ids = None if titles is None else frozenset(title.doc_id for title in titles)
    node = SearchEngine(
        engine, index, id_field=id_field, timeout=timeout, retries=retries, ca_file=ca_file
    )
    counts = write_engine_run(
        node, template, texts, out, tag=index, known_ids=known_ids, batch=batch
    )
    lines = [
        f"{out}: {counts.queries:,} queries, {counts.hits / counts.queries:.1f} titles per query"
    ]
    if counts.resumed:
        lines.append(f"{counts.resumed:,} queries were received by an interrupted command")
    if counts.queries_without_hits:
        lines.append(f"{counts.queries_without_hits:,} queries have no hit")
    if counts.unknown:
        lines.append(f"{counts.unknown:,} hits were left out: the corpus does not have them")
    lines.append(f"next: add it to the table: dssm benchmark ... --runs {shlex.quote(str(out))}")
    say(*lines)

"""Titles and vectors as search engines load them: a directory with all they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory

Vectors = NDArray[np.float32]
Priors = Callable[[Sequence[str]], NDArray[np.float32]]

NAME = "titles"
"""What the index, the table or the document type is called in an engine."""

PART_BYTES = 50 << 20
"""Of a file of bulk requests; servers refuse bodies above 100 MB."""

_ID_BYTES = 512  # of Lucene's engines
_PGVECTOR_MOST = 2000  # dimensions of a vector that has an index


class Title(NamedTuple):
    """A title to hand over.

    Attributes:
        id: its id.
        text: the title.
        prior: how much likelier it is clicked than a title nobody clicked, nats, at least 0: a
            feature of its own, for learning to rank. What the score holds of it is in the vector.
        numbers: of the vector, as JSON has them, exact for float32.
    """

    id: str
    text: str
    prior: str
    numbers: str


class Engine(NamedTuple):
    """How an engine is fed.

    Attributes:
        rows: name of the files of titles; `{}` is the number of the part.
        line: a title as this file has it.
        others: further files by name, for a dimension.
        load: what to type in the directory; `{}` stands where it is.
    """

    rows: str
    line: Callable[[Title], str]
    others: Callable[[int], dict[str, str]]
    load: str


class EngineWriter:
    """Writes titles batch after batch; see `vectors.VectorWriter`."""

    def __init__(self, directory: Path, engine: Engine, priors: Priors, least: float) -> None:
        self._directory = directory
        self._engine = engine
        self._priors = priors
        self._least = least
        self._file: IO[str] | None = None
        self._parts = 0
        self._written = 0  # characters of this part

    def write(self, ids: Sequence[str] | None, texts: Sequence[str], vectors: Vectors) -> None:
        """Appends a batch: `vectors` is `(len(texts), dimension)`."""
        for name in ids or ():
            if not name.isprintable() or len(name.encode()) > _ID_BYTES:
                raise UserError(
                    f"The id {name!r:.60} is not one that engines take: expected at most "
                    f"{_ID_BYTES} bytes without control characters."
                )
        priors = self._priors(texts) - self._least
        for name, text, prior, vector in zip(ids or (), texts, priors, vectors, strict=True):
            numbers = f"[{','.join(f'{x:.9g}' for x in vector.tolist())}]"
            line = self._engine.line(Title(name, text, f"{max(0.0, prior):.9g}", numbers))
            self._written += self._open().write(line)

    def close(self) -> None:
        """Ends the last file."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> IO[str]:
        """The file of this part, or the first of the next one."""
        parted = "{}" in self._engine.rows
        if self._file is None or (parted and self._written > PART_BYTES):
            self.close()
            self._written = 0
            path = self._directory / self._engine.rows.format(f"{self._parts:05d}")
            self._file = path.open("w", encoding="utf-8", newline="\n")
            self._parts += 1
        return self._file


@contextmanager
def open_engine_writer(
    directory: Path, format: str, dimension: int, priors: Priors, least: float
) -> Iterator[EngineWriter]:
    """Opens a directory of files for an engine; it appears when the block succeeds.

    Args:
        directory: to write, or to replace if it holds nothing but such files.
        format: a name of `ENGINES`.
        dimension: of the vectors.
        priors: the log-priors of titles, nats.
        least: that of a title nobody clicked.

    Raises:
        UserError: the directory holds something else, or the engine takes no such vectors.
    """
    engine = ENGINES[format]
    if format == "pgvector" and dimension > _PGVECTOR_MOST:
        raise UserError(
            f"pgvector has indexes for at most {_PGVECTOR_MOST:,} dimensions; these vectors have "
            f"{dimension:,}."
        )
    others = engine.others(dimension)
    rows = engine.rows.replace("{}", "*")
    with atomic_directory(directory, own=(rows, *others)) as aside:
        for name, text in others.items():
            (aside / name).write_text(text, "utf-8")
        writer = EngineWriter(aside, engine, priors, least)
        try:
            yield writer
        finally:
            writer.close()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bulk(title: Title) -> str:
    return (
        f'{{"index": {{"_id": {_json(title.id)}}}}}\n'
        f'{{"title": {_json(title.text)}, "prior": {title.prior}, "vector": {title.numbers}}}\n'
    )


def _lucene(vector: dict[str, Any], script: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Files of an engine built on Lucene: the index, and features for learning to rank."""

    def feature(name: str, parameters: Sequence[str], template: Any) -> dict[str, Any]:
        return {
            "name": name,
            "params": list(parameters),
            "template_language": "mustache",
            "template": template,
        }

    def others(dimension: int) -> dict[str, str]:
        field = {key: dimension if value is int else value for key, value in vector.items()}
        text = {"type": "text"}
        number = {"type": "float"}
        index = {
            **settings,
            "mappings": {"properties": {"title": text, "prior": number, "vector": field}},
        }
        # A list cannot stand in a template that is an object, so this one is a text.
        semantic = _json({"script_score": {"query": {"match_all": {}}, "script": script}}).replace(
            '"QUERY_VECTOR"', "{{#toJson}}query_vector{{/toJson}}"
        )
        prior = {
            "function_score": {
                "query": {"match_all": {}},
                "field_value_factor": {"field": "prior", "missing": 0},
                "boost_mode": "replace",
            }
        }
        features = [
            feature("title_bm25", ["keywords"], {"match": {"title": "{{keywords}}"}}),
            feature("semantic", ["query_vector"], semantic),
            feature("prior", [], prior),
        ]
        return {
            "index.json": json.dumps(index, indent=2) + "\n",
            "featureset.json": json.dumps(
                {"featureset": {"name": "dssm", "features": features}}, indent=2
            )
            + "\n",
        }

    return others


_LOAD_BULK = (
    "cd {} && curl -XPUT localhost:9200/titles -H content-type:application/json -d @index.json && "
    "for part in titles-*.ndjson; do curl -XPOST localhost:9200/titles/_bulk "
    "-H content-type:application/x-ndjson --data-binary @$part -o /dev/null; done"
)


def _vespa_document(title: Title) -> str:
    # A document id is a URI-like text without control characters; the id itself is a field.
    return (
        f'{{"put": {_json(f"id:{NAME}:{NAME}::{title.id}")}, "fields": '
        f'{{"doc_id": {_json(title.id)}, "title": {_json(title.text)}, "prior": {title.prior}, '
        f'"vector": {{"values": {title.numbers}}}}}}}\n'
    )


def _vespa_schema(dimension: int) -> dict[str, str]:
    tensor = f"tensor<float>(d[{dimension}])"
    schema = f"""schema {NAME} {{
    document {NAME} {{
        field doc_id type string {{
            indexing: summary | attribute
        }}
        field title type string {{
            indexing: summary | index
            index: enable-bm25
        }}
        field prior type float {{
            indexing: summary | attribute
        }}
        field vector type {tensor} {{
            indexing: attribute | index
            attribute {{
                distance-metric: dotproduct
            }}
        }}
    }}
    fieldset default {{
        fields: title
    }}
    rank-profile semantic {{
        inputs {{
            query(query_vector) {tensor}
        }}
        function score() {{
            expression: sum(query(query_vector) * attribute(vector))
        }}
        first-phase {{
            expression: score
        }}
        match-features {{
            bm25(title)
            score
            attribute(prior)
        }}
    }}
}}
"""
    return {f"{NAME}.sd": schema}


def _copied(title: Title) -> str:
    """A line of PostgreSQL's COPY, text format."""
    cells = (_cell(title.id), _cell(title.text), title.prior, title.numbers)
    return "\t".join(cells) + "\n"


def _cell(text: str) -> str:
    text = text.replace("\0", " ")  # which PostgreSQL's texts cannot hold
    for character, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return text


def _pgvector_script(dimension: int) -> dict[str, str]:
    script = f"""-- psql -d DATABASE -f load.sql, in this directory
\\set ON_ERROR_STOP on
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE {NAME} (
    doc_id text PRIMARY KEY,
    title text NOT NULL,
    prior real NOT NULL,
    vector vector({dimension}) NOT NULL
);
\\copy {NAME} FROM '{NAME}.copy'
-- The score of a query is -(vector <#> query_vector): inner products, not cosines.
CREATE INDEX ON {NAME} USING hnsw (vector vector_ip_ops);
CREATE INDEX ON {NAME} USING gin (to_tsvector('simple', title));
COMMIT;
ANALYZE {NAME};
"""
    return {"load.sql": script}


ENGINES: dict[str, Engine] = {
    "opensearch": Engine(
        f"{NAME}-{{}}.ndjson",
        _bulk,
        _lucene(
            {
                "type": "knn_vector",
                "dimension": int,
                "method": {"name": "hnsw", "engine": "faiss", "space_type": "innerproduct"},
            },
            {
                "lang": "knn",
                "source": "knn_score",
                "params": {
                    "field": "vector",
                    "query_value": "QUERY_VECTOR",
                    "space_type": "innerproduct",
                },
            },
            {"settings": {"index": {"knn": True}}},
        ),
        _LOAD_BULK,
    ),
    "elasticsearch": Engine(
        f"{NAME}-{{}}.ndjson",
        _bulk,
        _lucene(
            {
                "type": "dense_vector",
                "dims": int,
                "index": True,
                "similarity": "max_inner_product",
            },
            {
                # Scores must not be negative, and inner products are.
                "source": "sigmoid(1, Math.E, -dotProduct(params.query_vector, 'vector'))",
                "params": {"query_vector": "QUERY_VECTOR"},
            },
            {},
        ),
        _LOAD_BULK,
    ),
    "vespa": Engine(
        "feed.jsonl",
        _vespa_document,
        _vespa_schema,
        f"copy {{}}/{NAME}.sd to schemas/ of the application, vespa deploy, "
        "vespa feed {}/feed.jsonl",
    ),
    "pgvector": Engine(
        f"{NAME}.copy", _copied, _pgvector_script, "cd {} && psql -d DATABASE -f load.sql"
    ),
}
"""How each engine is fed, by the name of its format."""

"""Any TREC collection: topics, qrels, documents, and runs to re-rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import DatasetWriter, clean
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.trec import QRELS, QRELS_NAMES, RUN, RUN_NAMES

_LEADING_WORDS = 20
_MIN_CLICK_GRADE = 1.0
_DOCUMENT = ("doc_id", "_id", "id", "docno")
_TOPIC = ("query_id", "_id", "id", "qid")


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Splits judged pairs by query; titles of a run without a judgment get grade 0."""
    topics, qrels = source.find("*topics*", "queries*"), source.find("*qrels*")
    documents = source.find_all("*docs*", "*documents*", "corpus*")
    judged_queries = set[str]()
    ids_by_number: dict[int, list[str]] = {}

    def add_document(doc_id: str, title: str, *texts: str) -> None:
        start = " ".join(_first_filled(texts).split()[:_LEADING_WORDS])
        output.add_title(doc_id, title or start)

    def add_topic(query_id: str, *texts: str) -> None:
        output.add_query(query_id, _first_filled(texts))
        if query_id.isdecimal():
            ids_by_number.setdefault(int(query_id), []).append(query_id)

    def add_grade(query_id: str, doc_id: str, grade: float) -> None:
        query = output.query(query_id)
        if not query and query_id.isdecimal():
            # Topic 051 may be 51 in the qrels. This holds for numbers only: 0a1 and a1 differ.
            same_number = ids_by_number.get(int(query_id), [])
            query = output.query(same_number[0]) if len(same_number) == 1 else ""
        output.add_graded(query_id, query, doc_id, grade, _MIN_CLICK_GRADE)

    def add_judgment(query_id: str, doc_id: str, grade: float) -> None:
        judged_queries.add(query_id)
        add_grade(query_id, doc_id, grade)

    def add_ranked(query_id: str, doc_id: str, _: float) -> None:
        if query_id in judged_queries and (query_id, doc_id) not in output.judged:
            add_grade(query_id, doc_id, 0.0)

    for path in sorted({*documents} - {topics, qrels}):
        _read(source, path, _DOCUMENT, ("title", "text", "contents"), add_document)
    _read(source, topics, _TOPIC, ("query", "text", "title"), add_topic)
    source.read(qrels, QRELS, add_judgment, format="trec", names=QRELS_NAMES)
    for path in source.find_all("*run*", "*.trec"):
        source.read(path, RUN, add_ranked, format="trec", names=RUN_NAMES)


def _first_filled(cells: Iterable[str]) -> str:
    """The first cell that is not empty; empty if all cells are empty."""
    return next((cell for cell in cells if cell), "")


def _read(
    source: Source, path: Path, ids: Sequence[str], texts: Sequence[str], add: Callable[..., None]
) -> None:
    """Reads ids and texts from JSON objects (the first key that exists), or from `id<tab>text`."""

    def add_object(*cells: object) -> None:
        values = [*map(clean, cells)]
        doc_id = _first_filled(values[: len(ids)])
        if not doc_id:
            raise BadRow(f"no {ids[0]}", f"expected one of the keys {', '.join(ids)}")
        add(doc_id, *values[len(ids) :])

    def add_line(doc_id: str, text: str) -> None:
        if doc_id not in ids:  # a header, as in corpus.tsv of this package
            add(doc_id, text)

    if ".json" in path.name:
        source.read(path, (*ids, *texts), add_object, format="jsonl")
    else:
        source.read(path, ("id", "text"), add_line, format="tsv", header=False)


ADAPTER = Adapter(
    title="any TREC collection",
    origin="NIST's TREC (topics, qrels, runs); JSON lines as in the project BEIR",
    license="that of the collection: newswire needs an agreement with its owner",
    files=(
        "*topics* or queries*: .jsonl, else an id, a tab and the text per line; mark-up of TREC's "
        "disks as ir_datasets exports it",
        "*qrels*",
        "*docs*, *documents* or corpus*: .jsonl, else an id, a tab and the title; any number",
        "*run* or *.trec (optional: their titles without a judgment get grade 0)",
    ),
    grades="as in the qrels, negative ones 0; titles of a run without a judgment 0; pairs graded 1 "
    "or more count as clicks",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.5,
)

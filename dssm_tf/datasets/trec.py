"""Any TREC collection: topics, qrels, documents, and runs to re-rank."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import unescape

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import Output, split_by_query
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.trec import Run, qrels_line, run_line

_TAG = re.compile(r"<[^<>]*>")
_TITLE_TAGS = ("title", "headline", "ti", "head", "h3")
_LEADING_WORDS = 20


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Judged pairs are split by query; a run's titles that nobody judged get grade 0."""
    topics, qrels = source.find("*topics*", "queries*"), source.find("*qrels*")
    patterns = ("*docs*", "*documents*", "corpus*")
    documents = [path for path in source.find_all(*patterns) if path not in (topics, qrels)]
    for path in documents or [source.find(*patterns)]:
        for doc_id, title in _documents(source, path):
            output.add_title(doc_id, title)
    grades = _graded(source, qrels, qrels_line)
    # Topics are numbered 051 where qrels say 51.
    queries = {
        name if name in grades else name.lstrip("0"): text for name, text in _topics(source, topics)
    }
    if not queries:
        raise UserError(f"{topics} holds no topic; expected <top> elements, TSV or JSONL.")
    unknown = sorted(set(grades) - set(queries))
    if len(unknown) == len(grades):
        raise UserError(
            f"{qrels} and {topics} have no query id in common: {', '.join(unknown[:3])} there, "
            f"{', '.join(list(queries)[:3])} here."
        )
    output.dropped["judged query without a topic"] += len(unknown)
    # What a run ranks and nobody judged is a title to rank, with grade 0.
    for path in source.find_all("*run*", "*.trec"):
        for query_id, scores in _graded(source, path, run_line).items():
            if query_id in grades:
                for doc_id in scores:
                    grades[query_id].setdefault(doc_id, 0.0)

    def judged() -> Iterator[tuple[str, str, str, float]]:
        for query_id, judgments in grades.items():
            for doc_id, grade in judgments.items():
                if query_id in queries:
                    yield query_id, queries[query_id], doc_id, grade

    split_by_query(output, judged(), held_out, clicked_from=_number(options["clicked_from"]))


def _graded(source: Source, path: Path, parse: Callable[[str], tuple[str, str, float]]) -> Run:
    """The numbers of a run or of qrels, by query id and doc id."""
    found: Run = {}
    for number, line in source.lines(path):
        with source.checked(path, number):
            query_id, doc_id, value = parse(line)
            if doc_id in found.setdefault(query_id, {}):
                raise BadRow("title twice", f"{doc_id!r:.40} comes twice for {query_id!r:.40}")
            found[query_id][doc_id] = value
    return found


def _topics(source: Source, path: Path) -> Iterator[tuple[str, str]]:
    """Ids and texts of topics: `<top>` elements, JSONL, or id, tab, text."""
    kind = _kind(source, path)
    if kind == "json":
        for number, record in source.objects(path):
            with source.checked(path, number):
                name = _value(record, ("query_id", "_id", "id", "qid"))
                yield name, _value(record, ("query", "text", "title"))
    elif kind == "tab":
        for _, (query_id, query) in source.cells(path, ("query id", "query")):
            yield query_id.strip(), query
    else:
        for number, block in source.counted(path, _blocks(source, path, "top", "topic")):
            num = re.search(r"<num>\s*(?:Number:\s*)?([^\s<]+)", block, re.IGNORECASE)
            num = num or re.search(r"\b(?:number|id)\s*=\s*[\"']([^\"']+)", block)
            # Old topics do not close their tags: a field ends where the next begins.
            text = re.search(r"<(?:title|query)>\s*(?:Topic:)?([^<]+)", block, re.IGNORECASE)
            with source.checked(path, number):
                if num is None or text is None:
                    raise BadRow(
                        "topic without number or title",
                        f"a topic has no number or no title: {_plain(block)[:80]!r}",
                    )
                yield num[1], _plain(text[1])


def _documents(source: Source, path: Path) -> Iterator[tuple[str, str]]:
    """Ids and titles of documents: `<DOC>` elements, JSONL, or id, tab, title."""
    kind = _kind(source, path)
    if kind == "json":
        for number, record in source.objects(path):
            with source.checked(path, number):
                title = str(record.get("title") or "")
                text = str(record.get("text") or record.get("contents") or "")
                name = _value(record, ("doc_id", "_id", "id", "docno"))
                yield name, title or _start(text)
    elif kind == "tab":
        for number, (doc_id, title) in source.cells(path, ("doc id", "title")):
            if number > 1 or doc_id.strip() != "doc_id":  # a header, as in our own corpus.tsv
                yield doc_id.strip(), title
    else:
        for number, block in source.counted(path, _blocks(source, path, "doc")):
            with source.checked(path, number):
                name = _element(block, "docno").strip()
                if not name:
                    raise BadRow(
                        "document without number",
                        f"a <DOC> has no <DOCNO>: {_plain(block[:1000])[:80]!r}",
                    )
                yield name, _title(block)


def _title(block: str) -> str:
    for tag in _TITLE_TAGS:
        if found := _plain(_element(block, tag)):
            return found
    return _start(_plain(_element(block, "text")))


def _element(block: str, tag: str) -> str:
    """What stands in the first element of a name; nothing if there is none that ends."""
    start = re.compile(rf"<{tag}\b[^<>]*>", re.IGNORECASE).search(block)
    end = start and re.compile(f"</{tag}>", re.IGNORECASE).search(block, start.end())
    return block[start.end() : end.start()] if start and end else ""


def _start(text: str) -> str:
    """The first words of a document that has no title."""
    return " ".join(text.split()[:_LEADING_WORDS])


def _kind(source: Source, path: Path) -> str:
    first = next((line.lstrip("\ufeff \t") for _, line in source.lines(path, _ENCODING)), "")
    return "json" if first[:1] in "{[" and first else "mark-up" if first[:1] == "<" else "tab"


# Mark-up of TREC disks is not UTF-8 throughout; ids and tags are ASCII.
_ENCODING = "latin-1"


def _blocks(source: Source, path: Path, *names: str) -> Iterator[tuple[int, str]]:
    """The text of each element of one of the names with its line, one in memory at a time.

    One that does not end before the next begins ends there.
    """
    tags = re.compile(rf"<(/?)(?:{'|'.join(names)})(?:\s[^<>]*)?>", re.IGNORECASE)
    block: list[str] = []
    begun = 0  # its line; 0: none
    for number, line in source.lines(path, _ENCODING):
        at = 0
        for tag in tags.finditer(line):
            if begun:
                yield begun, _utf8("\n".join([*block, line[at : tag.start()]]))
                block, begun = [], 0
            if not tag[1]:
                begun, at = number, tag.start()
        if begun:
            block.append(line[at:])
    if begun:
        yield begun, _utf8("\n".join(block))


def _utf8(text: str) -> str:
    """What was UTF-8 after all, as such."""
    try:
        return text.encode(_ENCODING).decode("utf-8")
    except UnicodeDecodeError:
        return text


def _plain(text: str) -> str:
    """Text without tags, entities resolved, white space single."""
    plain = unescape(_TAG.sub(" ", text), {"&quot;": '"', "&apos;": "'"})
    return " ".join(plain.split())


def _value(record: Mapping[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        if record.get(name) is not None:
            return str(record[name])
    raise BadRow(
        f"no {names[0]}",
        f"the keys are {', '.join(record)[:200] or 'none'}; expected one of {', '.join(names)}",
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"clicked_from is {text!r}; expected a grade.") from None


ADAPTER = Adapter(
    title="any TREC collection",
    described="NIST's TREC (topics, qrels, runs); JSON lines as in the project BEIR",
    licence="that of the collection: newswire needs an agreement with its owner",
    files=(
        "*topics* or queries*: <top> elements, TSV (id, text) or JSONL",
        "*qrels*",
        "*docs*, *documents* or corpus*: <DOC> elements, TSV (id, title) or JSONL; any number",
        "*run* or *.trec (if there: their titles are ranked too)",
    ),
    grades="as in the qrels, negative ones 0; titles of a run that nobody judged 0",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.5,
    options={"clicked_from": "1 the least grade that counts as a click"},
)

"""Tiny logs and judgments for the studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clicks import click_log

JUDGED_QUERIES = 40


def write_rows(path: Path, header: str, rows: Sequence[Sequence[object]]) -> Path:
    """Writes a TSV; the header's columns are separated by spaces."""
    lines = [header.split(), *([str(cell) for cell in row] for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def shop(tmp_path) -> Path:
    """A folder with `clicks.tsv`, which has timestamps, and `corpus.tsv`."""
    clicks = click_log(120)
    rows = [
        (click.query, click.title, click.clicks, f"2024-01-01 00:{i // 60:02d}:{i % 60:02d}")
        for i, click in enumerate(clicks)
    ]
    write_rows(tmp_path / "shop" / "clicks.tsv", "query title clicks timestamp", rows)
    titles = dict.fromkeys(click.title for click in clicks)
    write_rows(tmp_path / "shop" / "corpus.tsv", "doc_id title", [*enumerate(titles)])
    return tmp_path / "shop"


@pytest.fixture
def judgments(tmp_path) -> Path:
    """Judgments of 40 queries, with three titles of grades 3, 1 and 0 each."""
    rows = [
        (f"q{query}", f"lamp {query}", f"d{query}-{grade}", f"{word} lamp {query} {grade}", grade)
        for query in range(JUDGED_QUERIES)
        for word, grade in (("red", 3), ("blue", 1), ("green", 0))
    ]
    header = "query_id query doc_id title grade"
    return write_rows(tmp_path / "shop" / "judgments.tsv", header, rows)


def table_rows(text: str) -> list[list[str]]:
    """The cells of all Markdown table rows of a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

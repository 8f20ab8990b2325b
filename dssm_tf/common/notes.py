"""NOTES.md of the directories that `dssm data` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NOTES = "NOTES.md"


def write_notes(folder: Path, title: str, lines: Sequence[str]) -> None:
    """Writes a title and a list of sentences; their full stops are added."""
    text = "\n".join([f"# {title}", "", *(f"- {line}." for line in lines)])
    (folder / NOTES).write_text(text + "\n", "utf-8")

r"""Trains skip-thought vectors on your own running text, for use as a ranker.

    python examples/skip_thought.py --text TEXT.txt --out DIR
    dssm evaluate --model skip_thought=DIR --judgments judgments.tsv --out EVALUATION

A blank line in the text ends a passage. Each sentence also counts as its own neighbor. This keeps
its words in its vector, which ranking needs.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from dssm_tf.baselines.skip_thought.baseline import SkipThought

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\w]*[A-Z0-9])|(?<=\s[.!?])\s+")


def passages(text: str) -> list[list[str]]:
    """Splits a text into passages of sentences; each sentence occurs twice.

    A sentence ends at `.`, `!` or `?` if the next word begins with a capital letter or a digit. In
    tokenized text, it ends at such a mark between spaces.
    """
    return [
        [sentence for sentence in _SENTENCE_END.split(passage.strip()) for _ in range(2)]
        for passage in re.split(r"\n\s*\n", text)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Trains and saves a model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True, help="UTF-8 text")
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--kind", choices=("uni", "bi", "combine"), default="uni")
    parser.add_argument("--units", type=int, default=300, help="size of the vector")
    parser.add_argument("--max-steps", type=int, default=400)
    options = parser.parse_args(arguments)
    if not options.text.is_file():
        parser.error(f"--text: there is no file {options.text}")
    model = SkipThought(
        kind=options.kind,
        units=options.units,
        max_steps=options.max_steps,
        vocabulary=20_000,
        predicted=8_000,
    )
    text = options.text.read_text("utf-8")
    model.fit_text(passages(text), progress=True).save(options.out)


if __name__ == "__main__":
    main()

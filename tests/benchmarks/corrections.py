"""Precision and recall of "Did you mean", and the choice of its similarity threshold.

    python -m tests.benchmarks.corrections --index INDEX_A INDEX_B --queries A.tsv B.tsv

Each index is that of a shop, and the table at the same position has queries of this shop with
titles that are right for them: columns query and title, and perhaps grade (at least 1 is right).
The words of each shop are divided in two halves by a hash. The threshold is chosen on one half of
the words of the first shop. All figures are of the other words: the other half of the first shop,
and all words of the others.

Three sets of words are measured. They have at least five letters and no digit.

typing errors   each word of a query that a title has, with one letter wrong (`with_typo`). Errors
                that give another known word are left out: they are never corrected. A correction is
                right if it is the word without the error.
clean words     words of the titles of another shop that this one does not know. Each correction is
                wrong.
real queries    each unknown word of a query. A correction is *confirmed* if a title that is right
                for the query has it; others may be right, too. *Near* is the number of words for
                which such a title has a word that is one edit away, or two from eight letters;
                recall is the fraction of these that are corrected to such a word.

The chosen threshold has the highest F0.5 if there are as many clean words as typing errors: a wrong
correction is worse than a missing one.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.common.command_line import run
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime.corrections import (
    MIN_SIMILARITY,
    KnownWord,
    correct_word,
    edit_distance,
    may_be_corrected,
)
from dssm_tf.text.stable_hash import fingerprint64
from dssm_tf.text.typos import with_typo

THRESHOLDS = [round(0.2 + 0.05 * step, 2) for step in range(12)]
_TWO_EDITS = 8  # letters

Similar = list[KnownWord]
"""Known words that are similar to a word, most similar first."""


@dataclass
class Words:
    """The words that are measured, with their similar words.

    Attributes:
        typed: the right word, the misspelled word, and its similar words.
        known: number of typing errors that give another known word.
        clean: words of other shops.
        real: unknown words of queries, with the words of the titles that are right for the query.
    """

    typed: list[tuple[str, str, Similar]]
    known: int
    clean: list[tuple[str, Similar]]
    real: list[tuple[str, set[str], Similar]]

    def half(self, number: int) -> Words:
        """The words of one half; counts of typing errors that give known words are not divided."""
        return Words(
            [row for row in self.typed if _half(row[0]) == number],
            self.known,
            [row for row in self.clean if _half(row[0]) == number],
            [row for row in self.real if _half(row[0]) == number],
        )


def _half(word: str) -> int:
    return fingerprint64(word) % 2


def right_titles(path: Path) -> dict[str, set[str]]:
    """The titles that are right for each query of a table."""
    titles: dict[str, set[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            names = titles.setdefault(row["query"], set())
            if float(row.get("grade") or 1) >= 1:
                names.add(row["title"])
    return titles


def words_of(index: MaxSimIndex, queries: Path, others: Sequence[MaxSimIndex]) -> Words:
    """Collects the words of a shop."""
    split, titles = index.model.vocabulary.words, right_titles(queries)
    known_words = sorted(
        {word for query in titles for word in split(query)
         if may_be_corrected(word) and index.has_word(word)}
    )  # fmt: skip
    errors = [(word, with_typo(word)) for word in known_words]
    typed = [(word, error) for word, error in errors if not index.corrector.is_known(error)]
    real: dict[str, set[str]] = {}
    for query, names in titles.items():
        from_titles = {word for name in names for word in split(name)}
        for word in split(query):
            if may_be_corrected(word) and not index.corrector.is_known(word):
                real.setdefault(word, set()).update(from_titles)
    clean = {word for other in others for word in other.words}
    return Words(
        [(word, error, [*index.corrector.similar_words(error)]) for word, error in typed],
        len(errors) - len(typed),
        [
            (word, [*index.corrector.similar_words(word)])
            for word in sorted(clean)
            if may_be_corrected(word) and not index.corrector.is_known(word)
        ],
        [
            (word, from_titles, [*index.corrector.similar_words(word)])
            for word, from_titles in real.items()
        ],
    )


def measure(words: Words, threshold: float) -> dict[str, float]:
    """The figures of a threshold, see the docstring of this file."""

    def corrected(word: str, similar: Similar) -> str | None:
        found = correct_word(word, similar, threshold)
        return found and found.correction

    typed = [(word, corrected(error, similar)) for word, error, similar in words.typed]
    shown = [pair for pair in typed if pair[1] is not None]
    right = sum(word == correction for word, correction in shown)
    wrong_clean = sum(corrected(word, similar) is not None for word, similar in words.clean)
    real = [
        (word, from_titles, corrected(word, similar)) for word, from_titles, similar in words.real
    ]
    confirmed = sum(correction in from_titles for _, from_titles, correction in real)
    near = [
        (correction, {other for other in from_titles if _is_near(word, other)})
        for word, from_titles, correction in real
    ]
    near = [(correction, others) for correction, others in near if others]
    recall = right / max(1, len(typed))
    per_word = len(shown) / max(1, len(typed)) + wrong_clean / max(1, len(words.clean))
    precision = recall / per_word if per_word else 0.0
    return {
        "precision": right / max(1, len(shown)),
        "recall": recall,
        "clean": wrong_clean / max(1, len(words.clean)),
        "real_shown": sum(correction is not None for *_, correction in real),
        "confirmed": confirmed,
        "near": len(near),
        "near_recall": sum(correction in others for correction, others in near) / max(1, len(near)),
        "f0.5": 1.25 * precision * recall / max(1e-9, 0.25 * precision + recall),
    }


def _is_near(word: str, other: str) -> bool:
    return other.isalpha() and edit_distance(word, other) <= 1 + (len(word) >= _TWO_EDITS)


def _rows(name: str, words: Words, thresholds: Iterable[float]) -> Iterator[str]:
    for threshold in thresholds:
        row = measure(words, threshold)
        yield (
            f"| {name} | {threshold:.2f} | {len(words.typed):,} | {row['precision']:.3f} | "
            f"{row['recall']:.3f} | {len(words.clean):,} | {row['clean']:.3f} | "
            f"{len(words.real):,} | {row['real_shown']:.0f} | {row['confirmed']:.0f} | "
            f"{row['near']:.0f} | {row['near_recall']:.3f} | {row['f0.5']:.3f} |\n"
        )


def main(
    *,
    index: Annotated[tuple[Path, ...], Parameter(consume_multiple=True)],
    queries: Annotated[tuple[Path, ...], Parameter(consume_multiple=True)],
) -> None:
    """Prints a table."""
    indexes = [open_index(path) for path in index]
    shops = []
    for number, shop in enumerate(indexes):
        others = [other for other in indexes if other is not shop]
        shops.append(words_of(shop, queries[number], others))
    write = sys.stdout.write
    write(
        "| words | threshold | typing errors | precision | recall | clean words | corrected | "
        "unknown words of real queries | corrected | confirmed | near | recall | F0.5 |\n"
        + "|---" * 13
        + "|\n"
    )
    development = shops[0].half(0)
    for row in _rows(f"{index[0].name}, to choose", development, THRESHOLDS):
        write(row)
    chosen = max(THRESHOLDS, key=lambda threshold: measure(development, threshold)["f0.5"])
    write(f"\nChosen: {chosen}; the package has {MIN_SIMILARITY}.\n\n")
    write("".join(_rows(f"{index[0].name}, other words", shops[0].half(1), [chosen])))
    for path, shop in zip(index[1:], shops[1:], strict=True):
        write("".join(_rows(f"{path.name}, all words", shop, [chosen])))
    for path, shop in zip(index, shops, strict=True):
        errors = shop.known + len(shop.typed)
        write(f"{path.name}: {shop.known} of {errors:,} typing errors give another known word.\n")


if __name__ == "__main__":
    sys.exit(run("corrections", main, None))

"""Build time, size, memory and speed of the index of a maxsim model, by the number of titles.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.maxsim_index --model COMPACT/NAME \
        --corpus corpus.tsv --queries queries.txt [--titles 1000000]

The first row is for the titles of the corpus, the others for generated catalogs with the corpus's
statistics: a generated title is a walk through its titles, which changes at a word that two titles
share, so that words and pairs of neighboring words are as frequent as in the corpus. New words are
added at the rate at which the corpus's own titles add them (Heaps 1978): existing words with some
letters changed. Queries are searched as they are, and with one typing error each.

Each index is built by `dssm index` and searched in another process by one thread on one core, one
query at a time. The last 400 queries are measured; the others are searched before, as in a server
that has run for a while. Every second one is searched as it is, the others with a typing error: no
other form of them was searched. Both are shuffled together, so words that are new to the process
are included. Then the first half is searched again, with all words cached. Milliseconds are wall
clock time. Other processes slow it down, so each search counts with the minimum of three processes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from math import log2
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS
from dssm_tf.common.command_line import run
from dssm_tf.tables.judgments import read_corpus
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.typos import with_typo
from tests.benchmarks.scale import run_measured

QUERIES = 400
KINDS = {
    "query": ["query"],
    "typing error": ["typing error"],
    "both": ["query", "typing error"],
    "cached": ["cached"],
}
"""The columns of the table, and the kinds of searches in each."""

_CHANGES = 0.2  # probability of a change to another title, at each word
_USES = 2  # mean number of titles of a new word

ROUNDS = 3

SEARCH = """
import json, os, resource, sys, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
started = time.process_time()
from dssm_tf.retrieval.opening import open_index
index = open_index(sys.argv[1])
index.search("")
result = {"opened": time.process_time() - started, "milliseconds": []}
known, measured = (open(path).read().splitlines() for path in sys.argv[2:])
for query in known:
    index.search(query)
for query in measured:
    started = time.perf_counter_ns()
    index.search(query)
    result["milliseconds"].append((time.perf_counter_ns() - started) / 1e6)
result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(result))
"""


def generated_titles(titles: Sequence[Sequence[str]], count: int, seed: int = 1) -> list[str]:
    """Titles with the statistics of other titles; see the top of this module.

    Args:
        titles: the words of the titles, in order.
        count: the number of titles to generate.
        seed: seed of the random numbers.
    """
    rng = random.Random(seed)
    titles = [title for title in titles if title]
    places = defaultdict(list)
    for row, title in enumerate(titles):
        for position, word in enumerate(title):
            places[word].append((row, position))
    new = new_words(titles, list(places), count, rng)
    tokens = count * sum(map(len, titles)) / len(titles)
    new_fraction = _USES * len(new) / tokens
    generated = []
    for _ in range(count):
        row, position = rng.randrange(len(titles)), 0
        words: list[str] = []
        while position < len(titles[row]) and len(words) < 30:
            word = titles[row][position]
            if rng.random() < _CHANGES:
                row, position = rng.choice(places[word])
            words.append(rng.choice(new) if rng.random() < new_fraction else word)
            position += 1
        generated.append(" ".join(words))
    return generated


def new_words(
    titles: Sequence[Sequence[str]], words: Sequence[str], count: int, rng: random.Random
) -> list[str]:
    """Words that a catalog of `count` titles has in addition to the words of some titles."""
    half = {word for title in titles[::2] for word in title}
    growth = log2(len(words) / len(half))
    total = round(len(words) * (count / len(titles)) ** growth)
    known, new = {*words}, dict[str, None]()
    while len(known) + len(new) < total:
        letters = list(rng.choice(words))
        for _ in range(2):
            letters[rng.randrange(len(letters))] = rng.choice(ascii_lowercase)
        letters.insert(rng.randrange(len(letters) + 1), rng.choice(ascii_lowercase))
        if (word := "".join(letters)) not in known:
            new[word] = None
    return list(new)


def write_titles(path: Path, titles: Sequence[str]) -> None:
    """Writes a corpus."""
    with path.open("w", encoding="utf-8") as file:
        file.write("doc_id\ttitle\n")
        file.writelines(f"t{number}\t{title}\n" for number, title in enumerate(titles))


def measured_queries(queries: Sequence[str], seed: int = 1) -> tuple[list[str], list[str]]:
    """Queries in the order in which they are measured, and the kind of each.

    Args:
        queries: queries; every second one gets a typing error.
        seed: seed of the random numbers.
    """
    kinds = [(query, "query") for query in queries[::2]]
    kinds += [(with_typo(query), "typing error") for query in queries[1::2]]
    random.Random(seed).shuffle(kinds)
    kinds += [(query, "cached") for query in queries[::2]]
    return [query for query, _ in kinds], [kind for _, kind in kinds]


def measure(folder: Path, model: Path, corpus: Path, queries: list[Path], kinds: list[str]) -> str:
    """Builds and searches an index; returns cells of the table."""
    out = folder / corpus.stem
    command = ["index", "--model", model, "--corpus", corpus, "--out", out]
    seconds, peak = run_measured([sys.executable, "-m", "dssm_tf.cli", *map(str, command)])
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    rounds = [
        json.loads(subprocess.check_output([sys.executable, "-c", SEARCH, out, *queries]))
        for _ in range(ROUNDS)
    ]
    opened, peak_of_search = (min(row[name] for row in rounds) for name in ("opened", "peak"))
    fastest = np.min([row["milliseconds"] for row in rounds], axis=0)
    cells = []
    for included in KINDS.values():
        times = fastest[np.isin(kinds, included)]
        cells.append(f"{np.median(times):.2f} ({np.percentile(times, 95):.2f})")
    return (
        f"{seconds:.1f} | {peak:,.0f} | {size / 2**20:,.0f} | {opened:.1f} | {' | '.join(cells)} | "
        f"{peak_of_search:,.0f} |"
    )


def main(
    *,
    model: Path,
    corpus: Path,
    queries: Path,
    titles: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (1_000_000,),
) -> None:
    """Prints a table."""
    write = sys.stdout.write
    columns = " | ".join(f"{kind}, ms (95 %)" for kind in KINDS)
    write(
        "| titles | `dssm index`, s | peak, MiB | MiB on disk | open, s | "
        f"{columns} | peak, MiB |\n{'|---' * 10}|\n"
    )
    rows = [
        FOLDED.words(entry.title)
        for entry in read_corpus(corpus, DEFAULT_TABLE_FLAGS.layout().corpus)
    ]
    texts = queries.read_text("utf-8").splitlines()
    measured, kinds = measured_queries(texts[-QUERIES:])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = [folder / "known.txt", folder / "measured.txt"]
        for file, lines in zip(files, (texts[:-QUERIES], measured), strict=True):
            file.write_text("\n".join(lines), "utf-8")
        write(f"| {len(rows):,} | {measure(folder, model, corpus, files, kinds)}\n")
        for count in titles:
            catalog = folder / f"generated{count}.tsv"
            write_titles(catalog, generated_titles(rows, count))
            write(f"| {count:,} | {measure(folder, model, catalog, files, kinds)}\n")


if __name__ == "__main__":
    sys.exit(run("maxsim_index", main, None))

"""Rows a second and peak memory of preprocess, beside one Beam element a row.

    python -m tests.benchmarks.preprocess [--rows 300000] [--alone] [preprocess flags ...]

The log is synthetic, of the words and titles of WebQuestions: Zipf-like clicks of 50,000 queries
on 20,000 titles, about 110,000 distinct pairs in 300,000 rows; a longer log has as many more.
The rival is the pipeline that one writes first, on the same runner: an element a row, sums by
pair, by title and by trigram, grouping by query, four negatives, hashing with `RecordEncoder`,
gzip TFRecords. It has no rejects, cleaning, split, report or reproducible order. `--alone` leaves
it out; flags that begin with `--direct` are the rival's, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "dssm_tf" / "datasets" / "webquestions" / "pairs.tsv"


def write_log(path: Path, rows: int, seed: int = 1) -> None:
    """Writes a synthetic click log."""
    rng, scale = random.Random(seed), max(1, rows // 300_000)
    real = [line.split("\t") for line in PAIRS.read_text("utf-8").splitlines()[1:]]
    words = sorted({word for row in real for word in row[2].split()})
    names = sorted({row[3] for row in real})
    titles = [
        f"{rng.choice(names)} {rng.choice(words)} {rng.choice(words)} {n}"
        for n in range(20_000 * scale)
    ]
    queries = [" ".join(rng.choices(words, k=rng.randint(1, 5))) for _ in range(50_000 * scale)]
    with path.open("w", encoding="utf-8") as file:
        file.write("query\ttitle\tclicks\n")
        for _ in range(rows):
            head = rng.random() < 0.5
            query = int(rng.paretovariate(0.5)) - 1 if head else rng.randrange(len(queries))
            query = min(query, len(queries) - 1)
            title = (query * 7919 + min(int(rng.paretovariate(1.0)) - 1, 50)) % len(titles)
            file.write(f"{queries[query]}\t{titles[title]}\t1\n")


def measure(arguments: list[str]) -> dict[str, float]:
    """Seconds, processor seconds and peak memory (MiB, of the largest process) of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    errors = process.stderr.read()
    # Of this command and its children alone: RUSAGE_CHILDREN keeps the peak of earlier commands.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(errors.decode())
    return {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
    }


def rival(log: str, output: str, *flags: str) -> None:
    """One Beam element a row, a pair and a trigram."""
    import apache_beam as beam
    from apache_beam.io.tfrecordio import WriteToTFRecord

    from dssm_tf.data.record_encoder import RecordEncoder
    from dssm_tf.data.schema import Title
    from dssm_tf.text.letter_ngrams import letter_ngrams
    from dssm_tf.text.rules import FOLDED
    from dssm_tf.text.vocabulary import Vocabulary
    from pipelines.runners import choose_runner

    shared = {}  # what a process needs once

    def parse(line):
        query, title, clicks = line.split("\t")
        return (FOLDED.key(query), FOLDED.key(title)), int(clicks)

    def trigrams(pair):
        for word in " ".join(pair[0]).split():
            yield from letter_ngrams(word)

    def records(group, titles, ngrams):
        query, pairs = group
        clicked = dict(pairs)
        if not shared:
            shared["texts"] = list(titles)
            shared["sums"] = list(accumulate(titles.values()))
            shared["encoder"] = RecordEncoder(Vocabulary((ngram for ngram, _ in ngrams), FOLDED))
        rng = random.Random(query)
        for title, number in clicked.items():
            drawn = rng.choices(shared["texts"], cum_weights=shared["sums"], k=12)
            drawn = [one for one in dict.fromkeys(drawn) if one not in clicked][:4]
            chosen = [Title(one, titles[one]) for one in (title, *drawn)]
            yield shared["encoder"].encode(query, chosen, number)

    runner, options = choose_runner("DirectRunner", flags)
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        pairs = (
            pipeline
            | "Read" >> beam.io.ReadFromText(log, skip_header_lines=1)
            | "Parse" >> beam.Map(parse)
            | "Sum" >> beam.CombinePerKey(sum)
        )
        titles = (
            pairs
            | "By title" >> beam.Map(lambda pair: (pair[0][1], pair[1]))
            | "Sum titles" >> beam.CombinePerKey(sum)
        )
        ngrams = (
            pairs
            | "Trigrams" >> beam.FlatMap(trigrams)
            | "Count trigrams" >> beam.combiners.Count.PerElement()
            | "Most frequent" >> beam.combiners.Top.Of(30_000, key=lambda count: count[1])
        )
        _ = (
            pairs
            | "By query" >> beam.Map(lambda pair: (pair[0][0], (pair[0][1], pair[1])))
            | "Group" >> beam.GroupByKey()
            | "Draw and hash"
            >> beam.FlatMap(records, beam.pvalue.AsDict(titles), beam.pvalue.AsSingleton(ngrams))
            | "Shuffle" >> beam.Reshuffle()
            | "Write" >> WriteToTFRecord(output, file_name_suffix=".tfrecord.gz", num_shards=4)
        )


def compare(rows: int, flags: list[str], alone: bool = False) -> dict[str, dict[str, float]]:
    """Measures preprocess and, unless it is to be alone, its rival on one log."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "clicks.tsv"
        write_log(log, rows)
        code = "import sys; from tests.benchmarks.preprocess import rival; rival(*sys.argv[1:])"
        ours = ["-m", "pipelines.preprocess", "--input", str(log), "--output", f"{directory}/data"]
        results = {"preprocess": measure([sys.executable, *ours, *flags])}
        if not alone:
            beam_flags = [flag for flag in flags if flag.startswith("--direct")]
            theirs = ["-c", code, str(log), f"{directory}/rival", *beam_flags]
            results["one element a row"] = measure([sys.executable, *theirs])
    for result in results.values():
        result["rows_a_second"] = rows / result["seconds"]
    return results


def main() -> None:
    """Prints the comparison as a table and as JSON."""
    parser = argparse.ArgumentParser(description="Speed of preprocess.", allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--alone", action="store_true")
    arguments, flags = parser.parse_known_args()
    results = compare(arguments.rows, flags, arguments.alone)
    write = sys.stdout.write
    write(f"{arguments.rows:,} rows, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    for name, result in results.items():
        write(
            f"{name:20} {result['rows_a_second']:>10,.0f} rows/s {result['seconds']:>7.1f} s "
            f"{result['processor_seconds']:>7.1f} processor s {result['peak_mib']:>7,.0f} MiB\n"
        )
    if not arguments.alone:
        ratio = results["one element a row"]["seconds"] / results["preprocess"]["seconds"]
        write(f"preprocess is {ratio:.2f} times as fast, start of the process included\n")
    write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()

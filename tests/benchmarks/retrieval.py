"""Build time, memory, recall and speed of each kind of vector index, by the number of titles.

    python -m tests.benchmarks.retrieval --model RUN [--titles 10000 100000 1000000] [--kinds ...]

Titles are synthetic, of the words of WebQuestions: a real title with one to three further words,
so that thousands of titles share most of theirs. Queries are the bundled ones. The model is any
run that knows these words, such as `build/demo/runs/dssm` after `make demo`.

Each index is built in one process and searched in another, a query at a time, by `--threads`
threads; its peak memory includes the vectors that it has looked at, which are mapped. Recall
is measured on queries that only confirm the choice of the setting. Seconds are those of the
processor, of all threads together, since other work on the machine does not count in them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "dssm_tf" / "datasets" / "webquestions" / "pairs.tsv"
ASKED = 400
TIMED = 2.0  # seconds of queries


def write_corpus(path: Path, titles: int, seed: int = 1) -> None:
    """Writes a synthetic corpus."""
    rng = random.Random(seed)
    real = [line.split("\t") for line in PAIRS.read_text("utf-8").splitlines()[1:]]
    words = sorted({word for row in real for word in row[2].lower().split()})
    names = sorted({row[3] for row in real})
    with path.open("w", encoding="utf-8") as file:
        file.write("doc_id\ttitle\n")
        for number in range(titles):
            more = " ".join(rng.choices(words, k=rng.randint(1, 3)))
            file.write(f"t{number}\t{rng.choice(names)} {more}\n")


def queries(count: int = ASKED) -> list[str]:
    """Bundled queries, the same ones each time."""
    rows = [line.split("\t") for line in PAIRS.read_text("utf-8").splitlines()[1:]]
    return random.Random(2).sample(sorted({row[2] for row in rows}), count)


def peak_mib() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def build(folder: Path, kind: str) -> dict[str, object]:
    """Builds and saves a vector index, in a process of its own."""
    from dssm_tf.retrieval.approximate import ApproximateIndex
    from dssm_tf.retrieval.recall import choose_index

    vectors = np.load(folder / "vectors.npy")
    asked = np.load(folder / "queries.npy")
    started = time.process_time()
    index, measured = choose_index(vectors, lambda: asked, kind)
    seconds = time.process_time() - started
    if isinstance(index, ApproximateIndex):
        index.save(folder / f"{kind}.faiss")
    return {"seconds": seconds, "setting": measured.setting, "recall": measured.recall,
            "note": measured.note, "sentence": measured.sentence()}  # fmt: skip


def search(folder: Path, kind: str, value: int) -> dict[str, float]:
    """Opens a vector index and asks it, a query at a time, in a process of its own."""
    from dssm_tf.retrieval.approximate import ApproximateIndex
    from dssm_tf.retrieval.index import ExactIndex, FlatIndex

    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    asked = np.load(folder / "queries.npy")
    path = folder / f"{kind}.faiss"
    index = (
        ApproximateIndex.load(path, vectors, kind, value)
        if value
        else (FlatIndex if kind == "flat" else ExactIndex)(vectors)
    )
    for one in asked[:10]:
        index.search(one[None], 10)
    done, started = 0, time.process_time()
    while (seconds := time.process_time() - started) < TIMED:
        index.search(asked[done % len(asked)][None], 10)
        done += 1
    return {"queries_s": done / seconds, "peak_mib": peak_mib()}


def child(*words: object, threads: int) -> dict[str, object]:
    """Runs this module again for one step; what it prints."""
    threads_of = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.retrieval", *map(str, words)],
        cwd=ROOT, env={**os.environ, **threads_of}, stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def make(folder: Path, model: str, titles: int, kind: str) -> dict[str, object]:
    """`dssm index` and its opening; leaves the vectors, and those of the queries."""
    from dssm_tf.common.checksums import fingerprint
    from dssm_tf.common.quiet import load_tensorflow
    from dssm_tf.retrieval.title_index import TitleIndex

    write_corpus(folder / "corpus.tsv", titles)
    command = [sys.executable, "-m", "dssm_tf.cli", "index", "--model", model]
    command += ["--corpus", folder / "corpus.tsv", "--out", folder / "index", "--kind", kind]
    (folder / "queries.txt").write_text("\n".join(queries()))
    command += ["--queries", folder / "queries.txt"]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if status:
        raise RuntimeError(told)
    model_is = fingerprint(Path(model))
    TitleIndex.open(folder / "index", model_is)  # imports what it needs
    started = time.process_time()
    index = TitleIndex.open(folder / "index", model_is)
    opened = time.process_time() - started
    (folder / "vectors.npy").symlink_to(folder / "index" / "vectors.npy")
    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    ranker = SemanticRanker.load(model)
    np.save(folder / "queries.npy", ranker.encode_queries(queries(), prior=True))
    size = sum(one.stat().st_size for one in (folder / "index").iterdir()) / 2**20
    return {"seconds": seconds, "peak_mib": usage.ru_maxrss / 1024, "opened": opened,
            "mib": size, "kind": index.measured.kind}  # fmt: skip


def make_random(folder: Path, titles: int) -> dict[str, object]:
    """An index of vectors drawn at random, for what does not depend on what they say."""
    from dssm_tf.retrieval.title_index import Settings, TitleIndex
    from dssm_tf.tables.judgments import CorpusTitle

    write_corpus(folder / "corpus.tsv", titles)
    lines = (folder / "corpus.tsv").read_text("utf-8").splitlines()[1:]
    corpus = [CorpusTitle(*line.split("\t")) for line in lines]
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((titles, 301), dtype=np.float32)
    started = time.process_time()
    index = TitleIndex.build(None, corpus, Settings(kind="exact"), vectors=vectors)
    index.save(folder / "index", "0" * 64)
    seconds, peak = time.process_time() - started, peak_mib()
    del index, vectors
    opened = []
    for _ in range(6):
        started = time.process_time()
        TitleIndex.open(folder / "index")
        opened.append(time.process_time() - started)
    (folder / "vectors.npy").symlink_to(folder / "index" / "vectors.npy")
    np.save(folder / "queries.npy", rng.standard_normal((ASKED, 301), dtype=np.float32))
    size = sum(one.stat().st_size for one in (folder / "index").iterdir()) / 2**20
    return {"seconds": seconds, "peak_mib": peak, "opened": min(opened), "mib": size,
            "kind": "exact, vectors at random"}  # fmt: skip


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="build/demo/runs/dssm")
    parser.add_argument("--titles", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", default=["exact", "flat", "int8", "ivf", "hnsw"])
    parser.add_argument("--kind", default="auto", help="that `dssm index` itself builds")
    parser.add_argument("--random", action="store_true", help="vectors at random, not a model's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        name, folder, *rest = arguments.step
        steps = {"build": build, "search": search, "make": make, "make_random": make_random}
        step = steps[name]
        given = [int(one) if one.isdecimal() else one for one in rest]
        sys.stdout.write(json.dumps(step(Path(folder), *given)) + "\n")
        return
    write = sys.stdout.write
    for titles in arguments.titles:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            words = ["make", folder, Path(arguments.model).resolve(), titles, arguments.kind]
            if arguments.random:
                words = ["make_random", folder, titles]
            whole = child("--step", *words, threads=os.cpu_count() or 1)
            write(
                f"\n{titles:,} titles: dssm index {whole['seconds']:.1f} s, peak "
                f"{whole['peak_mib']:,.0f} MiB, {whole['mib']:,.0f} MiB on disk, kind "
                f"{whole['kind']}, opened in {whole['opened']:.2f} s\n\n"
                "| kind | setting | build, s | file, MiB | recall@10 | @100 | queries a second |"
                " peak, MiB |\n|---|---|---|---|---|---|---|---|\n"
            )
            for kind in arguments.kinds:
                made = child("--step", "build", folder, kind, threads=os.cpu_count() or 1)
                setting = made["setting"]
                if made["note"]:
                    write(f"| {kind} | {made['note']} | {made['seconds']:.1f} | | | | | |\n")
                    continue
                found = child(
                    "--step", "search", folder, kind, setting[1] if setting else 0,
                    threads=arguments.threads,
                )  # fmt: skip
                path = folder / f"{kind}.faiss"
                size = path.stat().st_size / 2**20 if path.exists() else 0
                write(
                    f"| {kind} | {' '.join(map(str, setting or ['-']))} | {made['seconds']:.1f} | "
                    f"{size:.0f} | {made['recall'][0]:.3f} | {made['recall'][1]:.3f} | "
                    f"{found['queries_s']:,.0f} | {found['peak_mib']:,.0f} |\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()

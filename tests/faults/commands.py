"""The commands that write files, with small inputs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path

import yaml

from dssm_tf.commands import demo
from dssm_tf.common.files import atomic_write
from dssm_tf.export.compact import export_compact
from dssm_tf.export.search_engine.export import export_search_engine
from tests.clicks import catalog, click_log, write_data
from tests.datasets.tables import write_source
from tests.runs import finished_run

COSINE = {
    "tower": {"name": "dssm", "widths": [6]},
    "training": {"epochs": 2, "batch_size": 16, "xla": False},
}
MAXSIM = {
    "tower": {"name": "words", "units": 6},
    "score": {"name": "maxsim"},
    "shared_towers": True,
    "whole_words": True,
}
CATALOG = catalog(40)
TITLES = sorted({*CATALOG, *(click.title for click in click_log())})
ENGINE = "engine.txt"
"""The input with the address of a search engine."""


@dataclass(frozen=True)
class Command:
    """A command that writes files.

    Attributes:
        name: the subcommand, and the kind of its output if it has several.
        arguments: its arguments, where {inputs} is the folder of the inputs, {out} the output, and
            {engine} the address of a search engine.
        out: the name of the output.
        replaces: the flag that allows the command to replace an old output; empty if it needs none;
            None if it refuses to replace the output, or adds to it.
        resumes: whether the command resumes after a kill; then its output appears early.
        last_file: a file or directory that only a complete output has; empty if the output appears
            at once.
        varying: patterns of files whose content differs between runs, such as times.
    """

    name: str
    arguments: str
    out: str = "out"
    replaces: str | None = None
    resumes: bool = False
    last_file: str = ""
    varying: tuple[str, ...] = ()

    @property
    def old_file(self) -> str:
        """A file that an old output has, if the command may replace a directory."""
        return self.last_file or "report.json"

    @property
    def writes_versions(self) -> bool:
        """Whether each call writes a new version of a model, from 1 on."""
        return self.last_file.endswith("/1")

    def line(self, inputs: Path, folder: Path, replace: bool = False) -> list[str]:
        """The arguments with the paths."""
        paths = {"inputs": inputs, "out": folder / self.out}
        engine = (inputs / ENGINE).read_text("utf-8")
        words = [word.format(**paths, engine=engine) for word in self.arguments.split()]
        return [*words, *([self.replaces] if replace and self.replaces else [])]

    def result(self, folder: Path) -> dict[str, bytes]:
        """The content of each file below a folder without its path; empty for varying files."""
        path = str(folder).encode()
        return {
            name: b""
            if any(fnmatchcase(name, pattern) for pattern in self.varying)
            else content.replace(path, b"FOLDER")
            for name, content in files(folder).items()
        }

    def is_complete(self, folder: Path) -> bool:
        """Whether the output looks complete to a reader."""
        out = folder / self.out
        return (out / self.last_file).exists() if self.last_file else out.exists()


def files(folder: Path) -> dict[str, bytes]:
    """The names and contents of all files below a folder, hidden ones and links included."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


MEASURED = (
    "out/report.*",
    "out/metrics.json",
    "*/facts.json",
    "*/log.txt",
    "out/work/inputs/*/report.*",
)
"""The files of a benchmark that have times, or the path of the output."""
COMMANDS = (
    Command("preprocess", "preprocess --input {inputs}/clicks.tsv --output {out}",
            replaces="--overwrite"),
    Command("train", "train --config {inputs}/cosine.yaml --data {inputs}/data --out {out}",
            resumes=True, last_file="SHA256SUMS"),
    Command("evaluate", "evaluate --judgments {inputs}/judgments.tsv --corpus {inputs}/corpus.tsv "
            "--model {inputs}/cosine --out {out}"),
    Command("evaluate gate", "evaluate --judgments {inputs}/judgments.tsv --corpus "
            "{inputs}/corpus.tsv --model {inputs}/maxsim --against {inputs}/cosine "
            "--fail-if-worse --tolerance 0.99 --min-queries 1 --out {out}"),
    Command("features", "features --judgments {inputs}/judgments.tsv --model "
            "{inputs}/maxsim --out {out}", "out.txt", ""),
    Command("benchmark", "benchmark --clicks {inputs}/clicks.tsv --judgments "
            "{inputs}/judgments.tsv --corpus {inputs}/corpus.tsv --systems popularity,bm25 "
            "--seeds 1 --metrics ndcg@1 --tune ndcg@1 --jobs 1 --out {out}",
            resumes=True, last_file="report.html",
            varying=MEASURED),
    Command("benchmark of a trained system", "benchmark --clicks {inputs}/clicks.tsv "
            "--hold-out-queries 0.3 --systems dssm --set tower.widths=[6] --set "
            "training.epochs=2 --set training.xla=false --seeds 1 --metrics ndcg@1 --tune ndcg@1 "
            "--jobs 1 --out {out}", resumes=True, last_file="report.html", varying=MEASURED),
    Command("tune", "tune --config {inputs}/cosine.yaml --data {inputs}/data --grid "
            "optimizer.learning_rate=0.01,0.1 --out {out}", resumes=True, last_file="best.yaml",
            varying=("out/trials.db",)),
    Command("mine", "mine --data {inputs}/data --bm25 --ranks 1 3 --out {out}", "out.tsv"),
    Command("teach", "teach --data {inputs}/data --model {inputs}/cosine --out {out}",
            "out.tsv"),
    Command("export saved model", "export --model {inputs}/cosine --out {out}",
            last_file="dssm/1",
            varying=("*/fingerprint.pb", "*/SHA256SUMS")),  # TensorFlow draws a random id
    Command("export compact", "export --model {inputs}/cosine --format compact --out {out}",
            last_file="dssm/1"),
    Command("export opensearch", "export --model {inputs}/maxsim --format opensearch --out {out}",
            last_file="maxsim/1"),
    Command("export rules", "export --model {inputs}/maxsim --format rules --out {out}",
            "out.rules"),
    Command("documents", "documents --export {inputs}/opensearch/maxsim/1 --input "
            "{inputs}/documents.jsonl --out {out}", "out.jsonl", ""),
    Command("embed", "embed --model {inputs}/compact/cosine/1 --input {inputs}/corpus.tsv "
            "--out {out}", "out.parquet", ""),
    Command("index cosine", "index --model {inputs}/compact/cosine/1 --corpus "
            "{inputs}/corpus.tsv --out {out}"),
    Command("index maxsim", "index --model {inputs}/maxsim --corpus {inputs}/corpus.tsv "
            "--out {out}"),
    Command("explain", "explain --model {inputs}/cosine --query fox --title red_fox "
            "--out {out}"),
    Command("report", "report --model {inputs}/cosine --out {out}"),
    Command("demo", "demo --out {out}", replaces="", last_file="index.html"),
    Command("data split", "data split --clicks {inputs}/clicks.tsv --hold-out-queries 0.3 "
            "--out {out}"),
    Command("data judgments", "data judgments --clicks {inputs}/clicks.tsv --corpus "
            "{inputs}/corpus.tsv --format trec --out {out}"),
    Command("data run", "data run --engine {engine} --index shop --queries "
            "{inputs}/judgments.tsv --query-template {inputs}/query.json --batch 4 --out {out}",
            "out.trec", resumes=True),
    Command("data convert", "data convert trec {inputs}/trec {out}"),
)  # fmt: skip
"""The demo is shortened by `shorten_demo`."""
REPLACING = [command for command in COMMANDS if command.replaces is not None]
command_name = attrgetter("name")
NOT_WRITING = {"interleave", "search", "serve", "completion", "data check", "data list"}
"""The commands that write no files."""


def shorten_demo() -> None:
    """Makes `dssm demo` of this process run only the first of its commands, and write a short page.

    The others are tested on their own.
    """

    def write_page(out: Path, _: float, commands: Sequence[str]) -> None:
        with atomic_write(out / demo.PAGE) as file:
            file.writelines(commands)

    demo.write_page = write_page
    demo._COMMANDS = demo._COMMANDS.splitlines()[0]


def write_inputs(folder: Path) -> Path:
    """Writes the inputs of all commands."""
    log, choose = click_log(), random.Random(0)
    lines = [f"{click.query}\t{click.title}\t{click.clicks}" for click in log]
    _write(folder / "clicks.tsv", ["query\ttitle\tclicks", *lines])
    ids = {title: f"d{number}" for number, title in enumerate(TITLES)}
    corpus = [f"{i}\t{title}" for title, i in ids.items()]
    _write(folder / "corpus.tsv", ["doc_id\ttitle", *corpus])
    judged = [
        f"q{number}\t{' '.join(title.split()[::2])}\t{ids[title]}\t{title}\t2"
        for number, title in enumerate(choose.sample(CATALOG, 12))
    ]
    _write(folder / "judgments.tsv", ["query_id\tquery\tdoc_id\ttitle\tgrade", *judged])
    documents = [json.dumps({"id": i, "title": title}) for title, i in ids.items()]
    _write(folder / "documents.jsonl", documents)
    (folder / "query.json").write_text('{"query": {"match": {"title": "{{query}}"}}}', "utf-8")
    (folder / "cosine.yaml").write_text(yaml.safe_dump(COSINE), "utf-8")
    (folder / "trec").mkdir()
    write_source(folder / "trec", "trec")
    data = write_data(folder / "data", log, negatives=2, corpus=CATALOG)
    finished_run(folder / "cosine", data, COSINE)
    finished_run(folder / "maxsim", data, MAXSIM, 0.25)
    export_compact(folder / "cosine", folder / "compact", "cosine")
    export_search_engine(folder / "maxsim", folder / "opensearch")
    return folder


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

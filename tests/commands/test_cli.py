"""The `dssm` program: its output, help, exit codes and error messages."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from dssm_tf import __version__, cli, commands
from dssm_tf.cli import main
from dssm_tf.commands.data import SUBCOMMANDS
from dssm_tf.config import load_config
from tests.clicks import click_log, write_data
from tests.conftest import CHECKOUT
from tests.script import python

COMMANDS = [*cli.COMMANDS, *(f"data {name}" for name in SUBCOMMANDS)]
CONFIG = """\
tower: {name: dssm, widths: [6]}
optimizer: {learning_rate: 0.05}
training: {epochs: 9, batch_size: 16, xla: false}
"""
TRAIN = (
    "train --config mine.yaml --data data --out run --set training.epochs=2 --set training.seed=5"
)


def output_lines(command: str, folder: Path) -> list[str]:
    """Runs a command in a folder and returns its output.

    Asserts that it succeeds, and that standard error has nothing but progress.
    """
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        assert main(command.split()) == 0
    # On a slow machine, lines of progress end with the time, such as "ranking: 00:02".
    progress = re.compile(r" epoch |: \d\d:\d\d$")
    assert [line for line in err.getvalue().splitlines() if not progress.search(line)] == []
    return out.getvalue().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a configuration and preprocessed data."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "mine.yaml").write_text(CONFIG, "utf-8")
    write_data(folder / "data", click_log(30))
    return folder


@pytest.fixture(scope="module")
def training_output(folder) -> list[str]:
    return output_lines(TRAIN, folder)


def test_training_prints_its_epochs_the_result_and_the_next_command(training_output, folder):
    first_line, *lines = training_output
    assert first_line.startswith(
        "training dssm on 23 pairs (the data has 24 queries and 20 titles): at most 2 "
    )
    assert "are chosen on 4 queries, fewer than 200" in lines[0]
    assert [line.split(" · ")[0] for line in lines[1:3]] == ["fit epoch   1/2", "fit epoch   2/2"]
    interval = r"\((\d?\.\d+-\d?\.\d+/?){3}\)"
    assert re.search(rf"NDCG@1/3/10 \d\.\d+/\d\.\d+/\d\.\d+ {interval} .* s best$", lines[1])
    assert re.fullmatch(r"run: fit 2 epochs \(best: [12]\) in \d+ s", lines[3])
    assert re.fullmatch(
        r"validation NDCG@10 0\.\d{3}, 95 % interval \d?\.\d+-\d?\.\d+ over 4 queries, with \S+ x "
        "log-prior of titles",
        lines[4],
    )
    assert len(lines) == 6
    assert lines[-1] == "next: dssm export --model run --out EXPORT"
    config = load_config(folder / "run" / "config.yaml")
    assert (config.training.epochs, config.training.seed, config.training.batch_size) == (2, 5, 16)


def test_repeating_a_finished_training_says_already_finished(training_output, folder):
    first, *_, last = output_lines(TRAIN, folder)
    assert re.fullmatch(r"run: fit 2 epochs \(best: [12]\) \(already finished\)", first)
    assert last == training_output[-1]


@pytest.mark.long
def test_training_prints_the_refit_as_a_phase_without_a_best_epoch(training_output, folder):
    *lines, summary, metric, _ = output_lines(
        TRAIN.replace("--out run", "--out refitted") + " --set training.refit=true", folder
    )
    best = int(re.search(r"fit 2 epochs \(best: ([12])\)", summary)[1])
    epochs = {1: "1 epoch", 2: "2 epochs"}[
        best
    ]  # two thirds of 1 or 2, rounded up: the same number
    (refit,) = (line for line in lines if line.startswith("refit: "))
    assert refit.startswith(f"refit: from the weights of epoch {best} on all ")
    refit_lines = lines[lines.index(refit) + 1 :]
    assert len(refit_lines) == best
    for number, line in enumerate(refit_lines, 1):
        assert re.fullmatch(rf"refit epoch   {number}/{best} · loss \S+ · \S+ s", line)
    assert (
        f"(best: {best}), refit {epochs} on all clicks including the validation split in "
        in summary
    )
    assert metric.endswith("log-prior of titles (measured before the refit)")
    card = (folder / "refitted" / "MODEL_CARD.md").read_text("utf-8")
    assert (
        "These choices were made on the same queries: the epoch, the best of 2, and the weight of "
        "the log-prior, the best of 10." in " ".join(card.split())
    )


def test_export_prints_where_the_model_is_and_how_to_serve_it(training_output, folder):
    first, second = output_lines("export --model run --out models --name shop", folder)
    assert first == "models/shop/1: verified against the trained model"
    assert second.startswith("serve it: tensorflow_model_server ")
    assert f"--model_base_path={folder.resolve()}/models/shop" in second


@pytest.mark.long
def test_evaluating_beside_bm25_prints_nothing_on_standard_error(training_output, folder):
    """BM25's library imports JAX if installed, which sets TensorFlow's log level."""
    judgments = "query_id\tquery\tdoc_id\ttitle\tgrade\n1\tred fox\td\tred fox\t1\n"
    (folder / "judgments.tsv").write_text(judgments, "utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_CPP")}
    command = "evaluate --model run --judgments judgments.tsv --out evaluation"
    evaluated = subprocess.run(
        [sys.executable, "-m", "dssm_tf.cli", *command.split()],
        capture_output=True, text=True, cwd=folder, env=environment | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert (evaluated.returncode, evaluated.stderr) == (0, "")


def test_help_imports_no_heavy_package():
    code = f"""
import sys
from dssm_tf.cli import main
for command in ["", *{COMMANDS!r}]:
    assert main([*command.split(), "--help"]) == 0
heavy = {{"tensorflow", "keras", "numpy", "apache_beam", "matplotlib"}}
print("heavy:", heavy & set(sys.modules))
"""
    assert python(code).endswith("heavy: set()\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    output = capsys.readouterr()
    assert output.out.lstrip().lower().startswith(f"usage: dssm {command}")
    assert output.err == ""
    assert not re.search(r"\[default:\s+(None|\[\]|\(\)|False|)\]", output.out)
    assert " object at 0x" not in output.out


def test_every_module_of_commands_is_a_command_or_a_subcommand():
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    helpers = {"flags", "named"}
    subcommands = {f"data_{name}" for name in SUBCOMMANDS} & modules
    assert {name.replace("-", "_") for name in cli.COMMANDS} == modules - helpers - subcommands


def test_every_command_is_listed_with_its_purpose(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert re.search(rf"^  {command}\s+\w+,? \w+", out, re.MULTILINE), command


def test_the_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"dssm-tf {__version__}"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("", 2, "dssm"),
        ("fly", 2, "dssm"),
        ("train --config lstm --data d", 2, "dssm"),
        ("export --model m --out o --bogus", 2, "dssm"),
        ("data split --clicks a --out b --judge_latr 1", 2, "Did you mean --judge-later?"),
        ("data split --clicks a --out b --judge_later 2", 2, "Must be <= 1"),
        (
            "preprocess --input a --outptu=b",
            2,
            "--output is required. Did you mean --output instead of --outptu?",
        ),
        (
            "preprocess --inptu=a --output b",
            2,
            "give --input, a click log, or --corpus, a table "
            "of titles, or both. Did you mean --input instead of --inptu?",
        ),
    ],
)
def test_wrong_usage_is_reported_and_flags_may_have_underscores(command, code, message, capsys):
    assert main(command.split()) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train --data {0}/data --out {0}/new --config lstn",
         r"lstn is neither a file nor .*dssm.* Did you mean 'lstm'\?$"),
        # The error is in the file, not in --set.
        ("train --data {0}/data --out {0}/new --config {0}/wrong.yaml --set loss.gamma=3",
         "train: .*/wrong.yaml: tower.cells is not a key"),
        ("train --config dssm --out {0}/new --data {0}/mine.yaml",
         "mine.yaml is a file. Give the directory that preprocess wrote"),
        ("train --config dssm --out {0}/new --data {0}/nowhere",
         "nowhere/spec.json does not exist. Give the directory that preprocess wrote"),
        ("train --config {0}/mine.yaml --data {0}/data --out {0}/mine.yaml/run", "mine.yaml"),
        ("export --model {0}/nowhere --out {0}/models", "has no config.yaml"),
        ("evaluate --judgments J --out E --baselines bm52", r"mean 'bm25'\?$"),
        ("benchmark --clicks C --out {0}/new --systems lstn", r"mean 'lstm'\?$"),
        ("benchmark --clicks C --out {0}/new --systems tfdf", r"mean 'tfidf'\?$"),
        ("data list wnds", r"mean 'wands'\?$"),
        # A wrong setting is named with its key, and without a file.
        ("train --config lstm --data {0}/data --out {0}/new --set training.epoch=5",
         r"^dssm train: --set (?!.*\.yaml).*is not a key; allowed here: epochs.* mean 'epochs'\?$"),
        ("train --config lstm --data {0}/data --out {0}/new --set tower.name=dsm",
         r"^dssm train: --set (?!.*\.yaml).* received 'dsm'. Did you mean 'dssm'\?$"),
        ("train --config lstm --data {0}/data --out {0}/new --set gamma",
         r"^dssm train: --set (?!.*\.yaml).* expected KEY=VALUE"),
        ("train --config lstm --data {0}/data --out {0}/new --set tower.name=dssm",
         r"^dssm train: --set (?!.*\.yaml).*tower.cells is not a key.*: --set 'tower={name: "),
    ],
)  # fmt: skip
def test_errors_are_reported_in_one_line(folder, capsys, command, message):
    (folder / "wrong.yaml").write_text("tower: {name: dssm, cells: 3}", "utf-8")
    assert main(command.format(folder).split()) == 1
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert output.out == ""
    assert line.startswith(f"dssm {command.split()[0]}")
    assert re.search(message, line)
    assert not (folder / "new").exists()


def test_an_interrupt_while_a_command_is_imported_is_one_line(monkeypatch, capsys):
    def load_command(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("dssm_tf.cli.load_command", load_command)
    assert main(["train", "--data", "DATA"]) == 1
    error = capsys.readouterr().err
    assert error == "dssm train: interrupted; run the same command again to resume or start over\n"

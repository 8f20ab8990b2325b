"""`--quiet` and `--log-level` of every command, and completions for shells."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys

import pytest

from dssm_tf.cli import COMMANDS, main
from dssm_tf.commands.data import SUBCOMMANDS
from dssm_tf.common.command_line import output_level, run
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import RESULT, is_quiet, say


def work() -> None:
    """Prints lines of all levels."""
    say("summary")
    say("warning", level=logging.WARNING)
    say("result", level=RESULT)
    say(f"debug {bool(os.environ.get('DSSM_DEBUG'))}")


@pytest.mark.parametrize(
    ("flags", "out", "err"),
    [
        ([], "summary\nwarning\nresult\ndebug False\n", ""),
        (["--quiet"], "result\n", "warning\n"),
        (["--log-level", "warning"], "result\n", "warning\n"),
        (["--log-level=error"], "result\n", ""),
        (["--log_level", "debug"], "summary\nwarning\nresult\ndebug True\n", ""),
    ],
)
def test_each_level_prints_its_lines_and_those_above(flags, out, err, capsys, monkeypatch):
    monkeypatch.delenv("DSSM_DEBUG", raising=False)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    assert run("work", work, flags) == 0
    assert capsys.readouterr() == (out, err)
    assert not is_quiet()
    assert "DSSM_DEBUG" not in os.environ


def test_quiet_turns_progress_off(monkeypatch, capsys):
    monkeypatch.setattr("dssm_tf.common.progress.FIRST_LINE_AFTER", 0.0)

    def slow() -> None:
        with progress_of("task", 1) as task:
            task.advance()
            assert is_quiet()

    assert run("slow", slow, ["--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_arguments_after_two_hyphens_are_no_flags():
    assert output_level(["a", "--quiet", "--", "--quiet"]) == ("warning", ["a", "--", "--quiet"])
    with pytest.raises(UserError, match="--log-level is ''; expected debug, info, warning, error"):
        output_level(["--log-level"])


def test_flags_before_the_command_are_those_of_the_command(capsys):
    assert main(["--quiet", "data", "list", "wands"]) == 0
    assert capsys.readouterr().out.startswith("wands\n")
    assert main(["--log-level", "loud", "data", "list"]) == 2
    assert "--log-level is 'loud'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """The completions of each shell."""
    return {
        shell: subprocess.run(
            [sys.executable, "-m", "dssm_tf.cli", "completion", shell],
            capture_output=True, text=True, check=True,
        ).stdout
        for shell in ("bash", "zsh", "fish")
    }  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_have_every_command_and_parse(scripts, shell, tmp_path):
    for word in (*COMMANDS, *SUBCOMMANDS, "log-level", "similar-words"):
        assert word in scripts[shell], word
    if shutil.which(shell):
        (tmp_path / "script").write_text(scripts[shell], "utf-8")
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("dssm tr", "train"),
        ("dssm index --cor", "--corpus --corpus-columns"),
        ("dssm index --kind ''", "auto exact fast"),
        ("dssm index --corpus m", "mine.tsv"),
        ("dssm data sp", "split"),
        ("dssm --qu", "--quiet"),
    ],
)
def test_bash_completes_commands_flags_choices_and_files(scripts, words, completions, tmp_path):
    (tmp_path / "mine.tsv").touch()
    code = f"""{scripts["bash"]}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _dssm; echo "${{COMPREPLY[@]}}"
"""
    bash = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (bash.stdout, bash.stderr) == (f"{completions}\n", "")

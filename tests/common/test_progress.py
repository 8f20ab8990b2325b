"""Progress on terminals and in logs."""

import io
import re
import sys
import time
from types import SimpleNamespace

import pytest

from dssm_tf.common import progress as module
from dssm_tf.common.progress import _details, progress_of


@pytest.fixture
def frequent_lines(monkeypatch):
    """Lines are written at once, up to 100 per second."""
    monkeypatch.setattr(module, "FIRST_LINE_AFTER", 0.0)
    monkeypatch.setattr(module, "LINE_INTERVAL", 0.01)
    monkeypatch.setattr(module, "_next_line_time", 0.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def error_stream(monkeypatch):
    """Returns a function that replaces the error stream by an object of a class."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def replace(stream=io.StringIO):  # called by the test, after pytest has set its stream
        monkeypatch.setattr(sys, "stderr", stream())
        return sys.stderr

    return replace


def wait_for(stream, text):
    """Waits until the stream has a text, at most two minutes."""
    end = time.monotonic() + 120
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    assert text in stream.getvalue()


def screen(output):
    """The lines of a terminal after some output, and its cursor; for the control codes of rich."""
    lines, row, column = [""], 0, 0
    for code in re.findall(r"\x1b\[\d*;?\d*[A-Zm]|\x1b\[\?25[hl]|.|\n", output):
        if code == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif code == "\r":
            column = 0
        elif code == "\x1b[2K":
            lines[row] = ""
        elif code == "\x1b[1A":
            row -= 1
        elif not code.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + code + lines[row][column + 1 :]
            column += 1
    return lines, row, column


def test_a_terminal_shows_a_bar_with_count_time_and_state(error_stream):
    terminal = error_stream(Terminal)
    with progress_of("bm25 [red] {0}", 4, unit="queries") as task:
        task.advance(3, "0.5 nats")
        wait_for(terminal, "0.5 nats")
        lines, _, _ = screen(terminal.getvalue())
    (line,) = lines
    assert re.fullmatch(
        r"bm25 \[red\] \{0\}: ━+╸?╺?━* 3 of 4 queries, \d\d:\d\d, 0\.5 nats", line
    ), line


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_a_bar_leaves_nothing_on_the_terminal(error_stream, error):
    terminal = error_stream(Terminal)
    print("before", file=terminal)
    try:
        with progress_of("bm25", 4) as task:
            task.advance()
            if error:
                raise error
    except KeyboardInterrupt:
        pass
    lines, row, column = screen(terminal.getvalue())
    assert [line for line in lines if line] == ["before"]
    assert (row, column) == (1, 0)


def test_a_bar_never_leaves_the_cursor_hidden(error_stream):
    terminal = error_stream(Terminal)
    with progress_of("bm25", 4):
        last_show = terminal.getvalue().rindex("\x1b[?25h")
        assert terminal.getvalue().rindex("\x1b[?25l") < last_show


def test_standard_output_is_not_redirected_to_the_terminal_of_the_bar(error_stream, capsys):
    terminal = error_stream(Terminal)
    with progress_of("bm25", 4):
        sys.stdout.write("a result\n")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_without_a_terminal_lines_with_the_time_of_day_are_written(frequent_lines, error_stream):
    stream = error_stream()
    with progress_of("bm25", 4, unit="queries") as task:
        task.update(3, "0.5 nats")
        wait_for(stream, "3 of 4")
    line = stream.getvalue().splitlines()[-1]
    assert re.fullmatch(r"\d\d:\d\d:\d\d bm25: 3 of 4 queries, \d\d:\d\d, 0\.5 nats", line)
    assert "\x1b" not in stream.getvalue()


def test_all_tasks_together_write_at_most_one_line_per_interval(
    frequent_lines, monkeypatch, error_stream
):
    stream = error_stream()
    monkeypatch.setattr(module, "LINE_INTERVAL", 0.4)
    started = time.monotonic()
    for number in range(5):
        with progress_of(f"task {number}", None), progress_of("inner", None):
            time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert 1 <= len(lines) <= 1 + (time.monotonic() - started) / 0.4


def test_a_short_task_writes_no_line(monkeypatch, error_stream):
    stream = error_stream()
    monkeypatch.setattr(module, "_next_line_time", 0.0)
    with progress_of("short", None):
        time.sleep(0.1)
    assert stream.getvalue() == ""


def test_the_first_line_comes_after_2_seconds_and_the_next_after_20():
    assert (module.FIRST_LINE_AFTER, module.LINE_INTERVAL) == (2, 20)


@pytest.mark.parametrize("show", [True, False])
def test_lines_are_written_to_the_error_stream_only_if_progress_is_on(frequent_lines, capsys, show):
    with progress_of("bm25", 4, show=show):
        time.sleep(0.2)
    output = capsys.readouterr()
    assert output.out == ""
    assert ("bm25: 0 of 4 steps" in output.err) == bool(output.err) == show


def test_a_hidden_task_counts_its_progress(error_stream):
    terminal = error_stream(Terminal)
    with progress_of("bm25", 4, show=False) as task:
        task.update(1)
        task.advance(2)
    assert task.done == 3
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("total", "unit", "remaining", "expected"),
    [
        (10, "epochs", None, "4 of 10 epochs, 00:30, 0.5 {nats}"),
        (10, "epochs", 45, "4 of 10 epochs, 00:30, 00:45 left, 0.5 {nats}"),
        (1000, "epochs", 7470, "4 of 1,000 epochs, 00:30, 2:04:30 left, 0.5 {nats}"),
        (None, "epochs", None, "4 epochs, 00:30, 0.5 {nats}"),
        (None, "", None, "00:30, 0.5 {nats}"),
    ],
)
def test_a_task_is_described_by_count_times_and_state(total, unit, remaining, expected):
    fields = {"unit": unit, "state": "0.5 {nats}"}
    task = SimpleNamespace(
        total=total, completed=4, elapsed=30.7, time_remaining=remaining, fields=fields
    )
    assert _details(task) == expected


def test_the_time_left_follows_from_the_average_speed(monkeypatch):
    now = [100.0]
    with progress_of("a", 10, show=False) as task:
        monkeypatch.setattr(task._bar.tasks[0], "_get_time", lambda: now[0])
        monkeypatch.setattr(task._bar, "get_time", lambda: now[0])
        for _ in range(4):  # 60 s per step, longer than the default period of rich
            task.advance()
            now[0] += 60
        assert "06:00 left" in task.line()


def test_a_state_function_is_called_only_to_write_a_line(error_stream):
    error_stream()
    calls = []

    def state():
        calls.append(1)
        return "8 rows read"

    with progress_of("preprocess", None, unit="", state=state) as task:
        for _ in range(1000):
            task.advance(state=state)
        assert calls == []
        assert task.line() == "preprocess: 00:00, 8 rows read"

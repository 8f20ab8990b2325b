import io
import re
import sys
import time

import pytest

from dssm_tf.common import progress as module
from dssm_tf.common.progress import Task, progress_of


@pytest.fixture
def eager(monkeypatch):
    """Lines come at once, and as often as a hundred times a second."""
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "_last_line", 0.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def errors(monkeypatch):
    """The error stream, no terminal unless one is asked for."""

    def of(kind=io.StringIO):
        monkeypatch.setattr(sys, "stderr", kind())
        return sys.stderr

    return of


def wait_for(stream, text):
    """Until the text is there, however slow the machine is."""
    end = time.monotonic() + 120
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    assert text in stream.getvalue()


def test_a_terminal_sees_a_bar_that_is_gone_in_the_end(errors):
    out = errors(Terminal)
    with progress_of("bm25 [red] {0}", 4, unit="queries") as task:
        task.advance(3, "0.5 nats")
        wait_for(out, "0.5 nats")
    shown = out.getvalue()
    assert "bm25 [red] {0}: " in shown
    assert "3 of 4 queries, " in shown
    assert "█" in shown
    assert shown.endswith("\r\x1b[2K")  # the line is cleared


def test_without_a_terminal_there_are_lines_with_the_time_of_day(eager, errors):
    out = errors()
    with progress_of("bm25", 4, unit="queries") as task:
        task.update(3, "0.5 nats")
        wait_for(out, "3 of 4")
    line = out.getvalue().splitlines()[-1]
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d bm25: 3 of 4 queries, \d\d:\d\d, \d\d:\d\d left, 0\.5 nats", line
    )
    assert "\x1b" not in out.getvalue()


def test_a_log_gets_few_lines_and_none_of_what_is_short(eager, monkeypatch, errors):
    # A line a 0.4 s at most, and five tasks of 0.2 s: two or three lines by the clock.
    monkeypatch.setattr(module, "EVERY", 0.4)
    out = errors()
    started = time.monotonic()
    for number in range(5):
        with progress_of(f"task {number}", None):
            time.sleep(0.2)
    lines = out.getvalue().splitlines()
    assert 1 <= len(lines) <= 1 + (time.monotonic() - started) / 0.4
    monkeypatch.setattr(module, "PATIENCE", 10.0)
    with progress_of("short", None):
        pass
    assert "short" not in out.getvalue()


@pytest.mark.parametrize("show", [True, False])
def test_lines_keep_out_of_the_results_and_are_shown_only_where_somebody_looks(eager, capsys, show):
    with progress_of("bm25", 4, show=show):
        time.sleep(0.2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("bm25: 0 of 4 steps" in shown.err) == bool(shown.err) == show


def test_the_time_left_goes_by_what_was_done(clock):
    task = Task("a", 10, "epochs")
    assert task.text() == "a: 0 of 10 epochs, 00:00"
    clock[0] += 30
    task.advance(4, "0.5 {nats}")  # 7.5 s each, and six are left
    assert task.text() == "a: 4 of 10 epochs, 00:30, 00:45 left, 0.5 {nats}"
    task.total = 1000
    assert task.text().startswith("a: 4 of 1,000 epochs, 00:30, 2:04:30 left")


def test_a_state_may_be_asked_for_when_it_is_shown():
    read = [7]
    task = Task("preprocess", unit="", state=lambda: f"{read[0]} rows read")
    read[0] = 8
    assert task.text() == "preprocess: 00:00, 8 rows read"


def test_an_error_takes_the_bar_away(errors):
    out = errors(Terminal)
    with pytest.raises(KeyboardInterrupt), progress_of("bm25", 4):
        raise KeyboardInterrupt
    assert out.getvalue().endswith("\r\x1b[2K")

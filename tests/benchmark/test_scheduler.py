import io
import json
import re
import sys
import time

import pytest
from rich.console import Console

from dssm_tf.benchmark import scheduler
from dssm_tf.benchmark.scheduler import Job, run_jobs
from dssm_tf.common.progress import Progress, Task

# What a worker does, in little: says when it started and ended, and does as it is told.
WORKER = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
with open(folder / "times", "a") as file:
    file.write(f"{time.monotonic()} ")
(folder / "stage").write_text("at work")
for _ in range(12_000 if job.get("waits") else 0):  # for the test, not for the clock
    if (folder / "go").exists():
        break
    time.sleep(0.01)
if job.get("fails"):
    (folder / "error.json").write_text(json.dumps({"error": job["fails"]}))
    sys.exit(1)
if job.get("dies"):
    os.kill(os.getpid(), signal.SIGKILL)
(folder / "threads").write_text(os.environ["OMP_NUM_THREADS"])
with open(folder / "times", "a") as file:
    file.write(f"{time.monotonic()}\\n")
(folder / "result.json").write_text("{}")
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    monkeypatch.setattr(scheduler, "_COMMAND", (sys.executable, "-S", str(worker)))
    monkeypatch.setattr(scheduler, "_POLL", 0.02)
    return lambda name, **what: Job(name, None, tmp_path / "jobs" / name, what)


def go(*jobs):
    """Lets waiting jobs end."""
    for job in jobs:
        (job.folder / "go").touch()


@pytest.fixture
def meanwhile(monkeypatch):
    """Calls a function at every turn of the scheduler."""

    def each_turn(act):
        monkeypatch.setattr(scheduler, "sleep", lambda seconds: (time.sleep(seconds), act()))

    return each_turn


def times(job):
    """When each finished run of the job started and ended; stopped runs left no end."""
    lines = (job.folder / "times").read_text().splitlines()
    return [list(map(float, line.split()))[-2:] for line in lines]


def test_every_job_gets_a_result(make):
    jobs = [make(f"job{n}") for n in range(3)]
    run_jobs(jobs, 2)
    assert all(job.done and job.error is None for job in jobs)


def test_as_many_run_side_by_side_as_allowed(make, meanwhile):
    a, b, c = (make(f"job{n}", waits=n < 2) for n in range(3))
    third_started = []

    def both_at_work():
        if (a.folder / "stage").exists() and (b.folder / "stage").exists():
            third_started.append(c.folder.exists())
            go(a, b)

    meanwhile(both_at_work)
    run_jobs([a, b, c], 2)
    assert third_started[0] is False
    assert all(job.done for job in (a, b, c))


def test_a_finished_job_is_not_run_again_and_a_failed_one_is(make):
    done, failed = make("done"), make("failed", fails="no")
    run_jobs([done, failed], 1)
    again = [make("done"), make("failed")]
    run_jobs(again, 1)
    assert len(times(done)) == 1
    assert again[1].done
    assert again[1].error is None


def test_a_failing_job_keeps_its_reason_and_stops_nobody(make):
    jobs = [make("bad", fails="no clicks."), make("killed", dies=True), make("good")]
    run_jobs(jobs, 1)
    assert jobs[0].error == "no clicks."
    assert jobs[1].error.startswith("ended by signal 9; its last words are in")
    assert jobs[2].done


def test_a_job_that_was_killed_runs_again_at_the_end_alone(make, meanwhile):
    # As where memory runs out.
    large, slow = make("large", dies=True), make("slow", waits=True)
    meanwhile(lambda: (large.folder / "times").exists() and go(slow))
    run_jobs([large, slow], 2)
    _, second = map(float, (large.folder / "times").read_text().split())
    assert second > times(slow)[0][1]
    assert large.error.startswith("ended by signal 9")
    assert slow.done


def test_processes_share_the_cores(make, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(scheduler, "cores", lambda: 8)
    job = make("job")
    run_jobs([job], 2)
    assert (job.folder / "threads").read_text() == "4"


def test_an_interrupted_benchmark_leaves_no_process_behind(make, monkeypatch):
    started = []
    popen = scheduler.subprocess.Popen

    def remember(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(scheduler.subprocess, "Popen", remember)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(scheduler, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_jobs([make("slow", waits=True)], 1)
    assert started[0].poll() is not None


def test_progress_names_the_running_systems_and_what_they_are_at(make, meanwhile):
    out, job = io.StringIO(), make("job [red]", waits=True)
    console = Console(file=out, force_terminal=True, width=100)
    meanwhile(lambda: "at work" in out.getvalue() and go(job))
    run_jobs([job], 1, console)
    assert "job [red]" in out.getvalue()
    assert "at work" in out.getvalue()
    assert "1 of 1" in out.getvalue()


def test_a_log_file_is_told_what_runs_and_when(make, meanwhile, monkeypatch):
    monkeypatch.setattr(Progress, "PATIENCE", 0.1)
    monkeypatch.setattr(Progress, "_last_line", 0.0)
    out = io.StringIO()
    jobs = [make("bm25"), make("dssm [0]", waits=True)]
    meanwhile(lambda: jobs[1].folder.exists() and "\n" in out.getvalue() and go(jobs[1]))
    run_jobs(jobs, 1, Console(file=out, width=40))
    line, *_ = out.getvalue().splitlines()
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d benchmark: [01] of 2 systems, \d+:\d\d(, \d+:\d\d left)?; .*", line
    )


def test_a_stage_that_counts_fills_the_bar_and_others_make_it_pulse():
    stages = {
        "reading": (0, None),
        "training, 3 of 30 epochs": (3, 30),
        "fitting, step 7 of 7": (7, 7),
        "saving": (0, None),
        "tuning 1 of 2": (1, 2),
    }
    task = Task("job")
    for stage, expected in stages.items():
        scheduler._show(task, stage)
        assert (task.done, task.total) == expected
        assert stage in task.text()


def test_the_job_is_told_what_to_do(make):
    job = make("job", seconds=0)
    run_jobs([job], 1)
    assert json.loads((job.folder / "job.json").read_text()) == {"name": "job", "seconds": 0}

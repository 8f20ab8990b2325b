"""Parallel fits in separate processes, which may fail, be killed or be interrupted."""

import os
import subprocess
import sys
import time

import pytest

from dssm_tf.benchmark import benchmark
from dssm_tf.benchmark.benchmark import fit_all

# A replacement for `dssm_tf.benchmark.fit` that records its times and obeys the job's flags.
FIT = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
with open(folder / "times", "a") as file:
    file.write(f"{time.monotonic()} ")
while job.get("waits") and not (folder / "go").exists():
    time.sleep(0.01)
if job.get("fails"):
    sys.exit("a long traceback\\n" + job["fails"])
if job.get("dies"):
    os.kill(os.getpid(), signal.SIGKILL)
(folder / "threads").write_text(os.environ["OMP_NUM_THREADS"])
with open(folder / "times", "a") as file:
    file.write(f"{time.monotonic()}\\n")
(folder / "condensed.parquet").write_text("")
(folder / "run.parquet").write_text("")
"""


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """The started processes, which run the script instead of `dssm_tf.benchmark.fit`."""
    script, processes = tmp_path / "fit.py", []
    script.write_text(FIT)
    popen = subprocess.Popen

    def start(command, **options):
        processes.append(
            popen([sys.executable, "-S", str(script), *map(str, command[3:])], **options)
        )
        return processes[-1]

    monkeypatch.setattr(benchmark.subprocess, "Popen", start)
    return processes


def times(folder):
    return [float(text) for text in (folder / "times").read_text().split()]


def test_a_failed_fit_is_reported_with_its_reason_and_retried_and_other_fits_continue(
    processes, tmp_path
):
    bad, dead, good = (tmp_path / name for name in ("bad", "dead", "good"))
    errors = fit_all({bad: {"fails": "no clicks."}, dead: {"dies": 1}, good: {}}, 1)
    assert errors[bad] == "no clicks."
    assert errors[dead].startswith("ended by signal 9; its output is in")
    assert errors[good] == ""
    assert fit_all({bad: {}, good: {}}, 1) == {bad: "", good: ""}
    assert len(times(good)) == 2  # one start and one end: the second call skips it
    assert len(processes) == 4


def test_fits_run_in_parallel_up_to_the_limit_and_share_the_cores(processes, tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    folders = [tmp_path / name for name in "abc"]
    jobs = {folder: {"waits": folder.name != "c"} for folder in folders}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fit_all, jobs, 2)
        deadline = time.monotonic() + 120
        while not all((folder / "times").exists() for folder in folders[:2]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not folders[2].exists()
        for folder in folders:
            folder.mkdir(exist_ok=True)
            (folder / "go").touch()
        assert set(running.result().values()) == {""}
    assert (folders[2] / "threads").read_text() == "4"


def test_an_interrupted_benchmark_ends_its_processes(processes, tmp_path, monkeypatch):
    class InterruptingProgress:
        """Raises KeyboardInterrupt at the first finished fit, after the slow one has started."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            deadline = time.monotonic() + 120
            while not (tmp_path / "slow" / "times").exists() and time.monotonic() < deadline:
                time.sleep(0.02)

        def advance(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "progress_of", lambda *_, **__: InterruptingProgress())
    with pytest.raises(KeyboardInterrupt):
        fit_all({tmp_path / "quick": {}, tmp_path / "slow": {"waits": 1}}, 2)
    assert all(process.wait(timeout=60) is not None for process in processes)


def test_a_fit_ends_when_its_benchmark_ends(tmp_path):
    os.mkfifo(tmp_path / "job.json")  # without a writer, the fit waits forever
    command = [sys.executable, "-m", "dssm_tf.benchmark.fit", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as fit:
        fit.stdin.close()
        assert fit.wait(timeout=240) == 1

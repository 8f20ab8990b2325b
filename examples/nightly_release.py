r"""Releases a new model every night: learn the new clicks, compare with the live model, switch.

    python examples/nightly_release.py --log LOGS --corpus corpus.tsv --releases RELEASES
    python examples/nightly_release.py --releases RELEASES --rollback

`LOGS` has a file of clicks per day, with timestamps, such as 2026-11-27.tsv. Write a day's file
under a name that starts with a dot, and rename it when it is complete. A search server reads
`RELEASES/live`, a symbolic link:

    RELEASES/live -> 2026-11-28-01      the release in use
    RELEASES/2026-11-28-01/run          the model; the next night continues from it
    RELEASES/2026-11-28-01/index        or export, or compact, depending on --format
    RELEASES/2026-11-28-01/gate         the comparison with the model that was live before
    RELEASES/2026-11-28-01/release.json the log files that it has learned, and what it replaces
    RELEASES/unfinished                 files of the present night; kept after a failure

The steps of a night, each a command of dssm:

    1. split       hold out the latest of the new clicks
    2. preprocess  the other new clicks
    3. train       from the live model
    4. evaluate    the gate: stop if the new model is worse than the live one on held-out clicks
    5. preprocess  all new clicks
    6. train       from the live model, now with the held-out clicks
    7. index       or export
    8. switch      rename the release and point `live` to it

Until step 8, nothing that is in use changes. The exit code is 0 after a release, 3 if the model is
worse, and 1 if a step failed. Clicks that were not released are new clicks in the next night. The
first night has no live model, so it has steps 5 to 8 only.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

LIVE = "live"
UNFINISHED = "unfinished"
RELEASE_FILE = "release.json"
FORMATS = ("index", "export", "compact")

RunCommand = Callable[[Sequence[str]], int]
"""Runs a dssm command with the given arguments; returns its exit code."""


class ReleaseError(Exception):
    """The release stopped; the live release is unchanged.

    Attributes:
        exit_code: exit code of the failed step.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_dssm(arguments: Sequence[str]) -> int:
    """Runs a dssm command in a separate process, so that its memory is freed."""
    return subprocess.run([sys.executable, "-m", "dssm_tf.cli", *arguments]).returncode


def release(options: argparse.Namespace, run: RunCommand = run_dssm) -> Path:
    """Releases a model that has learned the new clicks; returns the directory of the release.

    Args:
        options: see `parse`.
        run: runs a dssm command.

    Raises:
        ReleaseError: there are no new clicks, or a step failed.
    """
    releases: Path = options.releases
    live = live_release(releases)
    learned = read_release(live)["log_files"] if live else []
    files = sorted(path for path in options.log.iterdir() if not path.name.startswith("."))
    new = [path for path in files if path.name not in learned]
    if not new:
        learned_by = f" that {live.name} has not learned" if live else ""
        raise ReleaseError(f"{options.log} has no file of clicks{learned_by}.")
    print(f"new clicks: {', '.join(path.name for path in new)}", flush=True)
    work = releases / UNFINISHED
    shutil.rmtree(work, ignore_errors=True)
    target = work / "release"
    target.mkdir(parents=True)
    corpus = ["--corpus", str(options.corpus)]
    columns = ["--columns", options.columns] if options.columns else []

    def step(*arguments: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} dssm {shlex.join(arguments)}", flush=True)
        if code := run(arguments):
            # A signal gives a negative code.
            raise ReleaseError(
                f"dssm {arguments[0]} failed, see above; {work} has its files", max(code, 1)
            )

    def learn(clicks: Sequence[Path], columns: Sequence[str], data: Path, model: Path) -> None:
        """Trains a model on clicks; continues from the live model if there is one."""
        start = ["--vocabulary-from", str(live / "run")] if live else []
        paths = [argument for path in clicks for argument in ("--input", str(path))]
        step("preprocess", *paths, *corpus, *columns, *start, "--output", str(data))
        start = ["--from", str(live / "run")] if live else []
        flags = shlex.split(options.train_flags)
        step("train", "--data", str(data), *start, *flags, "--out", str(model))

    if live:
        split = work / "split"
        paths = [argument for path in new for argument in ("--clicks", str(path))]
        fraction = ["--judge-later", str(options.judge_later)]
        step("data", "split", *paths, *corpus, *columns, *fraction, "--out", str(split))
        # The split has the usual column names.
        learn([split / "clicks.tsv"], [], work / "data_of_candidate", work / "candidate")
        step(
            "evaluate",
            *("--model", f"new={work / 'candidate'}", "--against", f"live={live / 'run'}"),
            *("--judgments", str(split / "judgments.tsv"), *corpus, "--baselines", ""),
            *("--fail-if-worse", options.metric, "--tolerance", str(options.tolerance)),
            *("--min-queries", str(options.min_queries), "--out", str(target / "gate")),
        )
    learn(new, columns, work / "data", target / "run")
    name = new_name(releases)
    model = ["--model", str(target / "run")]
    if options.format == "index":
        step("index", *model, *corpus, "--out", str(target / "index"))
    else:
        format = "saved_model" if options.format == "export" else options.format
        step("export", *model, "--format", format, "--out", str(target / options.format))
        number_versions(target / options.format, name)
    content = {
        "log_files": sorted({*learned, *(path.name for path in new)}),
        "replaces": live.name if live else None,
    }
    (target / RELEASE_FILE).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    target.rename(releases / name)
    switch(releases, name)
    shutil.rmtree(work, ignore_errors=True)  # otherwise the next release removes it
    remove_old(releases, options.keep)
    return releases / name


def new_name(releases: Path) -> str:
    """The name of a new release, such as 2026-11-28-01."""
    today = time.strftime("%Y-%m-%d")
    numbers = [int(path.name[-2:]) for path in releases.glob(f"{today}-[0-9][0-9]")]
    return f"{today}-{max(numbers, default=0) + 1:02}"


def number_versions(export: Path, name: str) -> None:
    """Names the version in an export after the release, such as 2026112801.

    TensorFlow Serving and `dssm serve` load a model again if the number of its version changes.
    """
    for version in export.glob("*/[0-9]*"):
        version.rename(version.with_name(name.replace("-", "")))


def switch(releases: Path, name: str) -> None:
    """Points `live` to a release. A reader sees the old release or the new one at any time."""
    link = releases / f".{LIVE}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.replace(releases / LIVE)
    print(f"{releases / LIVE} -> {name}", flush=True)


def rollback(releases: Path) -> None:
    """Switches back to the release that the live one replaced.

    Raises:
        ReleaseError: there is no such release.
    """
    live = live_release(releases)
    earlier = read_release(live)["replaces"] if live else None
    if not earlier or not (releases / earlier).is_dir():
        raise ReleaseError(f"{releases} has no release before {live.name if live else LIVE}.")
    switch(releases, earlier)


def live_release(releases: Path) -> Path | None:
    """The directory of the live release; None before the first one."""
    link = releases / LIVE
    return releases / os.readlink(link) if link.is_symlink() else None


def read_release(release: Path) -> dict[str, Any]:
    """The log files that a release has learned, and the name of the release that it replaces.

    Raises:
        ReleaseError: the file is missing or damaged.
    """
    path = release / RELEASE_FILE
    try:
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if not isinstance(content["log_files"], list):
            raise TypeError("log_files is not a list")
        if not isinstance(content["replaces"], str | None):
            raise TypeError("replaces is not a name")
        return content
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ReleaseError(f"{path} is missing or damaged ({error!r:.200})") from None


def remove_old(releases: Path, keep: int) -> None:
    """Removes all but the newest releases, the live one, and the one that it replaces."""
    live = live_release(releases)
    in_use = {live.name, read_release(live)["replaces"]} if live else set()
    names = sorted(path.parent.name for path in releases.glob(f"*/{RELEASE_FILE}"))
    for name in dict.fromkeys(names[:-keep]):
        if name not in {*in_use, LIVE}:
            shutil.rmtree(releases / name, ignore_errors=True)
            print(f"removed {name}", flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--releases", type=Path, required=True, help="directory of all releases")
    add("--rollback", action="store_true", help="switch to the release before the live one")
    add("--log", type=Path, help="directory with the files of clicks")
    add("--corpus", type=Path, help="table with doc_id, title")
    add("--columns", default="", help="names of the columns of the log, as for dssm preprocess")
    add(
        "--format", choices=FORMATS, default="index", help="form of the served model; default index"
    )
    add("--judge-later", type=float, default=0.3, help="fraction of the new clicks to hold out")
    add("--metric", default="ndcg@10", help="metric of the gate; default ndcg@10")
    add("--tolerance", type=float, default=0.005, help="loss that the gate accepts; default 0.005")
    add("--min-queries", type=int, default=100, help="queries that the gate needs; default 100")
    add("--keep", type=int, default=7, help="number of releases to keep; default 7")
    add("--train-flags", default="", help="further flags of dssm train, such as '--config dssm'")
    options = parser.parse_args(arguments)
    if not options.rollback and not (options.log and options.corpus):
        parser.error("--log and --corpus are required, or --rollback")
    if options.keep < 1:
        parser.error("--keep is a number of releases, at least 1")
    return options


def main(arguments: Sequence[str] | None = None, run: RunCommand = run_dssm) -> int:
    """Releases or rolls back; returns the exit code."""
    options = parse(arguments)
    lock = FileLock(options.releases / ".lock")
    try:
        options.releases.mkdir(parents=True, exist_ok=True)
        with lock.acquire(blocking=False):
            if options.rollback:
                rollback(options.releases)
            else:
                release(options, run)
    except Timeout:
        print(f"another process is releasing in {options.releases}.", file=sys.stderr)
        return 1
    except (ReleaseError, OSError) as error:
        print(f"no release: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, ReleaseError) else 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

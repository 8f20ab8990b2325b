"""`python -m pipelines.preprocess`, which is `dssm preprocess`; Beam is loaded when it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from dssm_tf.common.command_line import run as run_command
from dssm_tf.common.terminal import say
from pipelines.beam_log import load_beam, quiet_log
from pipelines.options import BeamFlags, PreprocessOptions


def preprocess(
    *beam_flags: BeamFlags,
    options: PreprocessOptions,
    runner: str = "DirectRunner",
) -> None:
    """Turn search click logs, a catalog of titles, or both into training records.

    Parses, cleans, sums clicks, splits by query, chooses the vocabulary of letter n-grams,
    draws negatives, turns words into ids of letter n-grams, shuffles and writes.

        dssm preprocess --input clicks.tsv --corpus corpus.tsv --output DATA
        dssm preprocess --corpus corpus.tsv --output DATA

    Flags that are not listed go to Beam, for example --direct_num_workers=2
    --direct_running_mode=multi_processing, or --runner=DataflowRunner --project=... --region=...
    --temp_location=gs://... --setup_file=./worker/setup.py. DSSM_DEBUG=1 shows Beam's log.

    Args:
        beam_flags: flags of Beam and of its runner.
        options: the settings.
        runner: any Beam runner.

    Raises:
        UserError: bad input or settings; no output is left.
    """
    load_beam()
    from pipelines.launcher import preprocess as run_preprocess

    started = time.monotonic()
    with quiet_log():
        report = run_preprocess(options, beam_flags, runner=runner)
    seconds = time.monotonic() - started
    count, unit = report["rows"]["in"], "rows"
    if not options.input:
        count, unit = report["counts"]["titles: in all"], "titles"
    summary_lines = [
        f"{count:,} {unit} in {seconds:.1f} s ({count / seconds:,.0f} per second)",
        *report["lines"],
        f"written to {options.output}; read {options.output.rstrip('/')}/report.html",
    ]
    say(*summary_lines, to=sys.stderr)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs preprocess with arguments of a command line.

    Args:
        argv: the arguments; those of the process when None.

    Returns:
        The exit code: 0 success, 1 failure with a one-line reason, 2 wrong usage.
    """
    return run_command("dssm preprocess", preprocess, argv)


if __name__ == "__main__":
    sys.exit(run())

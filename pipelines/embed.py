"""Encodes a corpus of any size: `python -m pipelines.embed --model MODEL --input C --output OUT`.

Does on any Beam runner what `dssm embed --out FILE.parquet` does on one machine: it writes Parquet
files with `id`, `text` and `vector`, for example for a search engine. Beam is imported when the
command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dssm_tf.common.command_line import run as run_command
from pipelines.beam_log import load_beam, quiet_log
from pipelines.options import BeamFlags, Several


def embed(
    *beam_flags: BeamFlags,
    model: str,
    input: Several,
    output: str,
    runner: str = "DirectRunner",
) -> None:
    """Encode a corpus of any size on any Beam runner, to Parquet files.

        python -m pipelines.embed --model EXPORT --input 'titles-*.tsv.gz' --output VECTORS

    Flags that are not listed go to Beam.

    Args:
        beam_flags: flags of Beam and of its runner.
        model: a run, or a directory that `dssm export` wrote, at a path that all workers can read,
            such as in their image; --format compact needs no TensorFlow.
        input: corpora with doc_id and title, or with the columns that make up the model's titles:
            .tsv .csv .jsonl (also .gz) or .parquet files, globs or directories.
        output: directory to write, such as gs://BUCKET/V.
        runner: any Beam runner.

    Raises:
        UserError: the input or a flag cannot be used; nothing is written.
    """
    load_beam()
    from pipelines.encode import encode_corpus

    with quiet_log():
        rows, dimension = encode_corpus(model, input, output, beam_flags, runner=runner)
    sys.stderr.write(f"{rows:,} vectors of length {dimension} written: {output}\n")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs embed with arguments of a command line; returns 0 success, 1 failure, 2 wrong usage."""
    return run_command("pipelines.embed", embed, argv)


if __name__ == "__main__":
    sys.exit(run())

"""Describes a log without a runner: the steps of the pipeline that read and sum, in one process."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam.pvalue import TaggedOutput

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.tally import Tally
from pipelines.aggregate import sum_queries, sum_titles
from pipelines.graph import unpacked_size
from pipelines.launcher import bucket_bits, check_robot_fraction, load_block_list, with_file_lines
from pipelines.log_statistics import LogStatistics
from pipelines.log_summary import summarize_log
from pipelines.options import PreprocessOptions
from pipelines.parse_log import CORPUS_TITLES, clean_sessions, parse_piece, read_corpus
from pipelines.previous import load_previous
from pipelines.shards import PipelineContext, Shard
from pipelines.sources import Piece, find_files, join_quoted_pieces, plan


def check_log(options: PreprocessOptions) -> tuple[dict[str, Any], list[str]]:
    """Describes a log as the report of preprocess does, and writes nothing.

    Args:
        options: the options of preprocess; `output` is not used.

    Returns:
        The result of `summarize_log`, and sentences that say why preprocess would refuse the log.

    Raises:
        UserError: bad input or settings.
    """
    ignore = options.ignore_other_files
    files, notes = find_files(options.input, "the log", ignore_others=ignore)
    corpus, more_notes = find_files(options.corpus, "--corpus", ignore_others=ignore)
    say(*notes, *more_notes, to=sys.stderr)
    previous = load_previous(options)
    context = PipelineContext(
        options, bucket_bits(unpacked_size([*files, *corpus]), options), "",
        block_list=load_block_list(options), previous=previous and previous.tables,
    )  # fmt: skip
    pieces = plan(files, options.layout)
    titles = plan(corpus, options.layout.corpus, CORPUS_TITLES)
    steps = _Steps()
    with progress_of("check", len(pieces) + len(titles), unit="pieces") as task:
        for piece in join_quoted_pieces(pieces):
            steps.add(parse_piece(piece, context), piece=piece)
            task.advance(piece.pieces)
        for piece in join_quoted_pieces(titles):
            steps.add(read_corpus(piece, context), main="titles")
            task.advance(piece.pieces)
    for group in steps.groups("sessions"):
        steps.add(clean_sessions(group, context))
    buckets = range(1 << context.bits)
    for group in steps.groups("main", buckets):
        steps.add(sum_queries(group, context), main="")
    for group in steps.groups("titles", buckets):
        steps.add(sum_titles(group, context), main="")
    tally = steps.tally(pieces)
    if options.input and not tally.rows:
        raise UserError(f"{' '.join(options.input)} holds no rows below the header.")
    log = summarize_log(steps.statistics, dict(steps.counts), tally, options, previous)
    return log, [*_refusals(log, steps.counts, tally, options)]


class _Steps:
    """Collects the outputs of the steps.

    Attributes:
        counts: counts of all steps.
        statistics: statistics of all steps.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.statistics = LogStatistics()
        self._shards: dict[str, dict[int, list[Shard]]] = defaultdict(lambda: defaultdict(list))
        self._rejects: list[tuple[int, list[Reject]]] = []

    def add(
        self, outputs: Iterator[Any], *, main: str = "main", piece: Piece | None = None
    ) -> None:
        """Adds the outputs of a step for one element.

        Args:
            outputs: outputs of the step.
            main: the name under which `groups` finds the main output; empty to leave it out.
            piece: the piece of the log that the step has read.
        """
        for output in outputs:
            tag, value = main, output
            if isinstance(output, TaggedOutput):
                tag, value = output.tag, output.value
            if tag == "counts":
                self.counts.update(value)
            elif tag == "statistics":
                self.statistics.merge(value)
            elif tag == "rejects" and piece is not None:
                self._rejects.append((piece.number, value))
            elif tag in ("main", "titles", "sessions"):
                bucket, shard = value
                self._shards[tag][bucket].append(shard)

    def groups(self, tag: str, buckets: Sequence[int] = ()) -> Iterator[tuple[int, list[Shard]]]:
        """Yields each bucket with its shards, and releases them.

        Args:
            tag: name of the output.
            buckets: the buckets, including empty ones; by default, all that are not empty.
        """
        shards = self._shards.pop(tag, {})
        for bucket in buckets or sorted(shards):
            yield bucket, shards.pop(bucket, [])

    def tally(self, pieces: Sequence[Piece]) -> Tally:
        """Counts the good and the malformed rows.

        Args:
            pieces: all pieces of the log.
        """
        tally = Tally()
        most_clicks = max(
            (count for name, count in self.counts.items() if name.startswith("most clicks ")),
            default=0,
        )
        tally.add(self.counts["rows: read"], self.counts["clicks: read"], most_clicks)
        for name, rows in with_file_lines(self.counts, pieces, self._rejects):
            tally.reject(name, rows)
        return tally


def _refusals(
    log: dict[str, Any], counts: Counter[str], tally: Tally, options: PreprocessOptions
) -> Iterator[str]:
    """Sentences that say why preprocess would refuse the log."""
    if not options.input:
        if not counts["titles: in all"]:
            yield "preprocess refuses this catalog: no title has a word."
        return
    try:
        tally.check_reject_fraction(options.max_reject_fraction)
        check_robot_fraction(counts, options)
    except UserError as error:
        yield f"preprocess refuses this log: {error}"
    if not log["queries"]["number"]:
        yield "preprocess refuses this log: no row is left to learn from."

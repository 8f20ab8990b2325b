"""What `pipelines.preprocess` can be told, checked once, at the door."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from dssm_tf.common.errors import UserError
from dssm_tf.text.vocabulary import TextLimits

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)
NEGATIVE_SOURCES = ("log", "impressions", "both")


@dataclass(frozen=True)
class PreprocessOptions:
    """The settings that the output depends on; the flags' help says what each does."""

    input: tuple[str, ...]
    output: str
    corpus: tuple[str, ...] = ()
    negatives: int = 4
    negative_alpha: float = 0.75
    negatives_from: str = "log"
    negative_pool: int = 200_000
    validation_fraction: float = 0.1
    test_fraction: float = 0.0
    seed: int = 0
    min_clicks: int = 1
    block_list: str = ""
    max_queries_per_session: int = 100
    max_clicks_per_session: int = 500
    vocabulary_size: int = 30_000
    min_ngram_count: int = 1
    limits: TextLimits = field(default_factory=TextLimits)
    shards: int = 0
    buckets: int = 0
    max_reject_fraction: float = 0.1
    overwrite: bool = False

    def __post_init__(self) -> None:
        _at_least("negatives", self.negatives, 0)
        _at_least("negative_alpha", self.negative_alpha, 0)
        _at_least("negative_pool", self.negative_pool, 1)
        _at_least("min_clicks", self.min_clicks, 1)
        _at_least("max_queries_per_session", self.max_queries_per_session, 0)
        _at_least("max_clicks_per_session", self.max_clicks_per_session, 0)
        _at_least("vocabulary_size", self.vocabulary_size, 1)
        _at_least("min_ngram_count", self.min_ngram_count, 1)
        _at_least("hash_buckets", self.limits.hash_buckets, 0)
        _at_least("max_words", self.limits.max_words, 1)
        _at_least("max_letters", self.limits.max_letters, 1)
        _at_least("shards", self.shards, 0)
        _at_least("buckets", self.buckets, 0)
        for name in ("validation_fraction", "test_fraction", "max_reject_fraction"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UserError(f"--{name} is {value}; expected a fraction from 0 to 1.")
        held_out = self.validation_fraction + self.test_fraction
        if held_out >= 1:
            raise UserError(
                f"--validation_fraction and --test_fraction add up to {held_out:g}; "
                "less than 1 leaves something to train on."
            )
        if self.negatives_from not in NEGATIVE_SOURCES:
            raise UserError(
                f"--negatives_from is {self.negatives_from!r}; "
                f"expected one of {', '.join(NEGATIVE_SOURCES)}."
            )


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:  # also false for NaN
        raise UserError(f"--{name} is {value}; expected {least} or more.")


def parse(argv: Sequence[str] | None) -> tuple[PreprocessOptions, argparse.Namespace, list[str]]:
    """Splits the command line into our settings, how to run, and Beam's own flags."""
    namespace, beam_flags = parser().parse_known_args(argv)
    values = vars(namespace).copy()
    limits = TextLimits(
        *(values.pop(name) for name in ("max_words", "max_letters", "hash_buckets"))
    )
    run_flags = argparse.Namespace(**{name: values.pop(name) for name in ("runner", "verbose")})
    for name in ("input", "corpus"):
        values[name] = tuple(values.get(name, ()))
    try:
        options = PreprocessOptions(limits=limits, **values)
    except UserError as error:
        parser().error(str(error))
    return options, run_flags, beam_flags


def parser() -> argparse.ArgumentParser:
    """The command line of `python -m pipelines.preprocess`."""
    default = PreprocessOptions(("",), "")
    p = argparse.ArgumentParser(
        prog="python -m pipelines.preprocess",
        description=(
            "Turns search click logs into training records: parse, clean, sum clicks, split by "
            "query, choose the letter-trigram vocabulary, draw negatives, hash, shuffle, write."
        ),
        epilog=(
            "Flags that are not listed go to Beam, for example --direct_num_workers=2 "
            "--direct_running_mode=multi_processing, or --runner=DataflowRunner --project=... "
            "--region=... --temp_location=gs://... --setup_file=./setup.py. "
            "Exit codes: 0 done, 1 failed with a one-line reason, 2 wrong usage."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    files = p.add_argument_group("files")
    files.add_argument(
        "--input",
        required=True,
        nargs="+",
        default=argparse.SUPPRESS,
        help="click logs: .tsv .csv .jsonl (also .gz) or .parquet files, globs or directories; "
        "columns query, title and optionally clicks, impressions, session_id, doc_id, "
        "timestamp, position",
    )
    files.add_argument(
        "--output",
        required=True,
        default=argparse.SUPPRESS,
        help="directory to write; local or of any Beam file system, such as gs://",
    )
    files.add_argument(
        "--corpus",
        nargs="+",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="titles that may be ranked, clicked or not: files as of --input with a column title, "
        "every row whole; trigrams of those that nobody clicked are known too, and "
        "training.title_queries learns them; none if not given",
    )
    files.add_argument("--overwrite", action="store_true", help="replace an existing output")
    files.add_argument(
        "--shards", type=int, default=0, help="training files to write; 0: by the size of the input"
    )
    files.add_argument(
        "--max_reject_fraction",
        type=float,
        default=default.max_reject_fraction,
        help="fail when more than this share of the rows is malformed",
    )

    clean = p.add_argument_group("cleaning")
    clean.add_argument(
        "--min_clicks", type=int, default=1, help="drop (query, title) pairs with fewer clicks"
    )
    clean.add_argument(
        "--block_list",
        default="",
        metavar="FILE",
        help="one entry a line: a word drops every query that holds it, several words or "
        "=word drop the query that equals them; # starts a comment",
    )
    clean.add_argument(
        "--max_queries_per_session",
        type=int,
        default=default.max_queries_per_session,
        help="drop sessions with more distinct queries (bots); 0: keep all",
    )
    clean.add_argument(
        "--max_clicks_per_session",
        type=int,
        default=default.max_clicks_per_session,
        help="drop sessions with more clicks (spam); 0: keep all",
    )

    text = p.add_argument_group("text")
    text.add_argument(
        "--vocabulary_size",
        type=int,
        default=default.vocabulary_size,
        help="most letter trigrams kept, by frequency in the training part and in the corpus's "
        "titles without a click there",
    )
    text.add_argument(
        "--min_ngram_count",
        type=int,
        default=default.min_ngram_count,
        help="drop rarer letter trigrams",
    )
    text.add_argument(
        "--hash_buckets",
        type=int,
        default=default.limits.hash_buckets,
        help="ids shared by trigrams not in the vocabulary; 0: they are dropped",
    )
    text.add_argument(
        "--max_words", type=int, default=default.limits.max_words, help="words read of a text"
    )
    text.add_argument(
        "--max_letters", type=int, default=default.limits.max_letters, help="letters read of a word"
    )

    train = p.add_argument_group("split and negatives")
    train.add_argument(
        "--validation_fraction",
        type=float,
        default=default.validation_fraction,
        help="share of the queries held out for validation",
    )
    train.add_argument(
        "--test_fraction",
        type=float,
        default=default.test_fraction,
        help="share of the queries written as a test part",
    )
    train.add_argument(
        "--negatives",
        type=int,
        default=default.negatives,
        help="titles not clicked for the query, recorded with each pair",
    )
    train.add_argument(
        "--negative_alpha",
        type=float,
        default=default.negative_alpha,
        help="draw titles in proportion to clicks ** this; 0: all alike",
    )
    train.add_argument(
        "--negatives_from",
        choices=NEGATIVE_SOURCES,
        default=default.negatives_from,
        help="titles of the log; titles shown for the query and not clicked (rows with "
        "clicks 0 and impressions above 0); or those first and then the log's",
    )
    train.add_argument(
        "--negative_pool",
        type=int,
        default=default.negative_pool,
        help="titles a worker draws from; a larger log is sampled by clicks",
    )
    train.add_argument(
        "--seed", type=int, default=default.seed, help="same input and seed: same output"
    )

    run = p.add_argument_group("running")
    run.add_argument("--runner", default="DirectRunner", help="any Beam runner")
    run.add_argument(
        "--buckets",
        type=int,
        default=0,
        help="pieces the log is grouped in, one in memory at a time; 0: by size",
    )
    run.add_argument("--verbose", action="store_true", help="show Beam's log")
    return p

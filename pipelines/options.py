"""What `pipelines.preprocess` can be told, checked once, at the door: each setting is one line."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from dssm_tf.common.command_line import Parser
from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.tally import MAX_REJECTED
from dssm_tf.text.fields import MOST_OWN_FIELDS, parse_fields
from dssm_tf.text.rules import Rules

TRAIN, VALIDATION = "train", "validation"
NONE = "none"
"""Of `--position-weights`; its other values are those of `dssm_tf.positions.estimation`."""
SPLITS = (TRAIN, VALIDATION)
_NEGATIVE_SOURCES = ("log", "impressions", "both")
FILES, CLEANING, TEXT, TRAINING = (
    "files",
    "cleaning",
    "text",
    "split and negatives",
)
"""How `--help` groups the flags."""


def _flag(
    group: str,
    default: Any,
    help: str,
    *,
    least: float = 0,
    most: float = inf,
    **argument: Any,
) -> Any:
    """A setting that is a flag of the command line, too.

    Args:
        group: that `--help` lists it in.
        default: value, whose type is the flag's; None if it must be given.
        help: what it does.
        least: the smallest number accepted.
        most: the largest.
        **argument: of argparse.
    """
    if default in (None, (), ""):  # which says nothing in the help
        argument["default"] = argparse.SUPPRESS
    elif default is not False:
        argument |= {"type": type(default), "default": default}
    return dataclasses.field(
        **({} if default is None else {"default": default}),
        metadata={"group": group, "range": (least, most), "argument": {**argument, "help": help}},
    )


@dataclass(frozen=True)
class PreprocessOptions:
    """The settings that the output depends on."""

    input: tuple[str, ...] = _flag(
        FILES,
        None,
        "click logs: .tsv .csv .jsonl (also .gz) or .parquet files, globs or directories; columns "
        "query, title and optionally clicks, impressions, session_id, doc_id, timestamp, and "
        "position, which --position-weights reads",
        nargs="+",
        required=True,
    )
    output: str = _flag(
        FILES,
        None,
        "directory to write; local or of any Beam file system, such as gs://",
        required=True,
    )
    corpus: tuple[str, ...] = _flag(
        FILES,
        (),
        "titles that may be ranked, clicked or not: files as of --input with a column title, every "
        "row whole; trigrams of those that nobody clicked are known too, and "
        "training.title_queries learns them; none if not given",
        nargs="+",
        metavar="FILE",
    )
    overwrite: bool = _flag(
        FILES, False, "replace an earlier output of preprocess", action="store_true"
    )
    shards: int = _flag(
        FILES,
        0,
        "files of each kind to write, a power of two: the log is grouped in as many pieces, of "
        "which a worker holds one at a time; 0: by the size of the input",
        most=1 << 17,
    )
    max_reject_fraction: float = _flag(
        FILES, MAX_REJECTED, "fail when more of the rows, or of the clicks, is malformed", most=1
    )
    encoding: str = _flag(FILES, "utf-8", "of the text of --input and --corpus, such as cp1252")
    thousands: str = _flag(
        FILES,
        "",
        "sign between the thousands of clicks and impressions, such as , in 67,998",
        metavar="SIGN",
    )

    title_fields: str = _flag(
        FILES,
        "title",
        "columns that a title is made of, with commas between, such as title,brand,category; both "
        "--input and --corpus have them. A title is then one text, Halo␟Microsoft␟Games",
        metavar="COLUMNS",
    )

    min_clicks: int = _flag(CLEANING, 1, "drop (query, title) pairs with fewer clicks", least=1)
    block_list: str = _flag(
        CLEANING,
        "",
        "one entry a line: a word drops every query that holds it, several words or =word drop "
        "the query that equals them; # starts a comment",
        metavar="FILE",
    )
    max_queries_per_session: int = _flag(
        CLEANING, 100, "drop sessions with more distinct queries (bots); 0: keep all"
    )
    max_clicks_per_session: int = _flag(
        CLEANING, 500, "drop sessions with more clicks (spam); 0: keep all"
    )

    vocabulary_size: int = _flag(
        TEXT,
        30_000,
        "most letter trigrams kept, by frequency in the training part and in the corpus's titles "
        "without a click there",
        least=1,
    )
    vocabulary_from: str = _flag(
        TEXT,
        "",
        "a run or an earlier output of preprocess: its letter trigrams keep their ids and new ones "
        "follow, so that `dssm train --from` can go on from the run; the flags of texts must be "
        "those it was made with",
        metavar="DIR",
    )
    min_ngram_count: int = _flag(TEXT, 1, "drop rarer letter trigrams")
    hash_buckets: int = _flag(
        TEXT,
        Rules.hash_buckets,
        "ids shared by trigrams not in the vocabulary; 0: they are dropped",
    )
    keep_accents: bool = _flag(
        TEXT,
        False,
        "tell words apart that differ in accents alone, such as pâté and pate; else leixoes finds "
        "leixões",
        action="store_true",
    )
    max_words: int = _flag(TEXT, Rules.max_words, "words read of a text", least=1)
    max_letters: int = _flag(TEXT, Rules.max_letters, "letters read of a word", least=1)

    field_rows: str = _flag(
        TEXT,
        "shared",
        "own: the trigrams of a title's further fields are told apart from those of queries and of "
        "the first field; shared: a trigram is the same in every field",
        choices=("shared", "own"),
    )

    validation_fraction: float = _flag(
        TRAINING, 0.1, "share of the queries held out for validation", most=1
    )
    negatives: int = _flag(
        TRAINING, 4, "titles not clicked for the query, recorded with each pair", most=1000
    )
    negative_alpha: float = _flag(
        TRAINING, 0.75, "draw titles in proportion to clicks ** this; 0: all alike", most=10
    )
    negatives_from: str = _flag(
        TRAINING,
        "log",
        "titles of the log; titles shown for the query and not clicked (rows with clicks 0 and "
        "impressions above 0); or those first and then the log's",
        choices=_NEGATIVE_SOURCES,
    )
    negative_pool: int = _flag(
        TRAINING,
        200_000,
        "titles a worker draws from; a larger log is sampled by clicks",
        least=1,
    )
    position_weights: str = _flag(
        TRAINING,
        NONE,
        "weight a click by how seldom its position is looked at: none; harvesting: estimated from "
        "titles shown at several positions for one query, with the columns position and "
        "impressions; or a file with position and propensity. Give training.click_weight=linear to "
        "train with such weights",
        metavar="none|harvesting|FILE",
    )
    max_position_weight: float = _flag(
        TRAINING, 10.0, "clip the weights of --position-weights", least=1, most=1000
    )
    seed: int = _flag(TRAINING, 0, "same input and seed: same output", least=-inf)

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            value, (least, most) = getattr(self, one.name), one.metadata["range"]
            if isinstance(value, (int, float)) and not least <= value <= most:  # NaN neither
                upto = "or more" if most == inf else f"to {most:,}"
                raise UserError(f"{flag(one.name)} is {value}; expected {least} {upto}.")
            choices = one.metadata["argument"].get("choices", (value,))
            if value not in choices:
                raise UserError(
                    f"{flag(one.name)} is {value!r}; expected one of {', '.join(choices)}."
                )
        if self.max_position_weight != 10 and self.position_weights == NONE:
            raise UserError(
                "--max-position-weight clips the weights of --position-weights, which is not given."
            )
        if self.validation_fraction == 1:
            raise UserError("--validation-fraction is 1; less leaves something to train on.")
        if self.shards & (self.shards - 1):
            raise UserError(f"--shards is {self.shards}; expected a power of two, such as 16.")
        _ = self.layout
        if self.field_rows == "own" and not 1 < len(self.fields) <= MOST_OWN_FIELDS:
            raise UserError(
                f"--field-rows own is for 2 to {MOST_OWN_FIELDS} fields; --title-fields names "
                f"{len(self.fields)}."
            )

    @property
    def layout(self) -> Layout:
        """What the names of the files do not say."""
        return Layout(self.encoding, thousands=self.thousands, title_fields=self.fields)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that a title is made of."""
        return parse_fields(self.title_fields)

    @property
    def rules(self) -> Rules:
        """How texts are read."""
        own = len(self.fields) if self.field_rows == "own" else 1
        return Rules(self.keep_accents, self.max_words, self.max_letters, self.hash_buckets, own)


@dataclass(frozen=True)
class Job:
    """A pipeline run: what is read, by what settings, on which runner."""

    options: PreprocessOptions
    runner: str = "DirectRunner"
    verbose: bool = False
    beam_flags: Sequence[str] = ()


def parse(argv: Sequence[str] | None) -> Job:
    """What a command line asks for; flags that are not ours are Beam's."""
    namespace, beam_flags = parser().parse_known_args(argv)
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(namespace).items()
    }
    runner, verbose = given.pop("runner"), given.pop("verbose")
    try:
        return Job(PreprocessOptions(**given), runner, verbose, beam_flags)
    except UserError as error:
        parser().error(str(error))


def flag(name: str) -> str:
    """The flag of a setting.

    >>> flag("min_clicks")
    '--min-clicks'
    """
    return f"--{name.replace('_', '-')}"


def parser() -> Parser:
    """The command line of `dssm preprocess`, which `python -m pipelines.preprocess` has, too."""
    p = Parser(
        prog="dssm preprocess",
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
        passes_on=True,
    )
    groups: dict[str, Any] = {}
    for one in dataclasses.fields(PreprocessOptions):
        name = one.metadata["group"]
        group = groups.get(name) or groups.setdefault(name, p.add_argument_group(name))
        group.add_argument(flag(one.name), **one.metadata["argument"])
    running = p.add_argument_group("running")
    running.add_argument("--runner", default="DirectRunner", help="any Beam runner")
    running.add_argument("--verbose", action="store_true", help="show Beam's log")
    return p

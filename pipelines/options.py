"""Options of `dssm preprocess`, validated when the command starts."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field
from pydantic.dataclasses import dataclass

from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import Float, Fraction, Int
from dssm_tf.data.format import MAX_NEGATIVES
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.tally import MAX_REJECTED
from dssm_tf.text.fields import MAX_OWN_FIELDS, parse_fields
from dssm_tf.text.rules import NGRAM_KINDS, NgramKind, TextRules, ordered_kinds

TRAIN, VALIDATION = "train", "validation"
NONE = "none"
"""Value of `--position-weights` for no weights; see also `estimation.HARVESTING`."""
SPLITS = (TRAIN, VALIDATION)

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
"""Several values after one flag."""
BeamFlags = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""Flags that are passed on to Beam and its runner."""
# Not those of `field_types`: Python's callers may pass integers of NumPy.
NonNegativeInt = Annotated[Int, Field(ge=0)]
PositiveInt = Annotated[Int, Field(ge=1)]


def check_path(path: object) -> None:
    """Raises UserError if a path is not a string, or is a URL with one slash, as pathlib writes it.

    `Path("gs://b/x")` would be the local path `gs:/b/x`.
    """
    if not isinstance(path, str) or re.match("[A-Za-z][A-Za-z0-9+.-]+:/(?!/)", path):
        raise UserError(
            f"{path!r:.200} is not a path as text, such as 'data' or 'gs://BUCKET/data'; pathlib "
            "changes gs:// to gs:/."
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PreprocessOptions:
    """Settings of `dssm preprocess`.

    Attributes:
        output: directory to write; local or of any Beam file system, such as gs://.
        input: click logs: .tsv .csv .jsonl .ndjson (also .gz) or .parquet files, globs or
            directories; columns query, title and optionally clicks, impressions, session_id,
            doc_id, timestamp, and position, which --position-weights reads. Without --input,
            training learns from the titles of --corpus alone.
        corpus: titles to rank, clicked or not: files as for --input with a column title; rows
            without a title are counted and left out; training.title_queries trains on titles
            without clicks.
        overwrite: replace an earlier output of preprocess; local ones only.
        shards: number of files of each kind, rounded up to a power of two, and of buckets that the
            log is divided into; a worker has one bucket in memory at a time; 0: by the size of the
            input.
        ignore_other_files: ignore files of other formats and subdirectories in directories of
            --input and --corpus.
        max_reject_fraction: fail if a larger fraction of the rows, or of the clicks, is malformed.
        encoding: encoding of --input, --corpus and --block-list, such as cp1252.
        columns: names of the columns in the files, such as query=search_term,title=product_title.
        corpus_columns: names of the columns in --corpus, such as title=name; by default those of
            --columns.
        title_fields: columns that make up a title, separated by commas, such as
            title,brand,category, in both --input and --corpus. A title is then one text,
            Halo␟Microsoft␟Games.
        min_clicks: drop (query, title) pairs with fewer clicks.
        block_list: file with one entry per line: a word drops every query that contains it,
            several words or =word drop the query that equals them; # starts a comment.
        max_queries_per_session: drop sessions with more distinct queries (robots); 0: keep all.
        max_clicks_per_session: drop sessions with more clicks (robots); 0: keep all.
        max_robot_fraction: fail if these two limits drop a larger fraction of the rows, or
            of the clicks.
        letter_ngrams: kinds of letter n-grams of each word, separated by commas; a model uses those
            that its configuration names; by default those of --vocabulary-from, or without it
            pairs,trigrams,sorted_trigrams.
        vocabulary_size: maximum number of letter n-grams of each kind, chosen by frequency in the
            training split and in titles without clicks there.
        vocabulary_from: a run or an earlier output of preprocess: its letter n-grams keep their ids
            and new ones follow, as `dssm train --from` needs; flags about texts must be unchanged.
        min_ngram_count: drop rarer letter n-grams.
        hash_buckets: ids shared by letter n-grams not in the vocabulary; 0: they are dropped.
        keep_accents: distinguish words that differ only in accents, such as pâté and pate; by
            default leixoes finds leixões.
        max_words: maximum words per text; further words are ignored.
        max_letters: maximum letters per word; further letters are ignored.
        field_rows: own: letter n-grams of a title's further fields have rows of their own; shared:
            they are the same in every field.
        validation_fraction: fraction of the queries held out for validation.
        negatives: unclicked titles to record with each pair.
        negative_alpha: draw titles in proportion to clicks ** this; 0: with equal probability.
        negatives_from: log: all titles of the log; impressions: titles displayed for the query and
            not clicked (rows with clicks 0 and impressions above 0); both: impressions first, then
            the log.
        previous_report: an earlier output of preprocess: the report compares this log with it, such
            as the fraction of new queries.
        report_min_sessions: the report shows a query only if it was clicked in at least as many
            distinct sessions; a click without a session_id counts as a session.
        position_weights: weight clicks by the inverse examination probability of their position:
            none; harvesting: estimated from titles displayed at several positions for one query,
            with the columns position and impressions; or a file with position and propensity. Set
            training.click_weight=linear to train with such weights.
        max_position_weight: maximum weight of --position-weights; larger ones are clipped.
        seed: seed of the split and the negatives; the same input and seed give the same output.
    """

    output: str
    input: Several = ()
    corpus: Several = ()
    overwrite: bool = False
    shards: Annotated[Int, Field(ge=0, le=1 << 17)] = 0
    max_reject_fraction: Fraction = MAX_REJECTED
    ignore_other_files: bool = False
    encoding: str = "utf-8"
    columns: str = ""
    corpus_columns: str = ""
    title_fields: str = "title"

    min_clicks: PositiveInt = 1
    block_list: str = ""
    max_queries_per_session: NonNegativeInt = 100
    max_clicks_per_session: NonNegativeInt = 500
    max_robot_fraction: Fraction = 0.5

    letter_ngrams: str = ""
    vocabulary_size: PositiveInt = 30_000
    vocabulary_from: str = ""
    min_ngram_count: NonNegativeInt = 1
    hash_buckets: NonNegativeInt = TextRules.hash_buckets
    keep_accents: bool = False
    max_words: PositiveInt = TextRules.max_words
    max_letters: PositiveInt = TextRules.max_letters
    field_rows: Literal["shared", "own"] = "shared"

    validation_fraction: Annotated[Float, Field(ge=0, lt=1)] = 0.1
    negatives: Annotated[Int, Field(ge=0, le=MAX_NEGATIVES)] = 4
    negative_alpha: Annotated[Float, Field(ge=0, le=10)] = 0.75
    negatives_from: Literal["log", "impressions", "both"] = "log"
    previous_report: str = ""
    report_min_sessions: PositiveInt = 10
    position_weights: str = NONE
    max_position_weight: Annotated[Float, Field(ge=1, le=1000)] = 10.0
    seed: Int = 0

    def __post_init__(self) -> None:
        for path in (self.output, *self.input, *self.corpus):
            check_path(path)
        if not (self.input or self.corpus):
            raise UserError(
                "there is nothing to read; give --input, a click log, or --corpus, a table of "
                "titles, or both."
            )
        if not self.input and self.position_weights != NONE:
            raise UserError(
                f"--position-weights {self.position_weights}: without --input there are no clicks "
                "to weight; leave out the flag, or give --input."
            )
        if self.field_rows == "own" and not 1 < len(self.fields) <= MAX_OWN_FIELDS:
            raise UserError(
                f"--field-rows own is for 2 to {MAX_OWN_FIELDS} fields; --title-fields names "
                f"{len(self.fields)}."
            )
        _ = self.kinds

    @property
    def layout(self) -> Layout:
        """Encoding and columns of the input files."""
        columns = parse_columns(self.columns)
        corpus_columns = parse_columns(self.corpus_columns, "--corpus-columns")
        return Layout(self.encoding, self.fields, columns, corpus_columns).of_log(self.corpus)

    @property
    def draws_from_impressions(self) -> bool:
        """Whether negatives are titles that were displayed for the query and not clicked."""
        return self.negatives_from != "log"

    @property
    def draws_from_log(self) -> bool:
        """Whether negatives are titles of the whole log; with both, after the displayed ones."""
        return self.negatives_from != "impressions"

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that make up a title."""
        return parse_fields(self.title_fields)

    @property
    def kinds(self) -> tuple[NgramKind, ...]:
        """The kinds of letter n-grams; all kinds if `letter_ngrams` is empty."""
        if not self.letter_ngrams:
            return NGRAM_KINDS
        try:
            return ordered_kinds([name.strip() for name in self.letter_ngrams.split(",")])
        except ValueError:
            raise UserError(
                f"--letter-ngrams is {self.letter_ngrams!r}; expected one or more of "
                f"{', '.join(NGRAM_KINDS)}, separated by commas, each once."
            ) from None

    @property
    def rules(self) -> TextRules:
        """Rules by which texts become words and letter n-grams."""
        return TextRules(
            keep_accents=self.keep_accents,
            max_words=self.max_words,
            max_letters=self.max_letters,
            hash_buckets=self.hash_buckets,
            own_fields=len(self.fields) if self.field_rows == "own" else 1,
            letter_ngrams=self.kinds,
        )


FLAGS = [f"--{field.name.replace('_', '-')}" for field in fields(PreprocessOptions)]
"""Flags of `PreprocessOptions`."""

"""What `dssm preprocess` can be told, checked once, at the door: each setting is one line."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field
from pydantic.dataclasses import dataclass

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.tally import MAX_REJECTED
from dssm_tf.text.fields import MOST_OWN_FIELDS, parse_fields
from dssm_tf.text.rules import Rules

TRAIN, VALIDATION = "train", "validation"
NONE = "none"
"""Of `--position-weights`; its other values are those of `dssm_tf.positions.estimation`."""
SPLITS = (TRAIN, VALIDATION)

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
"""Values behind one flag."""
BeamFlags = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""What is not a flag of ours."""
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


@Parameter(name="*")
@dataclass(frozen=True)
class PreprocessOptions:
    """The settings that the output depends on.

    Attributes:
        input: click logs: .tsv .csv .jsonl .ndjson (also .gz) or .parquet files, globs or
            directories; columns query, title and optionally clicks, impressions, session_id,
            doc_id, timestamp, and position, which --position-weights reads.
        output: directory to write; local or of any Beam file system, such as gs://.
        corpus: titles that can be found, clicked or not: files as for --input with a column title;
            rows without a title are counted and left out; training.title_queries learns those that
            nobody clicked.
        overwrite: replace an earlier output of preprocess; local ones only.
        shards: files of each kind to write, rounded up to a power of two: the log is grouped into
            as many pieces, and a worker holds one at a time; 0: by the size of the input.
        ignore_other_files: leave out what else directories of --input and --corpus hold: files of
            other formats and subdirectories.
        max_reject_fraction: fail if a larger share of the rows, or of the clicks, is malformed.
        encoding: encoding of --input, --corpus and --block-list, such as cp1252.
        columns: what the files call their columns, such as query=search_term,title=product_title.
        corpus_columns: what --corpus calls its columns, such as title=name; by default as --columns
            says.
        title_fields: columns that make up a title, separated by commas, such as
            title,brand,category, in both --input and --corpus. A title is then one text,
            Halo␟Microsoft␟Games.
        min_clicks: drop (query, title) pairs with fewer clicks.
        block_list: file with one entry per line: a word drops every query that contains it,
            several words or =word drop the query that equals them; # starts a comment.
        max_queries_per_session: drop sessions with more distinct queries (bots); 0: keep all.
        max_clicks_per_session: drop sessions with more clicks (spam); 0: keep all.
        max_robot_fraction: fail if these two limits drop a larger share of the rows, or of the
            clicks.
        vocabulary_size: letter trigrams to keep at most, by frequency in the training part and in
            titles that were not clicked there.
        vocabulary_from: a run or an earlier output of preprocess: its letter trigrams keep their
            ids and new ones follow, as `dssm train --from` needs; flags about texts must be the
            same as then.
        min_ngram_count: drop rarer letter trigrams.
        hash_buckets: ids shared by trigrams not in the vocabulary; 0: they are dropped.
        keep_accents: distinguish words that differ only in accents, such as pâté and pate; by
            default leixoes finds leixões.
        max_words: words of a text that are read.
        max_letters: letters of a word that are read.
        field_rows: own: trigrams of a title's further fields have rows of their own; shared: a
            trigram is the same in every field.
        validation_fraction: share of the queries held out for validation.
        negatives: unclicked titles to record with each pair.
        negative_alpha: draw titles in proportion to clicks ** this; 0: all alike.
        negatives_from: titles of the log; titles shown for the query and not clicked (rows with
            clicks 0 and impressions above 0); or those first and then the log's.
        position_weights: weight clicks by how rarely their position is looked at: none; harvesting:
            estimated from titles shown at several positions for one query, with the columns
            position and impressions; or a file with position and propensity. Give
            training.click_weight=linear to train with such weights.
        max_position_weight: clip the weights of --position-weights.
        seed: same input and seed: same output.
    """

    input: Several
    output: str
    corpus: Several = ()
    overwrite: bool = False
    shards: Annotated[int, Field(ge=0, le=1 << 17)] = 0
    max_reject_fraction: Annotated[float, Field(ge=0, le=1)] = MAX_REJECTED
    ignore_other_files: bool = False
    encoding: str = "utf-8"
    columns: str = ""
    corpus_columns: str = ""
    title_fields: str = "title"

    min_clicks: Positive = 1
    block_list: str = ""
    max_queries_per_session: Natural = 100
    max_clicks_per_session: Natural = 500
    max_robot_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5

    vocabulary_size: Positive = 30_000
    vocabulary_from: str = ""
    min_ngram_count: Natural = 1
    hash_buckets: Natural = Rules.hash_buckets
    keep_accents: bool = False
    max_words: Positive = Rules.max_words
    max_letters: Positive = Rules.max_letters
    field_rows: Literal["shared", "own"] = "shared"

    validation_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    negatives: Annotated[int, Field(ge=0, le=1000)] = 4
    negative_alpha: Annotated[float, Field(ge=0, le=10)] = 0.75
    negatives_from: Literal["log", "impressions", "both"] = "log"
    position_weights: str = NONE
    max_position_weight: Annotated[float, Field(ge=1, le=1000)] = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.field_rows == "own" and not 1 < len(self.fields) <= MOST_OWN_FIELDS:
            raise UserError(
                f"--field-rows own is for 2 to {MOST_OWN_FIELDS} fields; --title-fields names "
                f"{len(self.fields)}."
            )

    @property
    def layout(self) -> Layout:
        """What the names of the files do not say."""
        columns = parse_columns(self.columns)
        corpus_columns = parse_columns(self.corpus_columns, "--corpus-columns")
        return Layout(self.encoding, self.fields, columns, corpus_columns)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that a title is made of."""
        return parse_fields(self.title_fields)

    @property
    def rules(self) -> Rules:
        """How texts are read."""
        own = len(self.fields) if self.field_rows == "own" else 1
        return Rules(self.keep_accents, self.max_words, self.max_letters, self.hash_buckets, own)


FLAGS = [f"--{one.name.replace('_', '-')}" for one in fields(PreprocessOptions)]
"""Of the settings."""

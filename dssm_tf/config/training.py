"""The sections about training: negatives, epochs and batches, validation, the titles' prior."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dssm_tf.common.field_types import (
    Bool,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Seed,
)
from dssm_tf.config.section import Section


class NegativesConfig(Section):
    """The titles that a clicked title is compared with."""

    recorded: NonNegativeInt = Field(
        0, description="Negatives per query from the records that preprocess wrote (J)."
    )
    fresh: NonNegativeInt = Field(
        0, description="Negatives per query drawn from all titles, anew in each epoch."
    )
    in_batch: Bool = Field(
        True, description="Whether the batch's other clicked titles are negatives."
    )
    mined: NonNegativeInt = Field(
        0, description="Hard negatives per query in each epoch, drawn from `mined_from`."
    )
    mined_from: str | None = Field(
        None, description="Table of hard negatives that `dssm mine` wrote."
    )

    @model_validator(mode="after")
    def _check_mined(self) -> NegativesConfig:
        if (self.mined_from is not None) != (self.mined > 0):
            raise PydanticCustomError(
                "mined",
                "mined, the number per query, and mined_from, the table that lists them, belong "
                "together; set both or none",
            )
        return self


class TrainingConfig(Section):
    """Length and size of the training, and when it stops."""

    epochs: PositiveInt = Field(30, description="Maximum number of epochs.")
    max_steps: PositiveInt | None = Field(
        None,
        description="Maximum number of steps, rounded down to whole epochs; at least one epoch.",
    )
    batch_size: PositiveInt = Field(256, description="Queries per step, on all devices together.")
    patience: PositiveInt = Field(
        5, description="Number of epochs without an improvement after which training stops."
    )
    monitor: Literal["ndcg@1", "ndcg@3", "ndcg@10", "val_loss"] = Field(
        "ndcg@10", description="Validation metric by which the best epoch is chosen."
    )
    folds: Annotated[int, Field(strict=True, ge=2)] | None = Field(
        None,
        description="Chooses the number of epochs by cross-validation in this many folds, then "
        "trains on all records. For small logs.",
    )
    averaging: Fraction = Field(
        0.0,
        lt=1,
        description="Momentum of a moving average of the weights. The averages are used for "
        "validation, saved, and used for ranking.",
    )
    clicks: Bool = Field(
        True, description="`false` trains on `judgments` or a `teacher` only, not on clicks."
    )
    title_queries: NonNegativeFloat = Field(
        0,
        description="Number of titles per click that are trained on as their own queries. Such a "
        "query is two to four words of the title. If the data have no clicks, any number above 0 "
        "trains on each title once per epoch.",
    )
    typos: Fraction = Field(
        0.0,
        lt=1,
        description="Fraction of the queries whose longest word gets a typing error, redrawn in "
        "each epoch.",
    )
    neighboring_words: Fraction = Field(
        0.0,
        description="Fraction of the titles' queries whose words stand next to each other in the "
        "title; the words of the others are drawn from the whole title.",
    )
    letters_only: Fraction = Field(
        0.0,
        lt=1,
        description="Fraction of the words that are read by their letter n-grams only, without "
        "their own row, redrawn in each step. Needs `whole_words`.",
    )
    idf_start: Bool = Field(
        False,
        description="Whether the initial rows of the first matrix are scaled by the IDF of their "
        "letter n-grams.",
    )
    refit: Bool = Field(
        False,
        description="Whether training continues on all records, including the validation split. "
        "It starts from the best epoch's weights and takes two thirds as many epochs.",
    )
    click_weight: Literal["none", "log", "linear"] = Field(
        "none", description="How the weight of a (query, title) pair grows with its clicks."
    )
    save_every: PositiveInt = Field(
        1_000,
        description="Steps between two checkpoints within an epoch. Large checkpoints are written "
        "less often; see docs/training.md.",
    )
    seed: Seed = Field(0, description="Seed of weights, dropout and batches.")
    xla: Bool | Literal["auto"] = Field(
        "auto", description="Whether XLA compiles the steps; `auto` does so on GPUs."
    )
    precision: Literal["float32", "mixed_bfloat16"] = Field(
        "float32", description="Precision of the steps. Weights and ranking are always float32."
    )


class RankingConfig(Section):
    """How the prior of titles enters the score."""

    prior: NonNegativeFloat | Literal["auto"] = Field(
        "auto",
        description="Weight of the log of a title's fraction of the clicks; `auto` chooses it on "
        "the validation queries.",
    )
    earlier_clicks: Fraction = Field(
        1.0, description="With `--from`, weight of the earlier run's clicks in the prior."
    )


class ValidationConfig(Section):
    """Size of the ranking task that is measured after each epoch."""

    queries: PositiveInt = Field(2_000, description="Maximum number of queries.")
    titles: PositiveInt = Field(
        200_000,
        description="Maximum number of titles: the clicked ones and a random sample of the others.",
    )

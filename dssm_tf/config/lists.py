"""Files of graded lists to train on in addition to clicks: judgments, or a teacher's scores."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dssm_tf.common.field_types import Float, Fraction, PositiveFloat, PositiveInt
from dssm_tf.config.losses import GradedLossConfig, KLConfig, ListwiseSoftmaxConfig
from dssm_tf.config.section import Section


class ListsConfig(Section):
    """A file with grades or scores of the titles of queries, and settings for training on it."""

    file: Annotated[str, Field(min_length=1)] = Field(description="The table's path.")
    loss: GradedLossConfig
    sha256: str = Field(
        "", description="Expected SHA-256 of the file; `train` records it in the run."
    )
    weight: PositiveFloat = Field(
        1.0, description="Weight of a step on this file; a step on clicks has weight 1."
    )
    batch_size: PositiveInt = Field(64, description="Queries per step.")
    titles: Annotated[int, Field(strict=True, ge=2)] = Field(
        64, description="Maximum number of titles in a list; longer lists are split."
    )
    validation: Fraction = Field(
        0.1,
        lt=1,
        description="Fraction of the queries that are held out for validation. It applies to "
        "queries that are not in the log; those in the log's validation split are all held out.",
    )


class JudgmentsConfig(ListsConfig):
    """A table of grades: the columns query, title, grade."""

    loss: GradedLossConfig = Field(ListwiseSoftmaxConfig(), description="Loss of a list.")
    max_grade: Annotated[Float, Field(gt=0, le=100)] = Field(
        4.0, description="Largest possible grade; the smallest is 0."
    )


class TeacherConfig(ListsConfig):
    """A table of another model's scores: the columns query, title, score."""

    loss: GradedLossConfig = Field(KLConfig(), description="Loss of a list.")

"""Files of graded lists to train on besides clicks: judgments, or a teacher's scores."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dssm_tf.common.field_types import Float, Fraction, PositiveFloat, PositiveInt
from dssm_tf.config.losses import GradedLossConfig, KLConfig, ListwiseSoftmaxConfig
from dssm_tf.config.section import Section


class ListsConfig(Section):
    """A file of titles per query, each with a number, and how it is trained on."""

    file: Annotated[str, Field(min_length=1)] = Field(description="The table.")
    loss: GradedLossConfig
    sha256: str = Field(
        "", description="SHA-256 that the file must have; `train` writes it into the run."
    )
    weight: PositiveFloat = Field(
        1.0, description="Weight of a step on this file beside a step on clicks."
    )
    batch_size: PositiveInt = Field(64, description="Queries per step.")
    titles: Annotated[int, Field(strict=True, ge=2)] = Field(
        64, description="Largest length of a list; longer lists are split."
    )
    validation: Fraction = Field(
        0.1,
        lt=1,
        description="Fraction of the queries held out for validation, of those that are not in "
        "the log. Queries of the log's validation split are always held out.",
    )


class JudgmentsConfig(ListsConfig):
    """A table of grades: the columns query, title, grade."""

    loss: GradedLossConfig = Field(ListwiseSoftmaxConfig(), description="Loss of a list.")
    max_grade: Annotated[Float, Field(gt=0, le=100)] = Field(
        4.0, description="Largest grade; grades run from 0 to this."
    )


class TeacherConfig(ListsConfig):
    """A table of another model's scores: the columns query, title, score."""

    loss: GradedLossConfig = Field(KLConfig(), description="Loss of a list.")

"""The scores of a configuration, and their parameters.

Keras is imported by `build`, so that a configuration is checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from dssm_tf.common.field_types import Fraction
from dssm_tf.config.section import Component, default_name

if TYPE_CHECKING:
    from dssm_tf.scores.score import Score


class CosineConfig(Component):
    """Cosine of the two semantic vectors, as in the papers (Huang et al. 2013)."""

    name: Literal["cosine"] = "cosine"

    @property
    def reads_words(self) -> bool:
        """Whether the score compares words; see `dssm_tf.scores.Score`."""
        return False

    def build(self, vocabulary_size: int) -> Score:
        """The score."""
        from dssm_tf.scores import Cosine

        del vocabulary_size
        return Cosine(name="score")


class MaxSimConfig(Component):
    """Similarity of each word to its best match (Khattab and Zaharia 2020); see docs/maxsim.md."""

    name: Literal["maxsim"] = "maxsim"
    threshold: Fraction = Field(
        0.2,
        lt=1,
        description="Cosines of words up to it count as 0; higher ones are rescaled.",
    )
    sides: Literal["both", "query"] = Field(
        "both",
        description="`both` also compares the title's words with the query's; `query` compares "
        "only the query's words with the title's.",
    )

    @property
    def reads_words(self) -> bool:
        """Whether the score compares words; see `dssm_tf.scores.Score`."""
        return True

    def build(self, vocabulary_size: int) -> Score:
        """The score."""
        from dssm_tf.scores import MaxSim

        return MaxSim(vocabulary_size, **self.arguments(), name="score")


ScoreConfig = Annotated[
    Annotated[CosineConfig | MaxSimConfig, Field(discriminator="name")], default_name("cosine")
]

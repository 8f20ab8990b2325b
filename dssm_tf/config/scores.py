"""The scores of a configuration, and their parameters.

Keras is imported by `build`, so that a configuration is checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dssm_tf.common.field_types import Fraction, NonNegativeFloat, PositiveInt
from dssm_tf.config.section import Component, default_name

if TYPE_CHECKING:
    from dssm_tf.scores.score import Score

DEFAULT_TEXT_COSINE = 0.15
"""The factor of the cosine of text vectors, if it is `auto` and there are clicks. It was fixed in
advance, not learned: docs/results.md, "Text vectors"."""

TextCosine = Annotated[NonNegativeFloat, Field(le=10)]
"""The factor of the cosine of text vectors. Larger ones would hide all other parts of the score."""


class CosineConfig(Component):
    """Cosine of the two semantic vectors, as in the papers (Huang et al. 2013)."""

    name: Literal["cosine"] = "cosine"

    @property
    def reads_words(self) -> bool:
        """Whether the score compares words; see `dssm_tf.scores.Score`."""
        return False

    def resolve(self, has_clicks: bool) -> CosineConfig:
        """Returns the section itself."""
        del has_clicks
        return self

    def shape_settings(self) -> dict[str, Any]:
        """The settings that affect the shapes of the model's weights."""
        return {"name": self.name}

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
    text_cosine: TextCosine | Literal["auto"] = Field(
        0.0,
        description="This number times the cosine of the text vectors is added to the score; 0 "
        "leaves them out. `auto` is 0.15 with clicks or graded lists, and 0 with a catalog alone.",
    )
    text_units: PositiveInt = Field(128, description="Numbers of a text vector.")
    text_dropout: Fraction = Field(
        0.0,
        lt=1,
        description="Dropout of the second vectors, whose sums are text vectors.",
    )

    @property
    def reads_words(self) -> bool:
        """Whether the score compares words; see `dssm_tf.scores.Score`."""
        return True

    def resolve(self, has_clicks: bool) -> MaxSimConfig:
        """Replaces `text_cosine: auto`.

        Args:
            has_clicks: whether there are clicks or graded lists to train on. A catalog alone trains
                no text vectors.
        """
        if self.text_cosine != "auto":
            return self
        return self.model_copy(update={"text_cosine": DEFAULT_TEXT_COSINE if has_clicks else 0.0})

    def shape_settings(self) -> dict[str, Any]:
        """The settings that affect the shapes of the model's weights."""
        if not self.text_cosine:
            return {"name": self.name, "text_cosine": 0}
        return {"name": self.name, "text_cosine": "above 0", "text_units": self.text_units}

    def build(self, vocabulary_size: int) -> Score:
        """The score.

        Raises:
            ValueError: `text_cosine` is still `auto`; see `resolve`.
        """
        from dssm_tf.scores import MaxSim

        if self.text_cosine == "auto":
            raise ValueError("text_cosine is 'auto'; call resolve(has_clicks) before build().")

        return MaxSim(vocabulary_size, **self.arguments(), name="score")


ScoreConfig = Annotated[
    Annotated[CosineConfig | MaxSimConfig, Field(discriminator="name")], default_name("cosine")
]

"""The losses of a configuration, and their parameters.

Keras is imported by `build`, so that a configuration is checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import Float, PositiveFloat
from dssm_tf.config.section import Component, default_name

if TYPE_CHECKING:
    from dssm_tf.losses.ranking_loss import RankingLoss

GammaField = Field(10.0, description="Factor that scales the score.")


class ClickSoftmaxConfig(Component):
    """Negative log posterior of the clicked title (Palangi et al. 2016, eq. 4-5)."""

    name: Literal["click_softmax"] = "click_softmax"
    gamma: PositiveFloat | Literal["auto"] = Field(
        10.0,
        description="Factor that scales the score; `auto` derives it from the number of titles.",
    )

    def resolve(self, title_count: int) -> ClickSoftmaxConfig:
        """Replaces `auto` by the number of titles / 250, at least 10 and at most 25.

        With more titles, more of them are similar to the clicked one, and only a steeper softmax
        separates them (docs/training.md, "Gamma").
        """
        if self.gamma != "auto":
            return self
        return self.model_copy(update={"gamma": min(25.0, max(10.0, title_count / 250))})

    def build(self) -> RankingLoss:
        """The loss.

        Raises:
            ValueError: `gamma` is still `auto`; see `resolve`.
        """
        from dssm_tf.losses import ClickSoftmax

        if self.gamma == "auto":
            raise ValueError("gamma is 'auto'; call resolve(title_count) before build().")
        return ClickSoftmax(gamma=self.gamma)


class FixedLoss(Component):
    """A click loss whose parameters do not depend on the data."""

    def resolve(self, title_count: int) -> Any:
        """Returns the section itself."""
        del title_count
        return self


class PairwiseLogisticConfig(FixedLoss):
    """Logistic loss of each pair of clicked title and negative (Burges et al. 2005)."""

    name: Literal["pairwise_logistic"] = "pairwise_logistic"
    gamma: PositiveFloat = GammaField

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import PairwiseLogistic

        return PairwiseLogistic(gamma=self.gamma)


class HingeConfig(FixedLoss):
    """Margin loss of each pair of clicked title and negative (Joachims 2002)."""

    name: Literal["hinge"] = "hinge"
    margin: PositiveFloat = Field(
        0.2,
        description="Required difference between the scores of the clicked title and a negative.",
    )

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import Hinge

        return Hinge(margin=self.margin)


class SigmoidConfig(FixedLoss):
    """Binary cross-entropy of each title: clicked or not (Zhai et al. 2023)."""

    name: Literal["sigmoid"] = "sigmoid"
    gamma: PositiveFloat = GammaField
    bias: Float = Field(-5.0, description="Added to the scaled score.")

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import Sigmoid

        return Sigmoid(gamma=self.gamma, bias=self.bias)


class CustomLossConfig(FixedLoss):
    """A loss from outside this package, as Keras describes it. `train` writes this section."""

    name: Literal["custom"] = "custom"
    registered_name: str = Field(description="Name of the class in `register_keras_serializable`.")
    config: dict[str, Any] = Field(description="Result of the loss's `get_config`.")

    @classmethod
    def from_loss(cls, loss: RankingLoss) -> CustomLossConfig:
        """Describes a loss.

        Raises:
            UserError: the class is not registered with Keras, or is not a `RankingLoss`.
        """
        from dssm_tf.config.custom import describe
        from dssm_tf.losses.ranking_loss import RankingLoss

        registered_name, config = describe(loss, RankingLoss)
        return cls(registered_name=registered_name, config=config)

    def build(self) -> RankingLoss:
        """The loss.

        Raises:
            UserError: no class is registered under the name, or it is not a `RankingLoss`.
        """
        from dssm_tf.config.custom import registered_class
        from dssm_tf.losses.ranking_loss import RankingLoss

        loss_class = registered_class(self.registered_name, RankingLoss)
        try:
            loss: RankingLoss = loss_class.from_config(dict(self.config))
        except TypeError as error:
            reason = str(error).split("\n")[0]
            raise UserError(f"loss: {self.registered_name}: {reason}") from None
        return loss


class ListwiseSoftmaxConfig(Component):
    """Cross-entropy between the gains and a softmax of the scores (Bruch et al. 2019)."""

    name: Literal["listwise_softmax"] = "listwise_softmax"
    gamma: PositiveFloat = GammaField

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import ListwiseSoftmax

        return ListwiseSoftmax(gamma=self.gamma)


class KLConfig(Component):
    """Kullback-Leibler divergence from a teacher's softmax (Hinton et al. 2015)."""

    name: Literal["kl"] = "kl"
    gamma: PositiveFloat = GammaField
    temperature: PositiveFloat = Field(0.1, description="Divides the teacher's scores.")

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import KL

        return KL(gamma=self.gamma, temperature=self.temperature)


class MarginMSEConfig(Component):
    """Squared error between score differences and a teacher's (Hofstätter et al. 2020)."""

    name: Literal["margin_mse"] = "margin_mse"
    gamma: PositiveFloat = Field(1.0, description="Factor that scales the score.")

    def build(self) -> RankingLoss:
        """The loss."""
        from dssm_tf.losses import MarginMSE

        return MarginMSE(gamma=self.gamma)


LossConfig = Annotated[
    ClickSoftmaxConfig | PairwiseLogisticConfig | HingeConfig | SigmoidConfig | CustomLossConfig,
    Field(discriminator="name"),
    default_name("click_softmax"),
]
GradedLossConfig = Annotated[
    ListwiseSoftmaxConfig | KLConfig | MarginMSEConfig, Field(discriminator="name")
]

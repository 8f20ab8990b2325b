"""The losses, one class per file: losses of clicks, and losses of graded lists.

`model.compile` takes an instance, such as `ClickSoftmax(gamma=20)`, or a name, such as
`"click_softmax"`. May import common.
"""

import keras

from dssm_tf.losses.by_source import BySource
from dssm_tf.losses.click_softmax import ClickSoftmax
from dssm_tf.losses.hinge import Hinge
from dssm_tf.losses.kl import KL
from dssm_tf.losses.listwise_softmax import ListwiseSoftmax
from dssm_tf.losses.margin_mse import MarginMSE
from dssm_tf.losses.pairwise_logistic import PairwiseLogistic
from dssm_tf.losses.ranking_loss import RankingLoss
from dssm_tf.losses.sigmoid import Sigmoid

__all__ = [
    "KL",
    "BySource",
    "ClickSoftmax",
    "Hinge",
    "ListwiseSoftmax",
    "MarginMSE",
    "PairwiseLogistic",
    "RankingLoss",
    "Sigmoid",
    "get",
]

_BY_NAME: dict[str, type[RankingLoss]] = {
    "click_softmax": ClickSoftmax,
    "pairwise_logistic": PairwiseLogistic,
    "hinge": Hinge,
    "sigmoid": Sigmoid,
    "listwise_softmax": ListwiseSoftmax,
    "kl": KL,
    "margin_mse": MarginMSE,
}


def get(identifier: str | keras.losses.Loss) -> keras.losses.Loss:
    """A loss by its name, with default parameters; an instance is returned as it is.

    Args:
        identifier: the name of a loss of this package; the name under which a subclass of
            `RankingLoss` is registered with `keras.saving.register_keras_serializable`, such as
            `"my_package>MyLoss"`; or an instance.

    Raises:
        ValueError: no loss has the name, or the argument is neither a name nor a loss of scores.
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, str):
        registered = keras.saving.get_registered_object(identifier)
        if isinstance(registered, type) and issubclass(registered, RankingLoss):
            return registered()
    if isinstance(identifier, (RankingLoss, BySource)):
        return identifier
    raise ValueError(
        f"received loss={identifier!r}; expected one of {', '.join(_BY_NAME)}, or an instance of a "
        "RankingLoss such as ClickSoftmax(gamma=20)."
    )

"""What training makes small, one loss a file; their tables: of clicks, and of graded lists.

Losses may import common; this file neither Keras nor a loss, so that a configuration is checked at
once.
"""

from __future__ import annotations

from typing import Literal

from dssm_tf.common.sections import AboveZero, Choice, Named, Table

LOSSES = Table(
    "dssm_tf.losses.LOSSES",
    {
        "click_softmax": Choice(
            "dssm_tf.losses.click_softmax:ClickSoftmax",
            Named,
            gamma=(AboveZero | Literal["auto"], 10.0),
        ),
        "pairwise_logistic": Choice(
            "dssm_tf.losses.pairwise_logistic:PairwiseLogistic",
            Named,
            gamma=(AboveZero, 10.0),
        ),
        "hinge": Choice("dssm_tf.losses.hinge:Hinge", Named, margin=(AboveZero, 0.2)),
        "sigmoid": Choice(
            "dssm_tf.losses.sigmoid:Sigmoid",
            Named,
            gamma=(AboveZero, 10.0),
            bias=(float, -5.0),
        ),
    },
    default="click_softmax",
)

GRADED_LOSSES = Table(
    "dssm_tf.losses.GRADED_LOSSES",
    {
        "listwise_softmax": Choice(
            "dssm_tf.losses.listwise_softmax:ListwiseSoftmax", Named, gamma=(AboveZero, 10.0)
        ),
        "kl": Choice(
            "dssm_tf.losses.kl:KL", Named, gamma=(AboveZero, 10.0), temperature=(AboveZero, 0.1)
        ),
        "margin_mse": Choice("dssm_tf.losses.margin_mse:MarginMSE", Named, gamma=(AboveZero, 1.0)),
    },
)
"""Of lists whose titles have grades, or a teacher's scores, in place of a click."""

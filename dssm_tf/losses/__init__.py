"""What training makes small: the losses as functions, and their tables, of clicks and of lists.

Losses may import common; this file neither Keras nor a loss, so that a configuration is checked at
once.
"""

from __future__ import annotations

from typing import Literal

from dssm_tf.common.sections import AboveZero, Choice, Named, Table

_FUNCTIONS = "dssm_tf.losses.functions:"

LOSSES = Table(
    {
        "click_softmax": Choice(
            _FUNCTIONS + "click_softmax", Named, gamma=(AboveZero | Literal["auto"], 10.0)
        ),
        "pairwise_logistic": Choice(
            _FUNCTIONS + "pairwise_logistic", Named, gamma=(AboveZero, 10.0)
        ),
        "hinge": Choice(_FUNCTIONS + "hinge", Named, margin=(AboveZero, 0.2)),
        "sigmoid": Choice(
            _FUNCTIONS + "sigmoid", Named, gamma=(AboveZero, 10.0), bias=(float, -5.0)
        ),
    },
    default="click_softmax",
)

GRADED_LOSSES = Table(
    {
        "listwise_softmax": Choice(_FUNCTIONS + "listwise_softmax", Named, gamma=(AboveZero, 10.0)),
        "kl": Choice(
            _FUNCTIONS + "kl", Named, gamma=(AboveZero, 10.0), temperature=(AboveZero, 0.1)
        ),
        "margin_mse": Choice(_FUNCTIONS + "margin_mse", Named, gamma=(AboveZero, 1.0)),
    },
)
"""Of lists whose titles have grades, or a teacher's scores, in place of a click."""

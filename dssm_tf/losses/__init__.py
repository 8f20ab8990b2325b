"""What training makes small, one loss a file; their table.

Losses may import common; this file neither Keras nor a loss, so that a configuration is checked at
once.
"""

from __future__ import annotations

from dssm_tf.common.sections import AboveZero, Choice, Named, Table

LOSSES = Table(
    "dssm_tf.losses.LOSSES",
    {
        "click_softmax": Choice(
            "dssm_tf.losses.click_softmax:ClickSoftmax",
            Named,
            gamma=(AboveZero, 10.0),
            learn_gamma=(bool, False),
        ),
    },
    default="click_softmax",
)

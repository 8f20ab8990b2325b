"""One paper model a file, each of which turns a text batch into semantic vectors; their table.

Towers may import layers and common; this file neither Keras nor a tower, so that a configuration is
checked at once.
"""

from __future__ import annotations

from dssm_tf.common.sections import (
    BiasInitializer,
    Choice,
    Initializer,
    Named,
    Odd,
    Positive,
    RecurrentInitializer,
    Share,
    SquareInitializer,
    Table,
    Widths,
)


class TowerSection(Named):
    """What every tower takes; see `Tower`."""

    dropout: Share = 0.0
    ngram_dropout: Share = 0.0
    initializer: Initializer = "glorot_uniform"


class RecurrentSection(TowerSection):
    """What every recurrent tower takes; see `RecurrentTower`."""

    recurrent_initializer: RecurrentInitializer = "orthogonal"
    bias_initializer: BiasInitializer = "zeros"
    bptt_steps: Positive | None = None


class LSTMSection(RecurrentSection):
    """What every LSTM takes; see `LSTMRNN`."""

    cells: Positive = 96
    peepholes: bool = True
    forget_gate: bool = True
    forget_bias: float = 1.0
    peephole_initializer: BiasInitializer = "zeros"


TOWERS = Table(
    {
        "dssm": Choice("dssm_tf.towers.dssm:DSSM", TowerSection, widths=(Widths, (300, 300, 128))),
        "clsm": Choice(
            "dssm_tf.towers.clsm:CLSM",
            TowerSection,
            window=(Odd, 3),
            features=(Positive, 300),
            widths=(Widths, (128,)),
        ),
        "rnn": Choice(
            "dssm_tf.towers.rnn:RNN",
            RecurrentSection,
            hidden=(Positive, 288),
            recurrent_initializer=(SquareInitializer, "orthogonal"),
        ),
        "lstm": Choice("dssm_tf.towers.lstm:LSTMRNN", LSTMSection),
        "bilstm": Choice("dssm_tf.towers.bilstm:BidirectionalLSTMRNN", LSTMSection),
    },
)

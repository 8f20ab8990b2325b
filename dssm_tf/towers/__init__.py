"""One paper model a file: each turns a text batch into semantic vectors.

To add a tower: write its file with a `Tower` subclass, add a row to `TOWERS`, and run
`pytest tests/towers/test_tower_contract.py`, which holds every row to the same laws.
"""

from dssm_tf.towers.bilstm import BidirectionalLSTMRNN
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.towers.lstm_plain import PlainLSTMRNN
from dssm_tf.towers.rnn import RNN
from dssm_tf.towers.tower import Tower

TOWERS: dict[str, type[Tower]] = {
    "dssm": DSSM,
    "clsm": CLSM,
    "rnn": RNN,
    "lstm": LSTMRNN,
    "lstm_plain": PlainLSTMRNN,
    "bilstm": BidirectionalLSTMRNN,
}

__all__ = [
    "CLSM",
    "DSSM",
    "LSTMRNN",
    "RNN",
    "TOWERS",
    "BidirectionalLSTMRNN",
    "PlainLSTMRNN",
    "Tower",
]

"""One paper model a file: each turns a text batch into semantic vectors.

To add a tower: write its file with a `Tower` subclass, add a row to `TOWERS`, and run
`pytest tests/towers/test_tower_contract.py`, which holds every row to the same laws.
"""

from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.towers.tower import Tower

TOWERS: dict[str, type[Tower]] = {
    "dssm": DSSM,
    "lstm": LSTMRNN,
}

__all__ = ["DSSM", "LSTMRNN", "TOWERS", "Tower"]

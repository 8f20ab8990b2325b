"""The parameters of the paper's equations, put into cells."""

from __future__ import annotations

from dssm_tf.layers import PeepholeLSTMCell
from tests.reference.peephole_lstm import LSTMParameters


def give(cell: PeepholeLSTMCell, p: LSTMParameters) -> PeepholeLSTMCell:
    """Builds a cell, if it is not built yet, with those of the paper's parameters that it has."""
    if not cell.built:
        cell.build()
    cell.recurrent_kernel.assign(p.side_by_side("rec", cell.forget_gate))
    cell.bias.assign(p.side_by_side("b", cell.forget_gate))
    if cell.peepholes:
        cell.peephole_kernel.assign(p.peepholes(cell.forget_gate))
    return cell

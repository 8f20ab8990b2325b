"""Assigns the parameters of the paper's equations to cells."""

from __future__ import annotations

from dssm_tf.layers import PeepholeLSTMCell
from tests.reference.peephole_lstm import LSTMParameters


def assign_parameters(cell: PeepholeLSTMCell, p: LSTMParameters) -> PeepholeLSTMCell:
    """Builds a cell if needed, and assigns those of the paper's parameters that it has."""
    if not cell.built:
        cell.build()
    cell.recurrent_kernel.assign(p.concatenated("rec", cell.forget_gate))
    cell.bias.assign(p.concatenated("b", cell.forget_gate))
    if cell.peepholes:
        cell.peephole_kernel.assign(p.peepholes(cell.forget_gate))
    return cell

"""A restricted Boltzmann machine by brute force, from Wu et al. 2014, eq. 3-13.

All values are exact: sums run over all states of the visible and hidden units. For Gaussian hidden
units, a closed integral or a fine grid replaces the sum. For tiny machines only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def states(units: int) -> np.ndarray:
    """All vectors of zeros and ones: `(2 ** units, units)`."""
    return np.array(list(product([0.0, 1.0], repeat=units)))


@dataclass(frozen=True)
class Machine:
    """Weights `(visible, hidden)`, visible bias b, hidden bias c, float64."""

    W: np.ndarray
    b: np.ndarray
    c: np.ndarray
    gaussian: bool = False

    def energy(self, v, h) -> float:
        """Eq. 4; eq. 7 with variance 1 and the sign with which it can be normalized."""
        value = -v @ self.W @ h - self.b @ v
        return value + ((h - self.c) ** 2).sum() / 2 if self.gaussian else value - self.c @ h

    def free_energy(self, v) -> float:
        """`-log` of the sum, or integral, over h of `exp(-E(v, h))`."""
        if not self.gaussian:
            total = sum(np.exp(-self.energy(v, h)) for h in states(len(self.c)))
            return -np.log(total)
        # The units are independent given v, and the integrand is smooth: a grid is exact enough.
        total = -self.b @ v
        grid = np.linspace(-30, 30, 60_001)
        for j, drive in enumerate(v @ self.W):
            density = np.exp(drive * grid - (grid - self.c[j]) ** 2 / 2)
            total -= np.log(density.sum() * (grid[1] - grid[0]))
        return total

    def probabilities(self) -> np.ndarray:
        """p(v) of every state, by the partition function: `(2 ** visible,)`."""
        weights = np.exp([-self.free_energy(v) for v in states(len(self.b))])
        return weights / weights.sum()

    def log_likelihood(self, data) -> float:
        """Mean log p(v) of rows of zeros and ones, in nats."""
        state_indices = data @ 2 ** np.arange(len(self.b))[::-1]
        return float(np.log(self.probabilities()[state_indices.astype(int)]).mean())

    def hidden_mean(self, v):
        """Eq. 6 and 9."""
        drive = self.c + v @ self.W
        return drive if self.gaussian else sigmoid(drive)

    def visible_mean(self, h):
        """Eq. 5 and 8."""
        return sigmoid(self.b + h @ self.W.T)

    def statistics(self, v) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`<v h>`, `<h>` and `<v>` of one row, in expectation over h."""
        h = self.hidden_mean(v)
        return np.outer(v, h), h, v

    def likelihood_gradient(self, data) -> list[np.ndarray]:
        """Eq. 11: data minus model; the model's term is a sum over all states."""
        rows = [self.statistics(v) for v in data]
        by_state = [self.statistics(v) for v in states(len(self.b))]
        gradients = []
        for index in range(3):
            of_data = np.mean([row[index] for row in rows], axis=0)
            of_model = sum(
                p * row[index] for p, row in zip(self.probabilities(), by_state, strict=True)
            )
            gradients.append(of_data - of_model)
        return gradients

    def cd1_expectation(self, data) -> list[np.ndarray]:
        """The exact expectation of eq. 13 with T = 1 and sampled units.

        For binary hidden units: over all h by p(h|v), then over all v' by p(v'|h).
        """
        gradients = [np.zeros_like(self.W), np.zeros_like(self.c), np.zeros_like(self.b)]
        hidden, visible = states(len(self.c)), states(len(self.b))
        for v in data:
            on = self.hidden_mean(v)
            expected = [np.zeros_like(part) for part in gradients]
            for h in hidden:
                p_h = np.prod(np.where(h == 1, on, 1 - on))
                mean = self.visible_mean(h)
                for reconstruction in visible:
                    p_v = np.prod(np.where(reconstruction == 1, mean, 1 - mean))
                    for part, value in zip(expected, self.statistics(reconstruction), strict=True):
                        part += p_h * p_v * value
            for part, value, model in zip(gradients, self.statistics(v), expected, strict=True):
                part += (value - model) / len(data)
        return gradients

    def pseudo_log_likelihood(self, v) -> float:
        """Sum over units of log p(v_i | the others), in nats."""
        total = 0.0
        for i in range(len(v)):
            flipped = v.copy()
            flipped[i] = 1 - v[i]
            total -= np.log1p(np.exp(self.free_energy(v) - self.free_energy(flipped)))
        return total

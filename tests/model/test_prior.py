"""The log-prior of titles: smoothed fractions of the log's clicks."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.data.format import Title
from dssm_tf.model.prior import TitlePrior
from dssm_tf.text.rules import FOLDED

TITLES = [Title("Halo: Reach", 6), Title("Zune", 1), Title("halo reach", 2), Title("Unclicked", 0)]


def test_the_log_prior_is_the_log_of_the_smoothed_fraction_of_clicks():
    prior = TitlePrior(TITLES, FOLDED)
    # Three distinct titles with 8, 1 and 0 clicks, and one extra click for each of them and for
    # unknown titles: 9 + 2 + 1 + 1 = 13.
    log_priors = prior(["Halo Reach", "ZUNE", "unclicked", "something else"])
    assert log_priors == pytest.approx(np.log(np.array([9, 2, 1, 1]) / 13))
    assert log_priors.dtype == np.float32
    assert "unclicked" not in prior.log_priors  # exports contain a table of the others only


def test_without_a_log_all_titles_are_equally_likely():
    assert TitlePrior([], FOLDED)(["a", "b"]).tolist() == [0, 0]
    assert TitlePrior([], FOLDED)([]).shape == (0,)

"""A model that was loaded before a fork is an error in the child process."""

import os

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.common.forks import ForkCheck


def test_a_model_that_was_loaded_before_a_fork_is_a_one_line_error_in_the_child(monkeypatch):
    check = ForkCheck()
    check("lstm")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(UserError, match="lstm was loaded before this process was forked") as error:
        check("lstm")
    assert "\n" not in str(error.value)
    ForkCheck()("loaded in the child")

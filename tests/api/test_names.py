"""What `import dssm_tf` offers, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import dssm_tf


@pytest.mark.parametrize("name", [name for name in dssm_tf.__all__ if name[0] != "_"])
def test_every_public_name_is_there_and_documented(name):
    value = getattr(dssm_tf, name)
    assert inspect.getdoc(value)
    assert name in dir(dssm_tf)
    assert getattr(dssm_tf, name) is value


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        dssm_tf.lode  # noqa: B018


def test_a_wrong_path_or_configuration_is_refused_before_tensorflow_is_loaded(checkout, tmp_path):
    code = f"""
import sys, dssm_tf
for call in (lambda: dssm_tf.load({str(tmp_path)!r}), lambda: dssm_tf.ClickData("D", "lstn")):
    try:
        call()
    except dssm_tf.UserError as error:
        print(error)
assert not {{"tensorflow", "keras", "apache_beam"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{tmp_path} holds no trained model; expected ")
    assert "Did you mean 'lstm'?" in second

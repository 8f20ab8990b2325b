"""What messages share."""

from __future__ import annotations

import sys
from pathlib import Path

from dssm_tf.common import errors


def test_in_a_checkout_an_extra_is_installed_from_it(checkout):
    assert errors.install("search") == f"{sys.executable} -m pip install -e '{checkout}[search]'"


def test_in_an_installation_an_extra_is_installed_by_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "dssm_tf" / "common" / "errors.py"))
    assert errors.install("search") == f"{sys.executable} -m pip install 'dssm-tf[search]'"
    assert Path(sys.executable).exists()

"""What messages share."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dssm_tf.common import errors


def test_in_a_checkout_an_extra_is_installed_from_it(checkout):
    assert errors.install("search") == f"{sys.executable} -m pip install -e '{checkout}[search]'"


def test_in_an_installation_an_extra_is_installed_from_a_checkout_too(monkeypatch, tmp_path):
    # There is no package of this name to download.
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "dssm_tf" / "common" / "errors.py"))
    told = errors.install("search")
    assert told == f"{sys.executable} -m pip install '.[search]' in a checkout of dssm-tf"
    assert Path(sys.executable).exists()


def test_no_hint_names_a_package_that_cannot_be_downloaded(checkout):
    pattern = re.compile(r"pip install[^\n`]*['\" ]dssm-tf\[")
    for name in ("dssm_tf", "pipelines", "serving", "docs"):
        for path in (checkout / name).rglob("*.*"):
            if path.suffix in (".py", ".md", ".ipynb"):
                assert not pattern.search(path.read_text("utf-8")), path

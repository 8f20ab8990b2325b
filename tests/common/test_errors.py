"""Helpers for error messages."""

from __future__ import annotations

import re
import sys

from dssm_tf.common import errors


def test_an_extra_is_installed_from_a_checkout():
    command = errors.install_command("search")
    assert command == f"{sys.executable} -m pip install '.[search]' in a checkout of dssm-tf"


def test_no_hint_names_a_package_that_cannot_be_downloaded(checkout):
    pattern = re.compile(r"pip install[^\n`]*['\" ]dssm-tf\[")
    for name in ("dssm_tf", "pipelines", "serving", "docs"):
        for path in (checkout / name).rglob("*.*"):
            if path.suffix in (".py", ".md", ".ipynb"):
                assert not pattern.search(path.read_text("utf-8")), path

"""The click log that graded lists are trained on with."""

from __future__ import annotations

import pytest

from tests.clicks import click_log, write_data


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("graded") / "data", click_log())

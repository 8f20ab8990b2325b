"""Tests of pages find one browser, or say which package is missing."""

from __future__ import annotations

import pytest

from tests.browser import Browser, find_chromium


@pytest.fixture
def empty_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_without_a_browser_a_test_is_skipped_with_the_package_s_name(empty_path, monkeypatch):
    monkeypatch.delenv("REQUIRE_BROWSER", raising=False)
    assert find_chromium() is None
    with pytest.raises(pytest.skip.Exception, match="install the package chromium"), Browser():
        pass


def test_where_a_browser_is_required_a_test_fails_without_one(empty_path, monkeypatch):
    monkeypatch.setenv("REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="install the package chromium"), Browser():
        pass


def test_chromium_is_preferred_to_chrome(empty_path, tmp_path):
    for name in ("google-chrome", "chromium-browser"):
        (tmp_path / name).touch(0o755)
    assert find_chromium() == str(tmp_path / "chromium-browser")


def test_continuous_integration_requires_a_browser(checkout):
    script = (checkout / ".ci" / "run").read_text("utf-8")
    assert script.index("export REQUIRE_BROWSER=1") < script.index("make test\n")

"""The pages of docs/: where they are in the navigation, and the parts of a page of the guide."""

from __future__ import annotations

import re
import runpy
from collections import Counter

import pytest


@pytest.fixture
def navigation(checkout):
    return runpy.run_path(str(checkout / "docs" / "navigation.py"))


def test_every_page_is_in_the_navigation_once(checkout, navigation):
    named = Counter()
    for pages in (*navigation["SECTIONS"].values(), *navigation["DETAILS"].values()):
        named.update(pages)
    written = {f"docs/{path.stem}" for path in (checkout / "docs").glob("*.md")}
    assert named == Counter(written | {"serving/README", "CONTRIBUTING", "CHANGELOG"})


def test_every_page_of_the_guide_has_the_same_parts_in_the_same_order(checkout, navigation):
    pages = navigation["SECTIONS"]["Guide for search teams"]
    parts = list(navigation["GUIDE_PARTS"])
    assert len(pages) == 13
    for page in pages:
        text = (checkout / f"{page}.md").read_text("utf-8")
        headings = re.findall(
            r"^## (.*)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M
        )
        assert headings == (parts if page != "docs/glossary" else []), page


def test_the_glossary_explains_each_term_once_in_alphabetical_order(checkout):
    text = (checkout / "docs" / "glossary.md").read_text("utf-8")
    terms = [row.split("|")[1].strip() for row in text.splitlines()[4:]]
    assert len(terms) > 40
    assert terms == sorted(terms, key=str.lower)
    single = [term for row in terms for term in row.split(", ")]
    assert len(single) == len(set(single))

"""The pages of docs/: where they are in the navigation, and the parts of a page of the guide."""

from __future__ import annotations

import re
import runpy
import shlex
from collections import Counter, defaultdict

import pytest

from dssm_tf.cli import main


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


def test_every_flag_of_a_documented_command_exists(checkout, capsys):
    """Commands are lines that begin with `dssm`, with the lines that they continue on."""
    flags = defaultdict(set)
    for page in [checkout / "README.md", *(checkout / "docs").glob("*.md")]:
        lines = page.read_text("utf-8").replace("\\\n", " ").splitlines()
        for line in lines:
            command, *_ = re.split(r" # | && | < | > | \| ", line.strip())
            if re.match(r"dssm [a-z]+ ", command) and not re.match(r"dssm [a-z ]+:", command):
                names = re.match(r"dssm ((?:data )?[a-z]+)", command)[1]
                flags[names] |= {
                    word.partition("=")[0] for word in shlex.split(command) if word[:2] == "--"
                }
    assert len(flags) > 20
    for names, named in flags.items():
        assert main([*names.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert not [flag for flag in named if not re.search(rf"{flag}(?![\w-])", text)], names

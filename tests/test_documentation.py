"""The pages of docs/: where they are in the navigation, and the parts of a page of the guide."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import runpy
import shlex
import sys
from collections import Counter, defaultdict

import pytest

from dssm_tf.cli import main
from dssm_tf.common import command_line


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


def commands(checkout):
    """The indented or fenced lines of all pages, with the lines that they continue on."""
    for page in [checkout / "README.md", *(checkout / "docs").glob("*.md")]:
        for line in page.read_text("utf-8").replace("\\\n", " ").splitlines():
            command, *_ = re.split(r"\s+# | && | < | > | \| ", line.strip())
            yield command


def test_every_documented_program_accepts_its_arguments(checkout, monkeypatch, capsys):
    """Programs of `tests` and `examples`, run until their arguments are parsed."""

    def stop_after_parsing(parser, arguments=None):
        parse_args(parser, arguments)
        sys.exit(0)

    parse_args = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop_after_parsing)
    monkeypatch.setattr(command_line, "run_command", lambda name, function: 0)
    programs = {
        match[1]
        for command in commands(checkout)
        if (match := re.match(r"(?:[A-Z_]+=\S+ )*python -m ((?:tests|examples)\.\S+.*)", command))
    }
    assert len(programs) > 20
    for program in sorted(programs):
        module, *arguments = shlex.split(program)
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        monkeypatch.delitem(sys.modules, module, raising=False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
        assert not ended.value.code, (program, capsys.readouterr().err)


def test_every_flag_of_a_documented_command_exists(checkout, capsys):
    """Commands are lines that begin with `dssm`."""
    flags = defaultdict(set)
    for command in commands(checkout):
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


def imported_names(checkout):
    """The page, module and name of each import of the package in a Python block."""
    for page in [checkout / "README.md", *(checkout / "docs").glob("*.md")]:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("dssm_tf"):
                    for alias in node.names:
                        yield page.name, node.module, alias.name


def test_every_name_that_a_documented_program_imports_exists(checkout):
    names = [*imported_names(checkout)]
    assert ("start_vectors.md", "dssm_tf.training.spelling", "learn_spelling") in names
    missing = [
        (page, module, name)
        for page, module, name in names
        if not hasattr(importlib.import_module(module), name)
        and importlib.util.find_spec(f"{module}.{name}") is None
    ]
    assert not missing

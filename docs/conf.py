"""Sphinx configuration of `make docs`: README.md is the home page, docs/ has the other pages.

The source directory is the checkout, so links work in the repository and on the site.
"""

import re
import sys
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "docs")]

from navigation import DETAILS, SECTIONS  # noqa: E402

import dssm_tf  # noqa: E402  (needs the line above)
from dssm_tf.common.quiet import load_tensorflow  # noqa: E402

load_tensorflow()  # otherwise autodoc imports it, with its log messages

project = "dssm-tf"
version = release = dssm_tf.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "serving/README.md",
]

default_role = "literal"  # single backticks, as in Markdown
highlight_language = "text"
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_custom_sections = [("Call arguments", "params_style"), "Reference"]

html_theme = "furo"  # has its own fonts and scripts, so pages load nothing from other sites
html_title = "dssm-tf"
html_copy_source = False
html_show_sphinx = False

_EXTERNAL = re.compile(r"<(?:script|img|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*")


class Mermaid(SphinxDirective):
    """A flowchart as a list of its boxes; drawing it would need a script of another site."""

    has_content = True

    def run(self):
        """A list of the boxes of the diagram, each with the boxes that its arrows point to."""
        labels, arrows = {}, {}
        for line in self.content:
            sides = [side.split("&") for side in re.split(r"\s*-->\s*", line)]
            names = [[self._name(box, labels) for box in side] for side in sides]
            for left, right in pairwise(names):
                for name in filter(None, left):
                    arrows.setdefault(name, []).extend(filter(None, right))
        bullets = nodes.bullet_list()
        for name, label in labels.items():
            about = f": {label}" if label else ""
            about += f" → {', '.join(arrows[name])}" if name in arrows else ""
            paragraph = nodes.paragraph("", "", nodes.strong(name, name), nodes.Text(about))
            bullets += nodes.list_item("", paragraph)
        return [bullets]

    @staticmethod
    def _name(box, labels):
        match = re.match(r"\s*(\w+)(?:\[\"?(.*?)\"?\])?\s*$", box)
        if match is None or box.strip().startswith("flowchart"):
            return None
        name, label = match.groups()
        if label or name not in labels:
            text = re.sub(r"<b>.*?</b>|<[^>]*>", " ", label or "")
            labels[name] = " ".join(text.split())
        return name


def mark_code(app, kind, name, item, options, lines):
    """Makes indented examples of docstrings code blocks; reStructuredText would quote them."""
    for row in range(len(lines) - 2, 0, -1):
        text, blank, code = lines[row - 1 : row + 2]
        if re.match(r"\S.*[.:]$", text) and not blank and re.match(r" {4}\S", code):
            lines[row : row + 1] = ["", ".. code-block:: python", ""]


def add_navigation(app, name, source):
    """Adds the list of pages to the home page, and to a page the list of those below it.

    Pages that are in neither list come last on the home page.
    """
    if name != root_doc:
        if name in DETAILS:
            source[0] += _toctree(DETAILS[name])
        return
    named = {page for pages in (SECTIONS | DETAILS).values() for page in pages}
    others = sorted(app.env.found_docs - named - {root_doc})
    for caption, pages in (SECTIONS | ({"More": others} if others else {})).items():
        source[0] += _toctree(pages, f":caption: {caption}\n")


def _toctree(pages, options=""):
    return (
        f"\n\n```{{toctree}}\n:hidden:\n{options}\n"
        + "\n".join(f"/{page}" for page in pages)
        + "\n```\n"
    )


def finish(app, exception):
    """Makes README.html the first page.

    Rejects pages that load something from another site, or show code as running text.
    """
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (out / "index.html").write_bytes((out / "README.html").read_bytes())
    for page in out.rglob("*.html"):
        html = page.read_text("utf-8")
        if match := _EXTERNAL.search(html):
            raise SphinxError(f"{page} loads something from another site: {match[0]}")
        if match := re.search(r"<blockquote>\s*.{0,80}", html):
            raise SphinxError(f"{page} shows an indented example as running text: {match[0]}")


def setup(app):
    """Registers the extensions of this file."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("build-finished", finish)

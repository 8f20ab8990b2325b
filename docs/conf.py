"""The site of `make docs`: README.md is its home, docs/ its pages, docstrings its API page.

The source directory is the checkout, so that a link that works in the repository works on the site.
"""

import re
import sys
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

import dssm_tf  # noqa: E402  (found through the line above)
from dssm_tf.common.quiet import load_tensorflow  # noqa: E402

load_tensorflow()  # which autodoc would else do with its chatter

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

NAVIGATION = {
    "Prepare": ["docs/data", "docs/compare"],
    "Train": ["docs/training", "docs/configuration", "docs/tuning"],
    "Measure": ["docs/analysis", "docs/benchmark", "docs/results", "docs/baselines"],
    "Deploy": [
        "docs/retrieval", "docs/search_engines", "docs/serving", "serving/README", "docs/runtime",
        "docs/production", "docs/warm_start",
    ],
    "Scale": ["docs/scale", "docs/engines"],
    "Look up": ["docs/api", "docs/architecture", "docs/faq"],
    "Research": ["docs/paper_settings", "docs/dse", "docs/grades", "docs/position_bias"],
    "Project": ["CONTRIBUTING", "CHANGELOG"],
}  # fmt: skip

default_role = "literal"  # single backticks, as in Markdown
highlight_language = "text"
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_custom_sections = [("Call arguments", "params_style"), "Reference"]

html_theme = "furo"  # brings its own fonts and scripts: pages load nothing from elsewhere
html_title = "dssm-tf"
html_copy_source = False
html_show_sphinx = False

_FROM_ELSEWHERE = re.compile(r"<(?:script|img|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*")


class Mermaid(SphinxDirective):
    """A flowchart as a list of its boxes: drawing it would load a script from elsewhere."""

    has_content = True

    def run(self):
        """Each box, and those its arrows lead to."""
        labels, arrows = {}, {}
        for line in self.content:
            sides = [side.split("&") for side in re.split(r"\s*-->\s*", line)]
            names = [[self._name(box, labels) for box in side] for side in sides]
            for left, right in pairwise(names):
                for name in filter(None, left):
                    arrows.setdefault(name, []).extend(filter(None, right))
        found = nodes.bullet_list()
        for name, label in labels.items():
            about = f": {label}" if label else ""
            about += f" → {', '.join(arrows[name])}" if name in arrows else ""
            paragraph = nodes.paragraph("", "", nodes.strong(name, name), nodes.Text(about))
            found += nodes.list_item("", paragraph)
        return [found]

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


def add_navigation(app, name, source):
    """Puts the list of pages below the home page; a page that is not named comes last."""
    if name != root_doc:
        return
    named = {page for pages in NAVIGATION.values() for page in pages}
    others = sorted(app.env.found_docs - named - {root_doc})
    for caption, pages in (NAVIGATION | ({"More": others} if others else {})).items():
        lines = "\n".join(pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def finish(app, exception):
    """Makes README.html the first page, and refuses pages that load something from elsewhere."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (out / "index.html").write_bytes((out / "README.html").read_bytes())
    for page in out.rglob("*.html"):
        if found := _FROM_ELSEWHERE.search(page.read_text("utf-8")):
            raise SphinxError(f"{page} loads something from elsewhere: {found[0]}")


def setup(app):
    """What this file adds to Sphinx."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", finish)

"""One self-contained HTML document: no network, light and dark, phone and desk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

# Whatever a text of the data might become, it loads nothing; heat maps are images in the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def document(title: str, body: str, scripts: Sequence[str] = (), policy: str = POLICY) -> str:
    """A whole HTML document.

    Args:
        title: plain text.
        body: HTML, already escaped.
        scripts: JavaScript, run in turn when the body is there.
        policy: what the page may load and run.
    """
    ends = "".join(f"\n<script>\n{script}</script>" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{source('style.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>{ends}\n</body>\n</html>\n"
    )


def embedded(data: Any) -> str:
    """Data for the page's script, as an element of JSON that nothing in it can end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="data">{text}</script>'


def source(name: str) -> str:
    """A file beside this one: the style, or the script, of every page."""
    return (files("dssm_tf.reports") / name).read_text("utf-8")

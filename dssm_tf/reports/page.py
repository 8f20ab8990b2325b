"""Self-contained HTML documents: no network access, light and dark, for phones and desktops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

# Allows no request, even if text from the data were read as HTML. Heat maps are `data:` images.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def document(title: str, body: str, scripts: Sequence[str] = (), policy: str = POLICY) -> str:
    """Assembles an HTML document.

    Args:
        title: plain text.
        body: HTML, already escaped.
        scripts: JavaScript, run in this order after the body.
        policy: the content security policy.
    """
    script_elements = "".join(f"\n<script>\n{script}</script>" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{read_source('style.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>{script_elements}\n</body>\n</html>\n"
    )


def json_element(data: Any) -> str:
    """A script element with data as JSON, for the page's script. No text in the data can end it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="data">{text}</script>'


def read_source(name: str) -> str:
    """Reads a file of this package: the style sheet or the script of every page."""
    return (files("dssm_tf.reports") / name).read_text("utf-8")

"""Words of scripts without spaces, from the names and categories of Unicode, letter by letter."""

from __future__ import annotations

import unicodedata

NAMES = {
    "CJK UNIFIED": "cjk", "CJK COMPATIBILITY": "cjk", "IDEOGRAPHIC": "cjk", "HANGZHOU": "cjk",
    "HIRAGANA": "cjk", "KATAKANA": "cjk", "KATAKANA-HIRAGANA": "cjk",
    "COMBINING KATAKANA-HIRAGANA": "cjk", "VERTICAL KANA": "cjk",
    "VERTICAL IDEOGRAPHIC": "cjk", "MASU": "cjk", "HENTAIGANA": "cjk",
    "THAI": "thai", "LAO": "lao", "KHMER": "khmer", "MYANMAR": "myanmar",
}  # fmt: skip


def script_of(character: str) -> str:
    """The script without spaces that a letter or mark belongs to; `""` for other characters.

    Planes 2 and 3 are for ideographs. Code points that later versions of Unicode assign count too.
    """
    if 0x20000 <= ord(character) < 0x40000:
        return "cjk"
    if unicodedata.category(character)[0] not in "LM" and unicodedata.category(character) != "Nl":
        return ""
    name = unicodedata.name(character, "")
    return next((script for start, script in NAMES.items() if name.startswith(f"{start} ")), "")


def split(chunk: str) -> list[str]:
    """The words of a part of a text that contains no separator."""
    parts: list[tuple[str, list[str]]] = []  # of one script, in letters with their marks
    for character in chunk:
        script = script_of(character)
        if not parts or parts[-1][0] != script:
            parts.append((script, [character]))
        elif not script or unicodedata.category(character)[0] == "M":
            parts[-1][1][-1] += character
        else:
            parts[-1][1].append(character)
    words = []
    for _, letters in parts:
        if len(letters) == 1:
            words += letters
        words += [letters[at] + letters[at + 1] for at in range(len(letters) - 1)]
    return words

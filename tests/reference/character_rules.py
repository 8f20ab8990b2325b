"""The character rules of `dssm_tf.text`, derived from the Unicode database of Python.

`python -m tests.reference.character_rules` prints the tables that `character_rules.py` freezes, and
with `accents` those of `accents.py`. Run it with a Python whose `unicodedata.unidata_version` is
`UNICODE_VERSION`.
"""

import re
import sys
import unicodedata
from functools import cache

UNICODE_VERSION = "14.0.0"
FIRST_EMOJI = 0x1F000
ZERO_WIDTH_SPACE = 0x200B
# Blocks of marks that a script's own readers leave out: those of Latin, Greek and Cyrillic, Hebrew
# points, Arabic vowel signs, and the further blocks of combining diacritics.
OPTIONAL_MARKS = (
    (0x300, 0x36F),
    (0x483, 0x487),
    (0x591, 0x5C7),
    (0x64B, 0x652),
    (0x670, 0x670),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0xFE20, 0xFE2F),
)
SPELLED = {
    "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i", "ȷ": "j", "ŋ": "n",
    "ĸ": "q", "ſ": "s", "ŉ": "n", "ĳ": "ij", "ǆ": "dz", "ǳ": "dz", "ǉ": "lj", "ǌ": "nj",
}  # fmt: skip


def is_deleted(code: int) -> bool:
    """Format characters (soft hyphen, joiners, direction marks) and variation selectors."""
    return (
        (unicodedata.category(chr(code)) == "Cf" and code != ZERO_WIDTH_SPACE)
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
    )


def is_separator(code: int) -> bool:
    """Punctuation, white space, control, surrogates, and symbols other than emoji."""
    category = unicodedata.category(chr(code))
    if category[0] == "S":
        return code < FIRST_EMOJI
    return category[0] in "PZ" or category in ("Cc", "Cs") or code == ZERO_WIDTH_SPACE


def lower(code: int) -> int:
    """Simple lower case: one character to one, wherever in the word it stands."""
    if code == 0x130:  # capital dotted I
        return ord("i")
    if code == 0x3C2:  # final sigma
        return 0x3C3
    lowered = chr(code).lower()
    return ord(lowered) if len(lowered) == 1 else code


def is_mark(code: int) -> bool:
    """A mark that can be left out: nonspacing or enclosing, in one of `OPTIONAL_MARKS`."""
    inside = any(first <= code <= last for first, last in OPTIONAL_MARKS)
    return inside and unicodedata.category(chr(code)) in ("Mn", "Me")


@cache
def fold(letter: str) -> str:
    """A lower-case letter without its marks; itself where that is nothing else."""
    if letter in SPELLED:
        return SPELLED[letter]
    base, *marks = unicodedata.normalize("NFD", letter)
    if marks and all(is_mark(ord(mark)) for mark in marks):
        return fold(base)
    name = unicodedata.name(letter, "")
    if ord(letter) < 0x10000 and (found := re.match("LATIN SMALL LETTER ([A-Z]) WITH ", name)):
        return found[1].lower()
    return letter


def folds() -> dict[str, str]:
    """By what they fold to: the lower-case letters that fold, in the order of code points."""
    found: dict[str, str] = {}
    for code in range(sys.maxunicode + 1):
        if is_deleted(code) or is_separator(code) or is_mark(code) or lower(code) != code:
            continue
        if (base := fold(chr(code))) != chr(code):
            found[base] = found.get(base, "") + chr(code)
    return dict(sorted(found.items()))


def ranges(predicate) -> list[tuple[int, int]]:
    """Inclusive ranges of code points for which `predicate` holds."""
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if predicate(code):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    return found


def lower_runs() -> list[tuple[int, int, int, int]]:
    """Runs (first, last, step, shift) of code points that have a lower case."""
    pairs = [
        (code, lower(code))
        for code in range(sys.maxunicode + 1)
        if not is_deleted(code) and not is_separator(code) and lower(code) != code
    ]
    runs: list[list[int]] = []
    for code, target in pairs:
        shift = target - code
        if runs:
            first, last, step, run_shift = runs[-1]
            gap = code - last
            if shift == run_shift and gap <= 2 and (first == last or gap == step):
                runs[-1] = [first, code, gap, shift]
                continue
        runs.append([code, code, 1, shift])
    return [tuple(run) for run in runs]


def _rows(name: str, rows: list[tuple[int, ...]], hexadecimal: int) -> str:
    cells = []
    for row in rows:
        shown = [f"{v:#x}" if i < hexadecimal else str(v) for i, v in enumerate(row)]
        cells.append("(" + ", ".join(shown) + ")")
    lines, line = [], "   "
    for cell in cells:
        if len(line) + len(cell) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {cell},"
    kind = ", ".join(["int"] * len(rows[0]))
    return f"{name}: tuple[tuple[{kind}], ...] = (\n" + "\n".join([*lines, line]) + "\n)\n"


def _written(letters: str) -> str:
    """Letters as in source; those that are written from right to left, as escapes."""
    parts = []
    for letter in letters:
        leftwards = unicodedata.bidirectional(letter) in ("R", "AL")
        parts.append(f"\\u{ord(letter):04X}" if leftwards else letter)
    return "".join(parts)


def main() -> None:
    """Prints the frozen tables as Python source."""
    if "accents" in sys.argv:
        sys.stdout.write(_rows("MARKS", ranges(is_mark), 2))
        sys.stdout.write("LETTERS: dict[str, str] = {\n")
        for base, letters in folds().items():
            sys.stdout.write(f'    "{_written(base)}": "{_written(letters)}",\n')
        sys.stdout.write("}\n")
        return
    sys.stdout.write(_rows("DELETED", ranges(is_deleted), 2))
    sys.stdout.write(_rows("SEPARATORS", ranges(is_separator), 2))
    sys.stdout.write(_rows("LOWER", lower_runs(), 2))


if __name__ == "__main__":
    main()

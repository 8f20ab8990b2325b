"""The character rules of `dssm_tf.text`, derived from the Unicode database of Python.

`python -m tests.reference.character_rules` prints the tables that `character_rules.py` freezes.
Run it with a Python whose `unicodedata.unidata_version` is `UNICODE_VERSION`.
"""

import sys
import unicodedata

UNICODE_VERSION = "14.0.0"
FIRST_EMOJI = 0x1F000
ZERO_WIDTH_SPACE = 0x200B


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


def main() -> None:
    """Prints the frozen tables as Python source."""
    sys.stdout.write(_rows("DELETED", ranges(is_deleted), 2))
    sys.stdout.write(_rows("SEPARATORS", ranges(is_separator), 2))
    sys.stdout.write(_rows("LOWER", lower_runs(), 2))


if __name__ == "__main__":
    main()

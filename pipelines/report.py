"""What happened to a log, for programs (`report.json`) and for people (`report.md` and `.html`)."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dssm_tf.reports import markdown
from dssm_tf.reports.markdown import bullets, plain, table
from dssm_tf.tables.tally import Tally
from pipelines.graph import Manifest
from pipelines.options import PreprocessOptions

REPORT_JSON = "report.json"


def make(manifest: Manifest, options: PreprocessOptions, tally: Tally) -> dict[str, Any]:
    """The report as plain data.

    Args:
        manifest: what the pipeline counted.
        options: the settings.
        tally: how much of the log was malformed.
    """
    counts = {
        **{name: number for name, number in manifest.counts.items() if ": " in name},
        "letter trigrams: in all": len(manifest.vocabulary.ngrams),
    }
    curve = manifest.curve
    lines = tally.lines() + listed(counts)
    if curve is not None:
        lines.append(curve.summary(options.max_position_weight))
    return {
        "settings": {
            name: value
            for name, value in asdict(options).items()
            if name not in ("output", "overwrite")
        },
        "rows": tally.described(),
        "counts": counts,
        "vocabulary": manifest.vocabulary.fingerprint,
        "positions": curve and curve.to_dict(options.max_position_weight),
        "lines": lines,
    }


def listed(counts: Mapping[str, int]) -> list[str]:
    """Counts in words, those of one kind in a line, as in `train: 2 clicks, 3 pairs`.

    Those without a kind are for the launcher alone.
    """
    kinds = defaultdict(list)
    for name, number in counts.items():
        kind, colon, of = name.partition(": ")
        if colon:
            kinds[kind].append(f"{number:,} {of}")
    return [f"{kind}: {', '.join(numbers)}" for kind, numbers in kinds.items()]


def _setting(value: object) -> str:
    """The value of a flag as it is typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return shlex.join(map(str, value))
    return str(value)


def write(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `report.json`, `report.md` and `report.html`."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    (directory / REPORT_JSON).write_text(f"{text}\n", "utf-8")
    settings = [
        [f"--{name.replace('_', '-')}", plain(_setting(value))]
        for name, value in report["settings"].items()
    ]
    parts = [
        "# Click log to training records",
        bullets(report["lines"]),
        "Rejected rows are malformed. rejects.tsv lists each with its file, line and reason.",
        "## Settings",
        table(["flag", "value"], settings, text=2),
    ]
    markdown.write(directory, "\n\n".join(parts))

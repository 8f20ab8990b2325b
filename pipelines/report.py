"""Reports on preprocessed data: `report.json` for programs, `report.md` and `.html` for people."""

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
from pipelines.manifest import Manifest
from pipelines.options import PreprocessOptions

REPORT_JSON = "report.json"


def build_report(manifest: Manifest, options: PreprocessOptions, tally: Tally) -> dict[str, Any]:
    """The report as plain data.

    Args:
        manifest: results of the pipeline.
        options: the settings.
        tally: counts of good and malformed rows.
    """
    counts = {
        **{name: number for name, number in manifest.counts.items() if ": " in name},
        **{
            f"letter n-grams: {kind.replace('_', ' ')}": manifest.vocabulary.counts[kind]
            for kind in options.kinds
        },
    }
    curve = manifest.curve
    lines = tally.lines() + count_lines(counts)
    if curve is not None:
        lines.append(curve.summary(options.max_position_weight))
    return {
        "settings": {
            name: value
            for name, value in asdict(options).items()
            if name not in ("output", "overwrite")
        },
        "rows": tally.to_dict(),
        "counts": counts,
        "vocabulary": manifest.vocabulary.fingerprint,
        "positions": curve and curve.to_dict(options.max_position_weight),
        "lines": lines,
    }


def count_lines(counts: Mapping[str, int]) -> list[str]:
    """Formats counts, one line per kind, such as `train: 2 clicks, 3 pairs`.

    A name without a kind is left out; only the launcher uses such counts.
    """
    kinds = defaultdict(list)
    for name, count in counts.items():
        kind, colon, label = name.partition(": ")
        if colon:
            kinds[kind].append(f"{count:,} {label}")
    return [f"{kind}: {', '.join(items)}" for kind, items in kinds.items()]


def _setting(value: object) -> str:
    """The value of a flag as a user writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return shlex.join(map(str, value))
    return str(value)


def write_report(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `report.json`, `report.md` and `report.html`."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    (directory / REPORT_JSON).write_text(f"{text}\n", "utf-8")
    settings = [
        [f"--{name.replace('_', '-')}", plain(_setting(value))]
        for name, value in report["settings"].items()
    ]
    if report["settings"]["input"]:
        title = "Click log to training records"
        note = "Rejected rows are malformed. rejects.tsv lists each with its file, line and reason."
    else:
        title = "Titles to training records"
        note = "There is no click log. `dssm train` uses the titles as their own queries."
    sections = [
        f"# {title}",
        bullets(report["lines"]),
        note,
        "## Settings",
        table(["flag", "value"], settings, text=2),
    ]
    markdown.write(directory, "\n\n".join(sections))

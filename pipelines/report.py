"""Reports on preprocessed data: `report.json` for programs, `report.md` and `.html` for people."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from dssm_tf.reports import markdown
from dssm_tf.reports.markdown import bullets, plain, table
from dssm_tf.tables.tally import Tally
from dssm_tf.text.rules import NGRAM_KINDS
from pipelines.log_sections import log_sections, to_markdown
from pipelines.log_summary import summarize_log
from pipelines.manifest import OutputManifest
from pipelines.options import PreprocessOptions
from pipelines.output import REPORT_JSON
from pipelines.previous import PreviousReport


def build_report(
    manifest: OutputManifest,
    options: PreprocessOptions,
    tally: Tally,
    previous: PreviousReport | None = None,
) -> dict[str, Any]:
    """The report as plain data.

    Args:
        manifest: results of the pipeline.
        options: the settings.
        tally: counts of good and malformed rows.
        previous: the earlier output that `--previous-report` names, if any.
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
        hint = "" if curve.problem else "; train with --set training.click_weight=linear"
        lines.append(curve.summary(options.max_position_weight) + hint)
    return {
        "settings": {
            name: value
            for name, value in asdict(options).items()
            if name not in ("output", "overwrite")
        },
        "log": summarize_log(manifest.statistics, manifest.counts, tally, options, previous),
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


def _flag(name: str) -> str:
    """The flag of a setting, as users type it."""
    return f"--{name.replace('_', '-')}"


def _value(value: object) -> str:
    """The value of a flag, as users type it."""
    if isinstance(value, bool):
        return "" if value else "not given"
    if value == "":
        return "not given"
    return shlex.join(map(str, value if isinstance(value, (tuple, list)) else [value]))


def typed_command(settings: Mapping[str, Any]) -> str:
    """The command line with the flags that differ from their defaults, without `--output`.

    >>> typed_command({"input": ["my log.tsv"], "min_clicks": 2, "keep_accents": True, "seed": 0})
    "dssm preprocess --input 'my log.tsv' --min-clicks 2 --keep-accents"
    """
    words = ["dssm preprocess"]
    for name, value in settings.items():
        if value != _DEFAULTS[name]:
            words.append(f"{_flag(name)} {_value(value)}".rstrip())
    return " ".join(words)


_DEFAULTS: dict[str, Any] = {
    field.name: [] if field.default == () else field.default for field in fields(PreprocessOptions)
} | {"letter_ngrams": ",".join(NGRAM_KINDS)}
"""The default of each setting, as in `report.json`."""


def write_report(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `report.json`, `report.md` and `report.html`."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    (directory / REPORT_JSON).write_text(f"{text}\n", "utf-8")
    settings = json.loads(text)["settings"]
    defaults = [
        [_flag(name), plain(_value(value))]
        for name, value in settings.items()
        if value == _DEFAULTS[name]
    ]
    if settings["input"]:
        title = "Click log to training records"
        note = "Rejected rows are malformed. rejects.tsv lists each with its file, line and reason."
    else:
        title = "Titles to training records"
        note = "There is no click log. `dssm train` uses the titles as their own queries."
    sections = [
        f"# {title}",
        to_markdown(log_sections(report["log"])),
        "## Training records",
        bullets(report["lines"]),
        note,
        "## Appendix: flags",
        f"```\n{typed_command(settings)}\n```",
        "Every other flag has its default:",
        table(["flag", "value"], defaults, text_columns=2),
    ]
    markdown.write(directory, "\n\n".join(sections))

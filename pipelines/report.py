"""What happened to a log, for programs (`report.json`) and for people (`report.md` and `.html`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dssm_tf.common import markdown
from dssm_tf.common.markdown import bullets, plain, table
from dssm_tf.tables.tally import Tally
from pipelines.graph import Manifest
from pipelines.options import SPLITS, TRAIN, PreprocessOptions
from pipelines.output import REPORT_JSON
from pipelines.sums import ONE_FINGERPRINT


def make(
    manifest: Manifest, options: PreprocessOptions, read: Tally, known: int = 0
) -> dict[str, Any]:
    """The report as plain data.

    Args:
        manifest: what the pipeline counted.
        options: the settings.
        read: how much of the log was malformed.
        known: trigrams of the vocabulary that this one goes on from.
    """
    counts, curve = Counter(manifest.counts), manifest.curve
    vocabulary = manifest.vocabulary
    settings = asdict(options)
    for place in ("output", "overwrite"):
        del settings[place]
    splits = {
        split: {name: counts[f"{name} {split}"] for name in ("queries", "pairs", "clicks")}
        for split in SPLITS
        if counts[f"queries {split}"]
    }
    placed = counts["clicks placed"]
    return {
        "settings": settings,
        "rows": {
            **read.described(),
            "dropped": named(counts, "dropped "),
            "used": counts["rows used"],
        },
        "sessions": counts["sessions"],
        "splits": splits,
        "pairs_without_negatives": counts[f"without negatives {TRAIN}"],
        "titles": counts["titles"],
        "titles_train": counts["titles train"],
        "titles_corpus": counts["titles corpus"],
        "one_fingerprint": counts[ONE_FINGERPRINT],
        "vocabulary": {
            "trigrams": len(vocabulary.ngrams),
            "trigrams_new": len(vocabulary.ngrams) - known,
            "fingerprint": vocabulary.fingerprint,
        },
        "positions": curve
        and curve.described(options.max_position_weight)
        | {"clicks": placed, "unplaced": counts["clicks read"] - placed},
    }


def write(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `report.json`, `report.md` and `report.html`."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    (directory / REPORT_JSON).write_text(f"{text}\n", "utf-8")
    markdown.write(directory, _text(report))


def lines(report: Mapping[str, Any]) -> list[str]:
    """What a person wants to know when the job is done."""
    rows, settings, words = report["rows"], report["settings"], report["vocabulary"]
    found = Tally.of(rows).lines()
    if rows["dropped"]:
        found.append(f"dropped: {listed(rows['dropped'])}")
    if report["sessions"]:
        found.append(f"{report['sessions']:,} sessions")
    found += [f"{split}: {listed(counts)}" for split, counts in report["splits"].items()]
    if settings["negatives"] and (bare := report["pairs_without_negatives"]):
        found.append(f"{bare:,} of the training pairs have no negative")
    corpus = f"; {report['titles_corpus']:,} are from the corpus" if report["titles_corpus"] else ""
    found.append(
        f"{report['titles_train']:,} of {report['titles']:,} titles are clicked in the training "
        f"part{corpus}"
    )
    if merged := report["one_fingerprint"]:
        found.append(f"{merged:,} texts or words have the fingerprint of another one and became it")
    earlier = settings["vocabulary_from"]
    new = f", {words['trigrams_new']:,} of them new to {earlier}" if earlier else ""
    found.append(f"{words['trigrams']:,} letter trigrams{new}")
    if (positions := report["positions"]) and positions["problem"]:
        found.append(f"{positions['problem']}; every click counts once")
    elif positions:
        weights = ", ".join(f"{one:.2f}" for one in positions["weights"][:10])
        found.append(
            f"clicks at positions 1, 2, ... weigh {weights} ({positions['method']}; "
            f"{positions['unplaced']:,} clicks have no position and weigh 1); train with "
            "--set training.click_weight=linear"
        )
    return found


def _text(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    kinds = [
        ("read", "", rows["in"]),
        *(("rejected", *one) for one in Counter(rows["rejected"]).most_common()),
        *(("dropped", *one) for one in Counter(rows["dropped"]).most_common()),
        ("used", "", rows["used"]),
    ]
    shares = [
        [what, plain(reason), f"{number:,}", f"{number / rows['in']:.1%}"]
        for what, reason, number in kinds
    ]
    settings = [[f"--{name}", plain(str(value))] for name, value in report["settings"].items()]
    return "\n\n".join(
        [
            "# Click log to training records",
            bullets(lines(report)),
            "## What happened to the rows",
            table(["rows", "reason", "number", "share"], shares, text=2),
            "Rejected rows are malformed; rejects.tsv lists each with its file, line and reason.",
            "## Settings",
            table(["flag", "value"], settings, text=2),
        ]
    )


def listed(counts: Mapping[str, int]) -> str:
    """Counts in a row, as in `3 pairs, 2 clicks`."""
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """The counts whose names begin with the prefix, by the rest of the name."""
    return {
        name.removeprefix(prefix): number
        for name, number in counts.items()
        if name.startswith(prefix)
    }

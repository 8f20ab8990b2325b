"""What happened to a log, for programs (`report.json`) and for people (`report.html`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dssm_tf.common.files import atomic_write
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.tables.tally import Placed, Tally, largest
from pipelines.graph import Manifest
from pipelines.options import SPLITS, TRAIN, PreprocessOptions
from pipelines.output import REPORT_HTML, REPORT_JSON
from pipelines.report_page import report_page


def make(
    manifest: Manifest,
    options: PreprocessOptions,
    vocabulary_fingerprint: str,
    read: Tally,
    samples: Sequence[Mapping[str, Any]],
    known: int = 0,
    curve: ExaminationCurve | None = None,
) -> dict[str, Any]:
    """The report as plain data.

    Args:
        manifest: what the pipeline counted.
        options: the settings.
        vocabulary_fingerprint: of the trigrams.
        read: how much of the log was malformed.
        samples: of training records.
        known: trigrams of the vocabulary that this one goes on from.
        curve: that clicks are weighted by.
    """
    counts = manifest.counts
    settings = asdict(options)
    for place in ("output", "overwrite"):
        del settings[place]
    splits = {
        split: {
            name: counts.get(f"{name} {split}", 0)
            for name in ("queries", "pairs", "clicks", "records")
        }
        for split in SPLITS
        if f"queries {split}" in counts
    }
    ngrams = counts.get("ngrams", 0)
    words, covered = counts.get("covered words", 0), counts.get("covered words known", 0)
    return {
        "settings": settings,
        "rows": {
            **read.described(),
            "dropped": named(counts, "dropped "),
            "used": counts.get("rows used", 0),
        },
        "sessions": counts.get("sessions", 0),
        "pairs_dropped": counts.get("pairs dropped", 0),
        "splits": splits,
        "queries": sum(one["queries"] for one in splits.values()),
        "records_without_negatives": counts.get(f"without negatives {TRAIN}", 0),
        "titles": counts.get("titles", 0),
        "titles_train": counts.get("titles train", 0),
        "titles_corpus": counts.get("titles corpus", 0),
        "query_words": histogram(counts, "query words "),
        "title_words": histogram(counts, "title words "),
        "clicks_a_query": histogram(counts, "clicks a query "),
        "vocabulary": {
            "trigrams": len(manifest.ngrams),
            "trigrams_new": len(manifest.ngrams) - known,
            "fingerprint": vocabulary_fingerprint,
            "validation_trigrams_known": counts.get("ngrams known", 0) / ngrams if ngrams else None,
            "validation_words": words,
            "validation_words_known": covered / words if words else None,
        },
        "positions": _positions(curve, counts, options) if curve else None,
        "samples": list(samples),
    }


def _positions(
    curve: ExaminationCurve, counts: Mapping[str, int], options: PreprocessOptions
) -> dict[str, Any]:
    """The curve and the clicks that it weighs."""
    placed = counts.get("clicks placed", 0)
    read = counts.get("clicks read", 0) - counts.get("clicks rejected", 0)
    return curve.described(options.max_position_weight) | {
        "clicks": placed,
        "unplaced": read - placed,
    }


def tally(manifest: Manifest, rejects: Iterable[Placed]) -> Tally:
    """How much of the log was malformed."""
    counts = manifest.counts
    return Tally(
        counts.get("rows", 0),
        counts.get("clicks read", 0),
        counts.get("clicks rejected", 0),
        Counter(named(counts, "rejected ")),
        largest(rejects),
    )


def write(report: Mapping[str, Any], directory: Path) -> None:
    """Writes `report.json` and `report.html`."""
    with atomic_write(directory / REPORT_JSON) as file:
        json.dump(report, file, indent=2, ensure_ascii=False)
        file.write("\n")
    with atomic_write(directory / REPORT_HTML) as file:
        file.write(report_page(report))


def summary(report: Mapping[str, Any], output: str) -> str:
    """What a person at the terminal wants to know when the job is done."""
    rows, splits, words = report["rows"], report["splits"], report["vocabulary"]
    seconds = report["seconds"]
    lines = [f"{rows['in']:,} rows in {seconds:.1f} s ({rows['in'] / seconds:,.0f} a second)"]
    lines += Tally.of(rows).lines()
    if dropped := rows["dropped"]:
        each = ", ".join(f"{number:,} {reason}" for reason, number in dropped.items())
        lines.append(f"dropped: {each}")
    for split, counts in splits.items():
        lines.append(
            f"{split}: {counts['records']:,} records of {counts['queries']:,} queries, "
            f"{counts['clicks']:,} clicks"
        )
    if report["settings"]["negatives"] and (bare := report["records_without_negatives"]):
        lines.append(f"{bare:,} of the training records have no negative")
    earlier = report["settings"]["vocabulary_from"]
    new = f", {words['trigrams_new']:,} of them new to {earlier}" if earlier else ""
    lines.append(
        f"{report['titles']:,} titles, {report['titles_train']:,} of them clicked in the training "
        f"part; {words['trigrams']:,} letter trigrams{new}"
    )
    if (positions := report["positions"]) and positions["problem"]:
        lines.append(f"{positions['problem']}; every click counts once")
    elif positions:
        weights = ", ".join(f"{one:.2f}" for one in positions["weights"][:10])
        more = ", ..." if len(positions["weights"]) > 10 else ""
        lines.append(
            f"clicks at positions 1, 2, ... weigh {weights}{more} ({positions['method']}); train "
            "with --set training.click_weight=linear"
        )
    lines.append(f"written to {output}; read {output.rstrip('/')}/{REPORT_HTML}")
    return "\n".join(lines)


def named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """The counts above 0 whose names begin with the prefix, by the rest of the name."""
    return {
        name.removeprefix(prefix): number
        for name, number in counts.items()
        if name.startswith(prefix) and number
    }


def histogram(counts: Mapping[str, int], prefix: str) -> dict[int, int]:
    """The counts whose names are the prefix and a number, in the order of the numbers."""
    return dict(sorted((int(size), number) for size, number in named(counts, prefix).items()))

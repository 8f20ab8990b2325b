"""What tables and pages have in common: labels, numbers, and what was done, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.intervals import caution, interval
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.evaluation.significance import SIGNIFICANT
from dssm_tf.text.rules import FOLDED

COSTS = {
    "training_seconds": "Training",
    "microseconds_per_query": "µs a query",
    "megabytes": "MB",
}
"""What may be known of a row's cost, in `SeedResult.about`, and how tables head it."""

PARTS = {
    "known": "Queries in the log",
    "new": "Queries that are not in the log",
}
"""How tables head the parts of an evaluation."""

_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"  # Unicode has no raised q
_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


Cell = dict[str, Any]
"""A mean as every table shows it: a row of `Evaluation.summary`, and what `cells_of` adds."""


def cells_of(evaluation: Evaluation, part: str | None = None) -> Mapping[str, Sequence[Cell]]:
    """The means of every row that has some, metric by metric.

    Args:
        evaluation: what was found.
        part: of the queries, a key of `parts`, or all; of a part, nothing was tested.

    Returns:
        By system, the rows of its summary with `shown`, the mean in three digits; `interval`;
        `best`, whether it is the highest of its column, as shown, of more than one; and `beaten`,
        the systems with a letter that it is significantly better than.
    """
    cells = evaluation.summary(part).rows_by_key("system", named=True, include_key=True)
    for column in zip(*cells.values(), strict=True):
        shown = [f"{cell['mean']:.3f}" for cell in column]
        for cell, text in zip(column, shown, strict=True):
            cell["shown"], cell["best"] = text, text == max(shown) and len(shown) > 1
            cell["interval"] = interval(cell["low"], cell["high"])
            cell["beaten"] = [] if part else beaten(evaluation, cell["system"], cell["metric"])
    return cells


def beaten(evaluation: Evaluation, system: str, metric: str) -> list[str]:
    """Systems of `against` that this one beats with an adjusted p below 0.05."""
    won = {
        worse
        for test in evaluation.comparisons
        if test.metric == metric and test.p_adjusted < SIGNIFICANT
        for better, worse in [(test.a, test.b) if test.difference > 0 else (test.b, test.a)]
        if better == system
    }
    return [name for name in evaluation.against if name in won]


def reference(evaluation: Evaluation, system: str) -> str | None:
    """The first of `against` to compare a system with: both with the prior, or neither."""
    prior = {row.name: row.prior for row in evaluation.rows}
    alike = (name for name in evaluation.against if prior[name] == prior[system])
    return next((name for name in alike if name != system), None)


def deciding_metric(evaluation: Evaluation) -> str:
    """The metric that a report opens with: NDCG@10 where it was measured."""
    return "ndcg@10" if "ndcg@10" in evaluation.metrics else evaluation.metrics[0]


def costed(evaluation: Evaluation) -> bool:
    """Whether anything is known of what the systems cost."""
    return any(row.cost(name) is not None for row in evaluation.rows for name in COSTS)


def cautions(evaluation: Evaluation) -> list[str]:
    """What means nothing, and what rests on few queries."""
    found = caution("The means rest on", evaluation.measured_queries)
    if not found:  # of fewer in all, the parts have fewer still
        for name, part in evaluation.parts.items():
            found += caution(f"{PARTS[name]}: means rest on", int(part.sum()))
    if evaluation.half is not None and _chosen(evaluation):
        half = min(int((evaluation.half[evaluation.task.counted] == h).sum()) for h in (0, 1))
        found += caution("Free parameters were chosen on halves, the smaller of", half)
    return evaluation.task.foregone() + found


def _chosen(evaluation: Evaluation) -> bool:
    """Whether cross validation chose something."""
    return any(
        isinstance(one.about.get("chosen"), list) for row in evaluation.rows for one in row.seeds
    )


def mark(evaluation: Evaluation, systems: Sequence[str]) -> str:
    """The raised letters of those systems that something is compared with, such as `ᵃᵇ`."""
    if not evaluation.comparisons:
        return ""
    places = [evaluation.against.index(name) for name in systems if name in evaluation.against]
    return "".join(map(raised, places))


def raised(place: int) -> str:
    """The raised letter of a place, from 0 on, or its raised number where letters end.

    >>> raised(0), raised(24), raised(25)
    ('ᵃ', 'ᶻ', '⁽²⁶⁾')
    """
    return _LETTERS[place] if place < len(_LETTERS) else f"⁽{place + 1}⁾".translate(_DIGITS)


def cost(name: str, number: float | None) -> str:
    """One of `COSTS` in three digits or so.

    >>> cost("megabytes", 0.0312), cost("megabytes", 4.01), cost("microseconds_per_query", 1234.5)
    ('0.03', '4.0', '1,234')
    >>> [cost("training_seconds", number) for number in (0.034, 1, 75, 7300, None)]
    ['0.03 s', '1.0 s', '75 s', '7,300 s', '-']
    """
    if number is None:
        return "-"
    if number >= 10:
        digits = 0
    elif number >= 1:
        digits = 1
    else:
        digits = 2
    return f"{number:,.{digits}f}{' s' if name == 'training_seconds' else ''}"


def plural(number: int, one: str, many: str) -> str:
    """A number with the right words.

    >>> plural(1, "query has", "queries have"), plural(1000, "query", "queries")
    ('1 query has', '1,000 queries')
    """
    return f"{number:,} {one if number == 1 else many}"


def sentence(text: str) -> str:
    """A text that ends as a sentence does."""
    return text if text.endswith((".", "?")) else f"{text}."


def _noise_of_training(evaluation: Evaluation) -> list[str]:
    """What the tests leave out: another seed would have given another model."""
    if not evaluation.comparisons:
        return []
    metric = deciding_metric(evaluation)
    spreads = evaluation.summary().filter(metric=metric)["spread"].drop_nulls().to_list()
    known = "with one seed, the effect of another is unknown"
    if spreads:
        known = (
            f"another seed moves {metric_label(metric)} by {min(spreads):.3f} to "
            f"{max(spreads):.3f} here (standard deviation, by system; median "
            f"{np.median(spreads):.3f})"
        )
    return [f"The tests account for chance in the queries, not in training: {known}."]


def protocol(evaluation: Evaluation) -> list[str]:
    """What was done, in sentences: shown with every table."""
    task, settings = evaluation.task, evaluation.settings
    left_out = len(task.queries) - evaluation.measured_queries
    measured = plural(evaluation.measured_queries, "query", "queries")
    ranks = "Each query ranks its judged titles."
    if task.whole_corpus:
        ranks = (
            f"Each query ranks the whole corpus of {len(task.titles):,} titles; "
            "titles that are not judged have grade 0."
        )
    counts = "Every query has a relevant title (grade above 0)."
    if left_out:
        counts = (
            f"{plural(left_out, 'further query has', 'further queries have')} no relevant title "
            "(all grades 0): left out of the means."
        )
    sentences = [
        ranks,
        f"Means over {measured}, each with its 95 % interval over queries (Student's t).",
        counts,
        "NDCG: gain 2^grade - 1, discount log2(rank + 1). Ties are broken by a hash of the "
        "title's text.",
    ]
    if split := settings.get("log", {}).get("split"):
        sentences.append(f"The log: {split}.")
    if evaluation.seen is not None:
        sentences.append(
            f"{int(evaluation.new_queries.sum()):,} of the {measured} are not in the click log."
        )
    if wordless := sum(not FOLDED.key(query) for query in task.queries):
        sentences.append(
            f"{plural(wordless, 'query has', 'queries have')} no word after normalisation. "
            "Only popularity can rank titles for them; they count."
        )
    seeds = max((len(row.seeds) for row in evaluation.rows), default=0)
    if seeds > 1:
        sentences.append(
            f"Random systems: mean ± standard deviation over up to {seeds} seeds; tests use "
            "each query's mean over seeds; run files, first titles and examples are of the "
            "first seed; the runs of further seeds are in files of their own."
        )
    sentences += _noise_of_training(evaluation)
    if any(row.prior for row in evaluation.rows):
        sentences.append(
            "A row NAME+prior ranks by the score of NAME plus a weight times the log of the "
            "title's share of clicks in the log: the difference between the two is due to "
            "popularity, and NAME alone ranks by the texts. The weight is chosen after the other "
            "free parameters and in the same way, from one grid for all systems, in units of the "
            "spread of their scores. Tests compare rows with the prior with each other, rows "
            "without it with each other, and each row with its counterpart."
        )
    if _chosen(evaluation):
        sentences.append(
            f"Free parameters: 2-fold cross-validation on {settings['tune']}: each half of "
            "the queries is measured with the values chosen on the other half."
        )
    if evaluation.comparisons:
        systems = ", ".join(f"{mark(evaluation, [name])} {name}" for name in evaluation.against)
        sentences.append(
            f"Superscripts: significantly better than {systems} (paired t-test, p < 0.05 after "
            f"Holm's correction over all {len(evaluation.comparisons):,} tests; 95 % "
            "intervals of the differences are in the report)."
        )
    if jobs := settings.get("jobs"):
        beside = f"up to {jobs} systems in parallel" if jobs > 1 else "one system at a time"
        sentences.append(
            "Training: seconds of the fit. µs a query: median time of scoring one query against "
            "its titles, which are already encoded; towers in their compact form. MB: what is "
            f"loaded to score. Measured with {beside}."
        )
    return sentences

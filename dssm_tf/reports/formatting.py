"""Formatting shared by tables and pages: labels, numbers, warnings, and the protocol in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.intervals import interval, small_sample_warning
from dssm_tf.evaluation.metrics import CONCORDANCE, is_judgment_rate, metric_label
from dssm_tf.evaluation.metrics.concordance import GRADE_DIFFERENCE
from dssm_tf.evaluation.overlap import LogOverlap
from dssm_tf.evaluation.significance import SIGNIFICANCE_LEVEL
from dssm_tf.text.rules import FOLDED

COSTS = {
    "training_seconds": "Training",
    "microseconds_per_query": "µs per query",
    "megabytes": "MB",
}
"""Keys of costs in `SeedResult.facts`, with their column headings."""

SUBSET_HEADINGS = {
    "known": "Queries in the log",
    "new": "Queries that are not in the log",
}
"""Headings of the subsets of queries, `Evaluation.query_subsets`."""

MARK = "†"
"""Marks the figures of systems that were trained on judged queries."""

_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"  # Unicode has no superscript q
_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

MeanCell = dict[str, Any]
"""A mean in a table: a row of `Evaluation.summary` with the keys that `mean_cells` adds."""


def mean_cells(
    evaluation: Evaluation, subset: str | None = None
) -> Mapping[str, Sequence[MeanCell]]:
    """The means of each system that has results, in the order of the metrics.

    Args:
        evaluation: the results.
        subset: a key of `Evaluation.query_subsets`; all queries if None. Significance is tested
            on all queries only.

    Returns:
        By system, the rows of its summary with these additional keys: `text`, the mean with three
        digits; `interval`; `best`, whether the text is the highest of at least two in its column
        and its metric measures quality; and `significantly_worse_systems`, those that it is
        significantly better than. A system that was trained on judged queries has `MARK` after its
        text; it is not compared with others.
    """
    marked = evaluation.marked(subset)
    cells = evaluation.summary(subset).rows_by_key("system", named=True, include_key=True)
    for column in zip(*cells.values(), strict=True):
        texts = [f"{cell['mean']:.3f}" for cell in column]
        compared = [
            text for cell, text in zip(column, texts, strict=True) if cell["system"] not in marked
        ]
        for cell, text in zip(column, texts, strict=True):
            comparable = cell["system"] not in marked and len(compared) > 1
            comparable = comparable and cell["metric"] in evaluation.compared_metrics
            cell["text"] = f"{text}{MARK}" if cell["system"] in marked else text
            cell["best"] = comparable and text == max(compared)
            cell["interval"] = interval(cell["low"], cell["high"])
            cell["significantly_worse_systems"] = (
                []
                if subset
                else systems_significantly_worse_than(evaluation, cell["system"], cell["metric"])
            )
    return cells


def marked_name(evaluation: Evaluation, system: str, subset: str | None = None) -> str:
    """The name of a system, with `MARK` if it was trained on judged queries."""
    return f"{system} {MARK}" if system in evaluation.marked(subset) else system


def systems_significantly_worse_than(evaluation: Evaluation, system: str, metric: str) -> list[str]:
    """The systems of `against` that are worse than `system` with an adjusted p below 0.05.

    A system that was trained on judged queries is neither better nor worse.
    """
    marked = evaluation.marked()
    worse_systems = {
        worse
        for test in evaluation.comparisons
        if test.metric == metric and test.p_adjusted < SIGNIFICANCE_LEVEL
        for better, worse in [(test.a, test.b) if test.difference > 0 else (test.b, test.a)]
        if better == system and marked.isdisjoint((better, worse))
    }
    return [name for name in evaluation.against if name in worse_systems]


def reference_system(evaluation: Evaluation, system: str) -> str | None:
    """The first other system of `against` that has a prior if, and only if, `system` has one."""
    has_prior = {row.name: row.prior for row in evaluation.rows}
    comparable = (name for name in evaluation.against if has_prior[name] == has_prior[system])
    return next((name for name in comparable if name != system), None)


def deciding_metric(evaluation: Evaluation) -> str:
    """The metric that a report opens with: NDCG@10 if it was measured, else the first one."""
    metrics = evaluation.compared_metrics
    return "ndcg@10" if "ndcg@10" in metrics else metrics[0]


def has_costs(evaluation: Evaluation) -> bool:
    """Whether any cost of a system is known."""
    return any(row.cost(name) is not None for row in evaluation.rows for name in COSTS)


def query_warnings(evaluation: Evaluation) -> list[str]:
    """Warnings about queries whose metrics no ranking changes, and about means of few queries."""
    warnings = small_sample_warning("The means are based on", evaluation.measured_queries)
    if not warnings:  # otherwise every subset is small, too
        for name, mask in evaluation.query_subsets.items():
            warnings += small_sample_warning(
                f"{SUBSET_HEADINGS[name]}: means are based on", int(mask.sum())
            )
    if evaluation.fold is not None and _has_chosen(evaluation):
        folds = evaluation.fold[evaluation.task.has_relevant]
        smaller_fold = min(int((folds == fold).sum()) for fold in (0, 1))
        warnings += small_sample_warning(
            "Free parameters were chosen on two folds, the smaller with", smaller_fold
        )
    return evaluation.task.degenerate_query_warning() + warnings


def _has_chosen(evaluation: Evaluation) -> bool:
    """Whether cross-validation chose parameters."""
    return any(
        isinstance(result.facts.get("chosen"), list)
        for row in evaluation.rows
        for result in row.seeds
    )


def superscripts(evaluation: Evaluation, systems: Sequence[str]) -> str:
    """The superscript letters of the systems that are in `against`, such as `ᵃᵇ`."""
    if not evaluation.comparisons:
        return ""
    indices = [evaluation.against.index(name) for name in systems if name in evaluation.against]
    return "".join(map(superscript, indices))


def superscript(index: int) -> str:
    """The superscript letter of an index from 0; a superscript number after the last letter.

    >>> superscript(0), superscript(24), superscript(25)
    ('ᵃ', 'ᶻ', '⁽²⁶⁾')
    """
    return _LETTERS[index] if index < len(_LETTERS) else f"⁽{index + 1}⁾".translate(_DIGITS)


def cost(name: str, number: float | None) -> str:
    """Formats one of `COSTS` with about three digits.

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


def plural(number: int, singular: str, plural_form: str) -> str:
    """A number with the singular or plural words that fit it.

    >>> plural(1, "query has", "queries have"), plural(1000, "query", "queries")
    ('1 query has', '1,000 queries')
    """
    return f"{number:,} {singular if number == 1 else plural_form}"


def sentence(text: str) -> str:
    """A text with a period at the end, unless it ends with one or with a question mark."""
    return text if text.endswith((".", "?")) else f"{text}."


def overlap_lines(evaluation: Evaluation) -> list[str]:
    """The overlap of the judgments with the training logs, in sentences.

    They come first in reports: figures of queries that a system was trained on are too high.
    """
    queries = plural(evaluation.measured_queries, "measured query", "measured queries")
    task = evaluation.task
    pairs = f"{len(task.relevant):,} relevant pairs (a query and a title with a grade above 0)"

    def counts(overlap: LogOverlap) -> str:
        known_pairs = "an unknown number" if overlap.pairs is None else f"{overlap.pairs:,}"
        return f"{overlap.queries or 0:,} of the {queries} and {known_pairs} of the {pairs}"

    lines, systems = [], defaultdict[LogOverlap, list[str]](list)
    for name, overlap in evaluation.overlaps.items():
        systems[overlap].append(name)
    for overlap, names in sorted(systems.items(), key=lambda item: not item[0].marked):
        who = _enumerate_names(names)
        if overlap.queries is None:
            lines.append(
                f"The training data of {who} are unknown, and so is their overlap with the "
                "judgments."
            )
        elif overlap.marked:
            lines.append(
                f"WARNING: the training log of {who} has {counts(overlap)}. Figures with {MARK} "
                "are therefore too high for queries of users in general. They are not bold and "
                "not compared."
            )
        else:
            lines.append(f"The training log of {who} has {counts(overlap)}.")
    if evaluation.log_overlap is not None:
        lines.append(f"The click log has {counts(evaluation.log_overlap)}.")
    return lines


def _enumerate_names(names: Sequence[str]) -> str:
    """Names in a sentence: at most four, or the first three and the number of the others.

    >>> [_enumerate_names([*letters]) for letters in ("a", "ab", "abcde")]
    ['a', 'a and b', 'a, b, c and 2 others']
    """
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _seed_variation_note(evaluation: Evaluation) -> list[str]:
    """A note on the variation between training seeds, which the tests do not include."""
    if not evaluation.comparisons:
        return []
    metric = deciding_metric(evaluation)
    spreads = evaluation.summary().filter(metric=metric)["spread"].drop_nulls().to_list()
    effect = "with one seed, the effect of another is unknown"
    if spreads:
        effect = (
            f"another seed changes {metric_label(metric)} by {min(spreads):.3f} to "
            f"{max(spreads):.3f} here (standard deviation, by system; median "
            f"{np.median(spreads):.3f})"
        )
    return [f"The tests cover variation between queries, not between training runs: {effect}."]


def judged_only_protocol(evaluation: Evaluation) -> list[str]:
    """The protocol of a table on judged titles only, in sentences.

    Args:
        evaluation: the attribute `judged_only` of another evaluation.
    """
    task, measured = evaluation.task, evaluation.measured_queries
    sentences = [
        "Titles without a judgment are removed from each ranking (condensed lists, Sakai 2007), so "
        "their ranks do not matter.",
    ]
    if task.single_grade_queries:
        sentences.append(
            f"For {task.single_grade_queries:,} of {plural(measured, 'query', 'queries')} all "
            "judged titles have the same grade: any order of them is perfect."
        )
    pairs = f"pairs of a query's judged titles whose grades differ by at least {GRADE_DIFFERENCE:g}"
    if CONCORDANCE in evaluation.metrics:
        values = evaluation.measured_rows[0].values(CONCORDANCE)
        counted = int(np.count_nonzero(~np.isnan(values)))
        sentences.append(
            f"Concordance: of the {pairs}, the fraction that the system ranks in the order of the "
            "grades; equal scores count half, and random scores have 0.5. Mean over "
            f"{plural(counted, 'query that has', 'queries that have')} such a pair."
        )
    else:
        sentences.append(f"There is no concordance, because no query has {pairs}.")
    if evaluation.comparisons:
        sentences.append(
            "Superscripts: as above, after Holm's correction over the "
            f"{len(evaluation.comparisons):,} tests of this table."
        )
    return sentences


def protocol(evaluation: Evaluation) -> list[str]:
    """The protocol in sentences, printed with every table."""
    task, settings = evaluation.task, evaluation.settings
    left_out = len(task.queries) - evaluation.measured_queries
    measured = plural(evaluation.measured_queries, "query", "queries")
    ranks = "For each query, its judged titles are ranked."
    if task.ranks_corpus:
        ranks = (
            f"For each query, the whole corpus of {len(task.titles):,} titles is ranked; "
            "titles that are not judged have grade 0."
        )
    counts = "Every query has a relevant title (grade above 0)."
    if left_out:
        counts = (
            f"{plural(left_out, 'further query has', 'further queries have')} no relevant title "
            "(all grades 0): left out of the means."
        )
    sentences = [
        *overlap_lines(evaluation),
        ranks,
        f"Means over {measured}, each with its 95 % interval over queries (Student's t).",
        counts,
        "NDCG: gain 2^grade - 1, discount log2(rank + 1). Ties are broken by a hash of the "
        "title's text.",
    ]
    sentences += [
        f"{metric_label(metric)}: the fraction of the first {metric.partition('@')[2]} titles that "
        "have a judgment. The others count as not relevant, so a system that finds titles that "
        "were not judged looks worse."
        for metric in evaluation.metrics
        if is_judgment_rate(metric)
    ]
    if split := settings.get("log", {}).get("split"):
        sentences.append(f"The log: {split}.")
    if evaluation.in_log is not None:
        sentences.append(
            f"{int(evaluation.new_queries.sum()):,} of the {measured} are not in the click log."
        )
    measured_queries = (task.queries[index] for index in np.flatnonzero(task.has_relevant))
    if wordless := sum(not FOLDED.key(query) for query in measured_queries):
        sentences.append(
            f"{plural(wordless, 'query has', 'queries have')} no word after normalization. "
            "Only popularity can rank titles for them. They are included in the means."
        )
    seeds = max((len(row.seeds) for row in evaluation.rows), default=0)
    if seeds > 1:
        sentences.append(
            f"Random systems: mean ± standard deviation over up to {seeds} seeds. Tests use "
            "each query's mean over seeds. Run files, first titles and examples are of the "
            "first seed; the runs of further seeds are in separate files."
        )
    sentences += _seed_variation_note(evaluation)
    if any(row.prior for row in evaluation.rows):
        sentences.append(
            "A row NAME+prior ranks by the score of NAME plus a weight times the logarithm of the "
            "title's fraction of the clicks in the log. The difference between NAME and NAME+prior "
            "is due to popularity; NAME ranks by the texts only. The weight is chosen after the "
            "other free parameters and in the same way, from one grid for all systems, in units of "
            "the spread of their scores. Tests compare rows with the prior with each other, rows "
            "without it with each other, and each row with its counterpart."
        )
    if _has_chosen(evaluation):
        sentences.append(
            f"Free parameters: 2-fold cross-validation on {settings['tune']}. The queries of each "
            "fold are measured with the values chosen on the other fold."
        )
    if evaluation.comparisons:
        systems = ", ".join(
            f"{superscripts(evaluation, [name])} {name}" for name in evaluation.against
        )
        sentences.append(
            f"Superscripts: significantly better than {systems} (paired t-test, p < 0.05 after "
            f"Holm's correction over all {len(evaluation.comparisons):,} tests; 95 % "
            "intervals of the differences are in the report)."
        )
    if jobs := settings.get("jobs"):
        parallel = f"up to {jobs} systems in parallel" if jobs > 1 else "one system at a time"
        sentences.append(
            "Training: seconds of training. µs per query: median time to score a query's titles, "
            "which are already encoded; towers in their compact form. MB: size of the files needed "
            f"for scoring. Measured with {parallel}."
        )
    return sentences

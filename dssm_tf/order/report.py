"""The experiment's curves, tables and page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy import stats

from dssm_tf.common.page import page, table
from dssm_tf.dse.experiments.report import markdown_table
from dssm_tf.order.log import KINDS, NOISE, OrderLog
from dssm_tf.order.trial import MODELS, Found

_TAIL = 0.025  # on either side of a 95 % interval


Share = tuple[float, float]
"""A weight, of all that add up to 1, and how much of what has it is right, from 0 to 1."""


class Fitted(NamedTuple):
    """What one training gave."""

    model: str
    seed: int
    share: float
    found: Found


class Point(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, seeds: Sequence[Sequence[Share]], groups: int) -> Point:
        """Over seeds by Student's t; of one seed, over its judged queries.

        Args:
            seeds: for each seed the shares of queries that are right, with their weights.
            groups: of two queries, behind each share. What is right for one of the two mostly is
                for the other, so groups are what is counted. Two are added on either side for
                the width (Agresti and Coull 1998): 50 right of 50 are not right without a doubt.
        """
        means = [fsum(weight * right for weight, right in shares) for shares in seeds]
        mean = round(fmean(means), 12)
        if len(seeds) > 1:
            error = stdev(means) / sqrt(len(means))
            half = float(stats.t.ppf(1 - _TAIL, len(means) - 1)) * error
        else:
            drawn = groups + 4
            counted = [(weight, (right * groups + 2) / drawn) for weight, right in seeds[0]]
            variance = fsum(weight**2 * p * (1 - p) / drawn for weight, p in counted)
            half = float(stats.norm.ppf(1 - _TAIL)) * sqrt(variance)
        return cls(mean, max(mean - half, 0.0), min(mean + half, 1.0))


Curves = dict[str, dict[float, Point]]
"""A point for each place on the axis, by model."""


def by_distance(fitted: Iterable[Fitted], share: float, groups: int) -> dict[str, Curves]:
    """The curves of each kind, on the logs of a share; for `groups` see `Point.of`."""
    rows = [one for one in fitted if one.share == share]

    def point(kind: str, distance: int, model: str) -> Point:
        found = [one.found[kind][distance] for one in rows if one.model == model]
        return Point.of([[(1.0, right)] for right in found], groups)

    return {
        kind: {
            model: {distance: point(kind, distance, model) for distance in rows[0].found[kind]}
            for model in MODELS
        }
        for kind in KINDS
    }


def by_share(fitted: Sequence[Fitted], groups: int) -> Curves:
    """NDCG of a log's queries, all kinds as often as in the log, all distances alike."""
    shares = sorted({one.share for one in fitted})
    return {
        model: {
            share: Point.of(
                [_mixed(one) for one in fitted if (one.model, one.share) == (model, share)], groups
            )
            for share in shares
        }
        for model in MODELS
    }


def _mixed(one: Fitted) -> list[Share]:
    """The kinds and distances as often as they are in the log.

    >>> found = {"order": {1: 1.0}, "negation": {1: 0.5}, "topic": {1: 0.0}}
    >>> _mixed(Fitted("lstm", 0, 0.4, found))
    [(0.2, 1.0), (0.2, 0.5), (0.6, 0.0)]
    """
    of = {"order": one.share / 2, "negation": one.share / 2, "topic": 1 - one.share}
    return [
        (of[kind] / len(row), right) for kind, row in one.found.items() for right in row.values()
    ]


def _shown(point: Point) -> str:
    """A mean and the half width of its interval, or the mean alone."""
    half = (point.high - point.low) / 2
    return f"{point.mean:.2f}" + (f" ± {half:.2f}" if half >= 0.005 else "")


def _rows(curves: Curves) -> list[list[str]]:
    return [[model, *map(_shown, row.values())] for model, row in curves.items()]


def _heads(curves: Curves, unit: str) -> list[str]:
    return ["model", *(f"{x:g}{unit}" for x in next(iter(curves.values())))]


def tables(curves: Mapping[str, Curves], mixed: Curves, share: float) -> list[str]:
    """The same numbers in Markdown.

    Args:
        curves: by kind and model, of each distance.
        mixed: by model, of each share; empty if there is one only.
        share: of the logs of `curves`.
    """
    found = [
        markdown_table(
            f"{kind}, by distance in words, share {share:g}", _heads(one, ""), _rows(one)
        )
        for kind, one in curves.items()
    ]
    if mixed:
        title = "the whole log, by the share of order and negation"
        found.append(markdown_table(title, _heads(mixed, ""), _rows(mixed)))
    return found


def order_page(
    curves: Mapping[str, Curves], mixed: Curves, results: Mapping[str, Any], svg: Path
) -> str:
    """One HTML page: the figure, its numbers, and what the log looks like.

    Args:
        curves: see `tables`.
        mixed: see `tables`.
        results: what `results.json` holds.
        svg: the figure.
    """
    drawn = svg.read_text("utf-8")
    drawn = drawn[drawn.index("<svg") :]
    seeds = results["seeds"]
    over = f"{seeds} seeds (Student's t)" if seeds > 1 else "the judged queries of one seed"
    parts = [
        "<h1>Who reads order, and how far</h1>",
        '<p class="lead">A log made so that the words alone do not tell which title is right: '
        f"NDCG@1 of two titles, with 95 % intervals over {over}. Chance is .5.</p>",
        f"<figure>{drawn}<figcaption>What ignores order is at chance on <em>order</em> and "
        "<em>negation</em>; a window of <em>w</em> words holds two words up to <em>w</em> - 1 "
        "apart.</figcaption></figure>",
    ]
    for kind, one in curves.items():
        parts.append(f"<h2>{kind[0].upper()}{kind[1:]}</h2>")
        parts.append(_examples(kind, results["distances"]))
        caption = f"By distance in words; share of order and negation {results['share']:g}"
        parts.append(table(_heads(one, ""), _rows(one), caption=caption))
    if mixed:
        parts.append("<h2>The whole log</h2>")
        caption = "By the share of queries of order and negation"
        best = [f"{1 - share / 2:.2f}" for share in next(iter(mixed.values()))]
        rows = [*_rows(mixed), ["best without order", *best]]
        parts.append(table(_heads(mixed, ""), rows, caption=caption))
    parts.append(
        f'<p class="soft">{results["queries"]:,} queries a log, {results["judged"]} judged of each '
        f"kind and distance, {results['epochs']} epochs, {results['seconds']:.0f} s. The pairs of "
        "words that are judged stand together in no text of the training.</p>"
    )
    return page("Order", "\n".join(parts))


def _examples(kind: str, distances: Sequence[int]) -> str:
    """A group of the log: two queries, and the title that is right for each."""
    (group,) = OrderLog(0).groups(kind, min(max(distances), 3), 1, judged=True)
    rows = [list(map(_marked, pair)) for pair in zip(group.queries, group.titles, strict=True)]
    return table(["query", "its title, the other's is wrong"], rows, text=2)


def _marked(text: str) -> str:
    """A text with the words that matter in bold.

    >>> _marked("cheap oslo trip")
    'cheap <strong>oslo</strong> trip'
    """
    return " ".join(word if word in NOISE else f"<strong>{word}</strong>" for word in text.split())

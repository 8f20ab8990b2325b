"""Sums over one bucket of queries, of titles or of words: the plain functions inside the steps.

A bucket holds all that is known of its queries (or titles, or words) and nothing of the others; a
worker holds one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.fields import split_fields
from dssm_tf.text.letter_ngrams import letter_ngrams
from pipelines.cleaning import FEW_CLICKS, NO_CLICK, PAIRS, TEXTS
from pipelines.frames import Counts, Part, fold, histogram
from pipelines.negatives import smallest
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.texts import (
    all_words,
    fingerprints,
    mix,
    normal_forms,
    unit,
    words_read,
)

SPLIT, DRAW, POOL = range(3)
"""Purposes of random numbers: no two have the same."""
TITLES = {
    "fp": pl.UInt64, "clicks": pl.Int64, "all": pl.Int64, "queries": pl.Int64,
    "others": pl.Int64, "listed": pl.Int64,
}  # fmt: skip
"""Sums of titles: clicks of the training part and of all parts in thousandths, pairs of the
training part and of others, and whether the title is in the table."""
WORDS = {"fp": pl.UInt64, "word": pl.String, "train": pl.Int64, "others": pl.Int64}
"""Words, and how often they are in the training part and in others."""
POOL_COLUMNS = {"rank": pl.Float64, "title": pl.Int64, "clicks": pl.Int64, "all": pl.Int64}
"""Titles that may be drawn: a random rank, the title, clicks of the training part and of all."""
PLACE_BITS = 40
"""A title travels as its bucket and its place there, in one number."""


def random(numbers: NDArray[np.uint64], seed: int, purpose: int) -> NDArray[np.uint64]:
    """Numbers that depend on the given ones, the seed and the purpose alone."""
    return mix(numbers, 3 * seed + purpose)


class QueryBucket(NamedTuple):
    """What `sum_queries` finds.

    Args:
        queries: fp, text, train; sorted by fp.
        pairs: of these queries: q, t, clicks as a record has them, kept, shown, train; sorted. A
            pair that is neither kept nor shown was clicked all the same.
        titles: see `TITLES`, sorted by fp.
        words: see `WORDS`, sorted by fp.
        counts: for the report.
        dropped: rows dropped, by reason.
    """

    queries: pl.DataFrame
    pairs: pl.DataFrame
    titles: pl.DataFrame
    words: pl.DataFrame
    counts: Counts
    dropped: Counts


def sum_queries(
    pairs: Sequence[Part], texts: Sequence[Part], options: PreprocessOptions
) -> QueryBucket:
    """Sums a bucket's pairs, drops those with few clicks and splits by query."""
    found = fold(pairs, ["q", "t"], PAIRS)
    logged, clicked = pl.col("rows") > 0, pl.col("clicks") > 0
    kept = logged & (pl.col("clicks") >= options.min_clicks)
    few = found.filter(logged & clicked & ~kept)
    unclicked = int(found.filter(logged & ~clicked)["rows"].sum())
    found = found.with_columns(kept=kept, shown=logged & ~clicked & (pl.col("robots") == 0))
    chosen = found.filter("kept").group_by("q").agg(pairs=pl.len(), total=pl.col("clicks").sum())
    queries = best_texts(fold(texts, ["fp", "text"], TEXTS)).join(
        chosen, left_on="fp", right_on="q"
    )
    queries = queries.sort("fp")
    at = unit(random(queries["fp"].to_numpy(), options.seed, SPLIT))
    queries = queries.with_columns(train=pl.Series(at >= options.validation_fraction))
    found = found.join(queries.select("train", q="fp"), on="q").sort("q", "t")
    used = found.filter(pl.col("kept") | pl.col("shown"))
    dropped = {
        FEW_CLICKS: int(few["rows"].sum()),
        NO_CLICK: unclicked - int(used.filter("shown")["rows"].sum()),
    }
    counts: Counts = {"pairs dropped": len(few), "rows used": int(used["rows"].sum())}
    for split, part in (
        (TRAIN, queries.filter("train")),
        (VALIDATION, queries.filter(~pl.col("train"))),
    ):
        if len(part):
            counts |= {
                f"queries {split}": len(part),
                f"pairs {split}": int(part["pairs"].sum()),
                f"clicks {split}": int(part["total"].sum()),
            }
    words = all_words(normal_forms(queries["text"], options.rules), options.rules)
    counts |= histogram("query words", words.list.len())
    counts |= histogram("clicks a query", _power_of_two(queries["total"]))
    train = queries["train"].to_numpy()
    times = queries["pairs"].to_numpy().astype(np.int64)
    learned = pl.col("kept") & pl.col("train")
    titles = used.group_by(fp="t").agg(
        clicks=pl.col("weighted").filter(learned).sum(),
        all=pl.col("weighted").filter("kept").sum(),
        queries=learned.sum().cast(pl.Int64),
        others=(pl.col("kept") & ~pl.col("train")).sum().cast(pl.Int64),
        listed=pl.len().cast(pl.Int64),
    )
    # Titles that are clicked too seldom, or by robots, may be in the table for other queries.
    rest = found.select(fp=pl.col("t").unique()).join(titles, on="fp", how="anti")
    titles = pl.concat([titles, rest], how="diagonal").fill_null(0).select(*TITLES).sort("fp")
    return QueryBucket(
        queries.select("fp", "text", "train"),
        found.select("q", "t", _in_clicks(found["weighted"]), "kept", "shown", "train"),
        titles,
        count_words(words, times * train, times * ~train, options),
        counts,
        dropped,
    )


class TitleBucket(NamedTuple):
    """What `sum_titles` finds.

    Args:
        titles: fp, title (its bucket and place), text, clicks and queries of the training part;
            sorted by fp.
        words: see `WORDS`, sorted by fp.
        pool: see `POOL_COLUMNS`.
        counts: for the report.
    """

    titles: pl.DataFrame
    words: pl.DataFrame
    pool: pl.DataFrame
    counts: Counts


def sum_titles(
    sums: Sequence[Part],
    texts: Sequence[Part],
    corpus: Sequence[Part],
    bucket: int,
    options: PreprocessOptions,
) -> TitleBucket:
    """Sums a bucket's titles; one that the log has keeps the log's text."""
    total = fold(sums, ["fp"], TITLES).filter(pl.col("listed") > 0)
    titles = best_texts(fold(texts, ["fp", "text"], TEXTS)).join(total, on="fp")
    offered = best_texts(fold(corpus, ["fp", "text"], TEXTS).with_columns(clicks=pl.lit(0)))
    rest = offered.join(titles, on="fp", how="anti")
    titles = pl.concat([titles, rest], how="diagonal").fill_null(0).sort("fp")
    titles = titles.with_columns(
        title=(bucket << PLACE_BITS) + pl.int_range(pl.len(), dtype=pl.Int64),
        clicks=_rounded(titles["clicks"]),
        all=_rounded(titles["all"]),
        offered=titles["fp"].is_in(offered["fp"].implode()),
    )
    forms = normal_forms(titles["text"], options.rules)
    words = all_words(forms, options.rules)
    queries, others = titles["queries"].to_numpy(), titles["others"].to_numpy()
    # A title of the corpus that the training part lacks has its trigrams known all the same.
    times = np.where(queries == 0, titles["offered"].to_numpy(), queries).astype(np.int64)
    counts: Counts = {
        "titles": len(titles),
        "titles train": int((queries > 0).sum()),
        "titles corpus": int(titles["offered"].sum()),
        **histogram("title words", words.list.len()),
    }
    if len(options.fields) > 1:
        for text in titles["text"]:
            for at, field in enumerate(split_fields(text, len(options.fields))):
                name = f"field {at}"
                counts[name] = counts.get(name, 0) + (field.strip() != "")
    return TitleBucket(
        titles.select("fp", "title", "text", "clicks", "queries"),
        count_words(words, times, others, options),
        _pool(titles, options),
        counts,
    )


def places_for(sums: Sequence[Part], titles: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """For each bucket of queries those titles of the table that it names: t and title."""
    known = titles.select("title", t="fp")
    for part in sums:
        yield part.source, known.join(part.frame.select(t="fp"), on="t", how="semi")


def count_words(
    words: pl.Series,
    train: NDArray[np.int64],
    others: NDArray[np.int64],
    options: PreprocessOptions,
) -> pl.DataFrame:
    """The words that are read of texts and how often, see `WORDS`; sorted by fp.

    Args:
        words: of each text.
        train: how often the training part has the text.
        others: how often other parts have it.
        options: say how much is read.
    """
    flat, counts = words_read(words, options.rules)
    found = pl.DataFrame(
        {"word": flat, "train": np.repeat(train, counts), "others": np.repeat(others, counts)},
        schema_overrides={"word": pl.String},
    )
    found = found.group_by("word").agg(pl.col("train", "others").sum())
    return found.with_columns(fp=fingerprints(found["word"])).select(*WORDS).sort("fp")


def sum_words(parts: Sequence[Part], max_letters: int) -> tuple[pl.DataFrame, Counts]:
    """A bucket's words, sorted by fp, and the occurrences of trigrams in the training part."""
    words = fold(parts, ["fp", "word"], WORDS).unique("fp", keep="first", maintain_order=True)
    counts: Counts = {}
    for word, times in words.filter(pl.col("train") > 0).select("word", "train").iter_rows():
        for ngram in letter_ngrams(word, max_letters):
            counts[ngram] = counts.get(ngram, 0) + times
    return words, counts


def best_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """The text of each fingerprint with most clicks, the smallest of equals; sorted by fp."""
    ranked = texts.sort("fp", "clicks", "text", descending=[False, True, False])
    return ranked.unique("fp", keep="first", maintain_order=True).select("fp", "text")


def _pool(titles: pl.DataFrame, options: PreprocessOptions) -> pl.DataFrame:
    """Clicked titles, ranked for the pool: rank ~ Exponential(all ** alpha)."""
    clicked = titles.filter(pl.col("all") > 0)
    uniform = unit(random(clicked["fp"].to_numpy(), options.seed, POOL))
    weight = clicked["all"].to_numpy().astype(np.float64) ** options.negative_alpha
    clicked = clicked.with_columns(rank=pl.Series(-np.log1p(-uniform) / weight))
    return smallest(clicked.select(*POOL_COLUMNS), options.negative_pool)


def _rounded(thousandths: pl.Series) -> pl.Series:
    return pl.Series(np.rint(thousandths.to_numpy() / UNIT).astype(np.int64))


def _in_clicks(thousandths: pl.Series) -> pl.Series:
    """Weighted clicks as a record has them: of three digits, unless they are whole."""
    distinct, place = np.unique(thousandths.to_numpy(), return_inverse=True)
    clicks = [
        one / UNIT if one % UNIT == 0 else float(f"{one / UNIT:.3g}") for one in distinct.tolist()
    ]
    return pl.Series("clicks", np.array(clicks, np.float64)[place], dtype=pl.Float32)


def _power_of_two(numbers: pl.Series) -> pl.Series:
    """The smallest power of two that is not below each positive number."""
    return pl.Series([1 << (number - 1).bit_length() for number in numbers], dtype=pl.Int64)

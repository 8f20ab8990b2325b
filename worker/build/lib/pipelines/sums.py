"""The steps that sum one bucket of queries, of titles or of words.

A bucket holds all that is known of its queries (or titles, or words) and nothing of the others; a
worker holds one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import Rules
from pipelines.cleaning import FEW_CLICKS, NO_CLICK, PAIRS, TEXTS
from pipelines.frames import Group, Settings, counted, fold, parts_of
from pipelines.negatives import POOL_COLUMNS, smallest
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.texts import fingerprints, mix, normal_forms, unit, words_read

SPLIT, DRAW, POOL = range(3)
"""Purposes of random numbers: no two have the same."""
TITLES = {
    "fp": pl.UInt64, "clicks": pl.Int64, "all": pl.Int64, "queries": pl.Int64, "listed": pl.Int64,
}  # fmt: skip
"""Sums of titles: clicks of the training part and of all parts in thousandths, pairs of the
training part, and whether the title is in the table."""
WORDS = {"fp": pl.UInt64, "word": pl.String, "times": pl.Int64}
"""Words, and how often they are in the training part."""
ONE_FINGERPRINT = "one fingerprint"
"""Texts, and words, that are taken for another one."""
PLACE_BITS = 40
"""A title travels as its bucket and its place there, in one number."""


def random(numbers: NDArray[np.uint64], seed: int, purpose: int) -> NDArray[np.uint64]:
    """Numbers that depend on the given ones, the seed and the purpose alone."""
    return mix(numbers, 3 * seed + purpose)


def sum_queries(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Yields:
        main   (bucket of queries, its queries or pairs); a pair that is neither kept nor shown was
               clicked all the same;
        titles (bucket of titles, sums), of all titles that a query of the bucket names;
        words  (bucket of words, words);
        sizes  (bucket, number of queries);
        counts dict[str, int].
    """
    bucket, parts, options = group[0], parts_of(group[1]), settings.options
    found = fold(parts["pairs"], ["q", "t"], PAIRS)
    logged, clicked = pl.col("rows") > 0, pl.col("clicks") > 0
    kept, shown = pl.col("kept"), pl.col("shown")
    found = found.with_columns(
        kept=logged & (pl.col("clicks") >= options.min_clicks),
        shown=logged & ~clicked & (pl.col("robots") == 0),
    )
    few = found.filter(logged & clicked & ~kept)["rows"].sum()
    unclicked = int(found.filter(logged & ~clicked)["rows"].sum())
    chosen = found.filter("kept").group_by(fp="q").agg(pairs=pl.len().cast(pl.Int64))
    texts, shared = best_texts(fold(parts["texts"], ["fp", "text"], TEXTS), options.rules)
    queries = texts.join(chosen, on="fp").sort("fp")
    at = unit(random(queries["fp"].to_numpy(), options.seed, SPLIT))
    queries = queries.with_columns(train=pl.Series(at >= options.validation_fraction))
    found = found.join(queries.select("train", q="fp"), on="q").sort("q", "t")
    used = found.filter(kept | shown)
    learned = kept & pl.col("train")
    titles = found.group_by(fp="t").agg(
        clicks=pl.col("weighted").filter(learned).sum(),
        all=pl.col("weighted").filter("kept").sum(),
        queries=learned.sum(),
        listed=(kept | shown).sum(),
    )
    counts = {
        f"dropped {FEW_CLICKS}": few,
        f"dropped {NO_CLICK}": unclicked - int(used.filter("shown")["rows"].sum()),
        "rows used": used["rows"].sum(),
        ONE_FINGERPRINT: shared,
    }
    for split, part in (
        (TRAIN, found.filter(learned)),
        (VALIDATION, found.filter(kept & ~pl.col("train"))),
    ):
        counts |= {
            f"queries {split}": part["q"].n_unique(),
            f"pairs {split}": len(part),
            f"clicks {split}": part["clicks"].sum(),
        }
    yield from settings.send("queries", queries.select("fp", "text", "train"), to=bucket)
    pairs = found.select("q", "t", _in_clicks(found["weighted"]), "kept", "shown", "train")
    yield from settings.send("pairs", pairs, to=bucket)
    titles = titles.select(pl.col(name).cast(kind) for name, kind in TITLES.items()).sort("fp")
    yield from settings.send("sums", titles, "titles", source=bucket)
    times = (queries["pairs"] * queries["train"]).to_numpy()
    yield from settings.send("words", _words(queries["form"], times, options.rules), "words")
    yield TaggedOutput("sizes", (bucket, len(queries)))
    yield counted(counts)


def sum_titles(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums what is known of each title; one that the log has keeps the log's text.

    Yields:
        main   (bucket of titles, its titles);
        places (bucket of queries, the titles of the table that it names);
        words  (bucket of words, words);
        pool   (0, titles that may be drawn);
        sizes  (bucket, number of titles);
        counts dict[str, int].
    """
    bucket, parts, options = group[0], parts_of(group[1]), settings.options
    total = fold(parts["sums"], ["fp"], TITLES).filter(pl.col("listed") > 0)
    logged = fold(parts["texts"], ["fp", "text"], TEXTS).join(total, on="fp", how="semi")
    offered = fold(parts["corpus"], ["fp", "text"], TEXTS)
    ranked = pl.concat([logged, offered.with_columns(clicks=pl.lit(-1, pl.Int64))])
    titles, shared = best_texts(ranked, options.rules)
    titles = titles.join(total, on="fp", how="left").fill_null(0).sort("fp")
    titles = titles.with_columns(
        title=(bucket << PLACE_BITS) + pl.int_range(pl.len(), dtype=pl.Int64),
        clicks=_rounded(titles["clicks"]),
        all=_rounded(titles["all"]),
        offered=titles["fp"].is_in(offered["fp"].implode()),
    )
    queries = titles["queries"].to_numpy()
    # A title of the corpus that the training part lacks has its trigrams known all the same.
    times = np.where(queries == 0, titles["offered"].to_numpy(), queries).astype(np.int64)
    counts = {
        "titles": len(titles),
        "titles train": (queries > 0).sum(),
        "titles corpus": titles["offered"].sum(),
        ONE_FINGERPRINT: shared,
    }
    for at in range(len(options.fields)):
        field = titles["text"].str.split(SEPARATOR).list.get(at, null_on_oob=True)
        counts[f"field {at}"] = (field.str.strip_chars() != "").sum()
    columns = "fp", "title", "text", "clicks", "queries"
    yield from settings.send("titles", titles.select(columns), to=bucket)
    known = titles.select("title", t="fp")
    for part in parts["sums"]:
        named = known.join(part.frame.select(t="fp"), on="t", how="semi")
        yield from settings.send("places", named, "places", to=part.source)
    yield from settings.send("words", _words(titles["form"], times, options.rules), "words")
    yield from settings.send("pool", pool_of(titles, options), "pool", to=0)
    yield TaggedOutput("sizes", (bucket, len(titles)))
    yield counted(counts)


def sum_words(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums the occurrences of words and of their letter trigrams.

    Yields:
        main   (bucket of words, its words);
        prints (bucket, their fingerprints as bytes);
        ngrams dict[str, int], of the training part;
        counts dict[str, int].
    """
    bucket, blocks = group
    every = fold(parts_of(blocks)["words"], ["fp", "word"], WORDS)
    words = every.unique("fp", keep="first", maintain_order=True)
    ngrams: Counter[str] = Counter()
    for word, times in words.filter(pl.col("times") > 0).select("word", "times").iter_rows():
        for ngram in letter_ngrams(word, settings.options.max_letters):
            ngrams[ngram] += times
    yield from settings.send("words", words.select("word"), to=bucket)
    yield TaggedOutput("prints", (bucket, words["fp"].to_numpy().tobytes()))
    yield TaggedOutput("ngrams", dict(ngrams))
    yield counted({ONE_FINGERPRINT: len(every) - len(words)})


def _words(forms: pl.Series, times: NDArray[np.int64], rules: Rules) -> pl.DataFrame:
    """The words that are read of texts and how often, see `WORDS`; sorted by fp.

    Args:
        forms: of the texts.
        times: how often the training part has each text.
        rules: say how much is read.
    """
    words, counts = words_read(forms, rules)
    found = pl.DataFrame({"word": words, "times": np.repeat(times, counts)})
    found = found.group_by("word").agg(pl.col("times").sum())
    return found.with_columns(fp=fingerprints(found["word"])).select(*WORDS).sort("fp")


def best_texts(texts: pl.DataFrame, rules: Rules) -> tuple[pl.DataFrame, int]:
    """The text of each fingerprint with most clicks, the smallest of equals.

    Args:
        texts: see `TEXTS`.
        rules: of their normal forms.

    Returns:
        fp, text, form; and how many normal forms have the fingerprint of another one.
    """
    texts = texts.with_columns(form=normal_forms(texts["text"], rules))
    ranked = texts.sort("fp", "clicks", "text", descending=[False, True, False])
    best = ranked.unique("fp", keep="first", maintain_order=True).drop("clicks")
    return best, texts["form"].n_unique() - len(best)


def pool_of(titles: pl.DataFrame, options: PreprocessOptions) -> pl.DataFrame:
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
    clicks = [n / UNIT if n % UNIT == 0 else float(f"{n / UNIT:.3g}") for n in thousandths]
    return pl.Series("clicks", clicks, dtype=pl.Float32)

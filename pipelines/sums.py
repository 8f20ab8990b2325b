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
from polars import col

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import Rules
from pipelines.cleaning import FEW_CLICKS, NO_CLICK
from pipelines.frames import Group, Settings, counted, fold, parts_of
from pipelines.negatives import POOL_COLUMNS, smallest
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.texts import POOL, SPLIT, fingerprints, normal_forms, random, unit, words_read

ONE_FINGERPRINT = "one fingerprint"
"""Texts, and words, that are taken for another one."""
PLACE_BITS = 40
"""A title travels as its bucket and its place there, in one number."""


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
    logged, clicked = col.rows > 0, col.clicks > 0
    found = fold(parts["pairs"], "pairs").with_columns(
        kept=logged & (col.clicks >= options.min_clicks),
        shown=logged & ~clicked & (col.robots == 0),
    )
    chosen = found.filter("kept").group_by(fp="q").agg(pairs=pl.len())
    texts, shared = best_texts(fold(parts["texts"], "texts"), options.rules)
    queries = texts.join(chosen, on="fp").sort("fp")
    at = unit(random(queries["fp"].to_numpy(), options.seed, SPLIT))
    queries = queries.with_columns(train=at >= options.validation_fraction)
    pairs = found.join(queries.select("train", q="fp"), on="q").sort("q", "t")
    learned = col.kept & col.train
    titles = pairs.group_by(fp="t").agg(
        clicks=col.weighted.filter(learned).sum(),
        all=col.weighted.filter("kept").sum(),
        queries=learned.sum(),
        listed=(col.kept | col.shown).sum(),
    )

    def rows(of: pl.DataFrame, where: Any) -> int:
        return int(of.filter(where)["rows"].sum())

    used, offered = rows(pairs, "kept"), rows(pairs, "shown")
    yield counted(
        {
            f"dropped {FEW_CLICKS}": rows(found, logged & clicked & ~col.kept),
            f"dropped {NO_CLICK}": rows(found, logged & ~clicked) - offered,
            "rows used": used + offered,
            ONE_FINGERPRINT: shared,
        }
    )
    for split in (TRAIN, VALIDATION):
        part = pairs.filter("kept", train=split == TRAIN)
        yield counted(
            {
                f"queries {split}": part["q"].n_unique(),
                f"pairs {split}": len(part),
                f"clicks {split}": part["clicks"].sum(),
            }
        )
    yield from settings.send("queries", queries.select("fp", "text", "train"), to=bucket)
    pairs = pairs.select("q", "t", _in_clicks(pairs["weighted"]), "kept", "shown", "train")
    yield from settings.send("chosen", pairs, to=bucket)
    yield from settings.send("sums", titles, "titles", source=bucket)
    times = (queries["pairs"] * queries["train"]).to_numpy()
    yield from settings.send("words", _words(queries["form"], times, options.rules), "words")
    yield TaggedOutput("sizes", (bucket, len(queries)))


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
    total = fold(parts["sums"], "sums").filter(col.listed > 0)
    logged = fold(parts["texts"], "texts").join(total, on="fp", how="semi")
    offered = fold(parts["corpus"], "corpus")
    ranked = pl.concat([logged, offered.with_columns(clicks=pl.lit(-1, pl.Int64))])
    titles, shared = best_texts(ranked, options.rules)
    titles = titles.join(total, on="fp", how="left").fill_null(0).sort("fp")
    titles = titles.with_columns(
        _rounded(titles["clicks"]),
        _rounded(titles["all"]),
        title=(bucket << PLACE_BITS) + pl.int_range(pl.len()),
        offered=col.fp.is_in(offered["fp"].implode()),
    )
    # A title of the corpus that the training part lacks has its trigrams known all the same.
    times = titles.select(pl.when(col.queries > 0).then("queries").otherwise("offered"))
    fields = {
        f"field {at}": titles["text"].str.split(SEPARATOR).list.get(at, null_on_oob=True)
        for at in range(len(options.fields))
    }
    yield counted(
        {
            "titles": len(titles),
            "titles train": (titles["queries"] > 0).sum(),
            "titles corpus": titles["offered"].sum(),
            ONE_FINGERPRINT: shared,
            **{name: (field.str.strip_chars() != "").sum() for name, field in fields.items()},
        }
    )
    columns = "fp", "title", "text", "clicks", "queries"
    yield from settings.send("titles", titles.select(columns), to=bucket)
    known = titles.select("title", t="fp")
    for part in parts["sums"]:
        named = known.join(part.frame.select(t="fp"), on="t", how="semi")
        yield from settings.send("places", named, "places", to=part.source)
    words = _words(titles["form"], times.to_series().to_numpy(), options.rules)
    yield from settings.send("words", words, "words")
    yield from settings.send("pool", pool_of(titles, options), "pool", to=0)
    yield TaggedOutput("sizes", (bucket, len(titles)))


def sum_words(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums the occurrences of words and of their letter trigrams.

    Yields:
        main   (bucket of words, its words);
        prints (bucket, their fingerprints as bytes);
        ngrams dict[str, int], of the training part;
        counts dict[str, int].
    """
    bucket, blocks = group
    every = fold(parts_of(blocks)["words"], "words")
    words = every.unique("fp", keep="first", maintain_order=True)
    ngrams: Counter[str] = Counter()
    for word, times in words.filter(col.times > 0).select("word", "times").iter_rows():
        for ngram in letter_ngrams(word, settings.options.max_letters):
            ngrams[ngram] += times
    yield from settings.send("words", words, to=bucket)
    yield TaggedOutput("prints", (bucket, words["fp"].to_numpy().tobytes()))
    yield TaggedOutput("ngrams", dict(ngrams))
    yield counted({ONE_FINGERPRINT: len(every) - len(words)})


def _words(forms: pl.Series, times: NDArray[np.int64], rules: Rules) -> pl.DataFrame:
    """The words that are read of texts and how often.

    Args:
        forms: of the texts.
        times: how often the training part has each text.
        rules: say how much is read.
    """
    words, counts = words_read(forms, rules)
    found = pl.DataFrame({"word": words, "times": np.repeat(times, counts)})
    found = found.group_by("word").agg(col.times.sum())
    return found.with_columns(fp=fingerprints(found["word"]))


def best_texts(texts: pl.DataFrame, rules: Rules) -> tuple[pl.DataFrame, int]:
    """The text of each fingerprint with most clicks, the smallest of equals.

    Args:
        texts: as `SUMMED` has them.
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
    clicked = titles.filter(col.all > 0)
    uniform = unit(random(clicked["fp"].to_numpy(), options.seed, POOL))
    weight = clicked["all"].to_numpy().astype(np.float64) ** options.negative_alpha
    clicked = clicked.with_columns(rank=-np.log1p(-uniform) / weight)
    return smallest(clicked.select(*POOL_COLUMNS), options.negative_pool)


def _rounded(thousandths: pl.Series) -> pl.Series:
    return (thousandths / UNIT).round(mode="half_to_even").cast(pl.Int64)


def _in_clicks(thousandths: pl.Series) -> pl.Series:
    """Weighted clicks as a record has them: of three digits, unless they are whole."""
    clicks = [n / UNIT if n % UNIT == 0 else float(f"{n / UNIT:.3g}") for n in thousandths]
    return pl.Series("clicks", clicks, dtype=pl.Float32)

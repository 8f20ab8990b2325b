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

from dssm_tf.positions.curve import CLICK_WEIGHT_SCALE
from dssm_tf.tables.text_columns import fingerprints, normal_forms, words_read
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import Rules
from pipelines.frames import Group, Settings, counted, fold, parts_of
from pipelines.negatives import SPLIT, random, unit


def sum_queries(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Yields:
        main   (bucket, its queries and pairs); a pair that is neither kept nor shown was clicked
               all the same;
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
    texts = best_texts(fold(parts["texts"], "texts"), options.rules)
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

    few, unclicked = found.select(
        few=col.rows.filter(logged & clicked & ~col.kept).sum(),
        unclicked=col.rows.filter(logged & ~clicked).sum(),
    ).row(0)
    offered = pairs.select(col.rows.filter("shown").sum()).item()
    yield counted({"dropped: few clicks": few, "dropped: no click": unclicked - offered})
    yield from settings.send("sums", titles, "titles")
    pairs = pairs.select("q", "t", "clicks", "weighted", "kept", "shown", "train")
    sent = []
    for frame in (queries.select("fp", "text"), pairs):
        ((_, part),) = settings.send("", frame, to=bucket)
        sent.append(part)
    yield bucket, sent
    times = (queries["pairs"] * queries["train"]).to_numpy()
    yield from settings.send("words", _words(queries["form"], times, options.rules), "words")
    yield TaggedOutput("sizes", (bucket, len(queries)))


def sum_titles(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums what is known of each title; one that the log has keeps the log's text.

    Yields:
        main   (bucket of titles, its titles);
        words  (bucket of words, words);
        all    (bucket, their fingerprints and clicks);
        counts dict[str, int].
    """
    bucket, parts, options = group[0], parts_of(group[1]), settings.options
    total = fold(parts["sums"], "sums").filter(col.listed > 0)
    logged = fold(parts["texts"], "texts").join(total, on="fp", how="semi")
    offered = fold(parts["corpus"], "corpus")
    ranked = pl.concat([logged, offered.with_columns(clicks=pl.lit(-1, pl.Int64))])
    titles = best_texts(ranked, options.rules)
    titles = titles.join(total, on="fp", how="left").fill_null(0).sort("fp")
    titles = titles.with_columns(
        (col("clicks", "all") / CLICK_WEIGHT_SCALE).round(mode="half_to_even").cast(pl.Int64),
        offered=col.fp.is_in(offered["fp"].implode()),
    )
    # A title of the corpus that the training part lacks has its trigrams known all the same.
    times = titles.select(pl.when(col.queries > 0).then("queries").otherwise("offered"))
    yield counted(
        {
            "titles: in all": len(titles),
            "titles: clicked in the training part": (titles["queries"] > 0).sum(),
            "titles: of the corpus": titles["offered"].sum(),
        }
    )
    yield from settings.send("titles", titles.select("text", "clicks", "queries"), to=bucket)
    words = _words(titles["form"], times.to_series().to_numpy(), options.rules)
    yield from settings.send("words", words, "words")
    yield from settings.send("all", titles.select("fp", "clicks", "all"), "all", to=bucket)


def sum_words(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums the occurrences of words and of their letter trigrams.

    Yields:
        main   (bucket of words, its words);
        prints (bucket, their fingerprints);
        ngrams dict[str, int], of the training part.
    """
    bucket, blocks = group
    words = fold(parts_of(blocks)["words"], "words")
    words = words.unique("fp", keep="first", maintain_order=True)
    ngrams: Counter[str] = Counter()
    for word, times in words.filter(col.times > 0).select("word", "times").iter_rows():
        for ngram in letter_ngrams(word, settings.options.max_letters):
            ngrams[ngram] += times
    yield from settings.send("words", words, to=bucket)
    yield from settings.send("prints", words.select("fp"), "prints", to=bucket)
    yield TaggedOutput("ngrams", dict(ngrams))


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


def best_texts(texts: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The text of each fingerprint with most clicks, the smallest of equals.

    Args:
        texts: as `SUMMED` has them.
        rules: of their normal forms.

    Returns:
        fp, text, form.
    """
    ranked = texts.sort("fp", "clicks", "text", descending=[False, True, False])
    best = ranked.unique("fp", keep="first", maintain_order=True).drop("clicks")
    return best.with_columns(form=normal_forms(best["text"], rules))

"""Steps that sum one bucket of queries, of titles or of words.

A bucket contains all rows of its queries (or titles, or words) and no others. A worker has one
bucket in memory at a time.
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
from dssm_tf.tables.text_columns import explode_words, fingerprints, normal_forms
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import TextRules
from pipelines.log_statistics import LogStatistics, spellings, statistics_output
from pipelines.negatives import SPLIT, seeded_hash, to_unit_interval
from pipelines.shards import Group, PipelineContext, count_output, shards_by_kind, sum_shards


def sum_queries(group: Group, context: PipelineContext) -> Iterator[Any]:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Yields:
        main   (bucket, [queries, pairs]); `positive` pairs become records, `impression` pairs were
               displayed and never clicked, and all others were clicked but are dropped;
        titles (bucket of titles, sums), for all titles in pairs of the bucket;
        words  (bucket of words, words);
        sizes  (bucket, number of queries);
        counts dict[str, int];
        statistics LogStatistics.
    """
    bucket, shards, options = group[0], shards_by_kind(group[1]), context.options
    in_log, clicked = col.rows > 0, col.clicks > 0
    all_pairs = sum_shards(shards["pairs"], "pairs").with_columns(
        positive=in_log & (col.clicks >= options.min_clicks),
        impression=in_log & ~clicked & (col.robot_clicks == 0),
    )
    pair_counts = (
        all_pairs.filter("positive").group_by(fingerprint="query_fingerprint").agg(pairs=pl.len())
    )
    all_texts = sum_shards(shards["texts"], "texts")
    texts = best_texts(all_texts, options.rules)
    queries = texts.join(pair_counts, on="fingerprint").sort("fingerprint")
    uniform = to_unit_interval(seeded_hash(queries["fingerprint"].to_numpy(), options.seed, SPLIT))
    queries = queries.with_columns(train=uniform >= options.validation_fraction)
    pairs = all_pairs.join(
        queries.select("train", query_fingerprint="fingerprint"), on="query_fingerprint"
    ).sort("query_fingerprint", "title_fingerprint")
    train_positive = col.positive & col.train
    titles = pairs.group_by(fingerprint="title_fingerprint").agg(
        clicks=col.weighted.filter(train_positive).sum(),
        all_clicks=col.weighted.filter("positive").sum(),
        queries=train_positive.sum(),
        in_table=(col.positive | col.impression).sum(),
        log_clicks=col.clicks.filter("positive").sum(),
    )
    unclicked = sum_shards(shards["unclicked"], "unclicked")
    yield statistics_output(_describe_queries(bucket, pairs, all_texts, unclicked, context))

    few_clicks, without_click = all_pairs.select(
        few_clicks=col.rows.filter(in_log & clicked & ~col.positive).sum(),
        without_click=col.rows.filter(in_log & ~clicked).sum(),
    ).row(0)
    impressions = pairs.select(col.rows.filter("impression").sum()).item()
    yield count_output(
        {"dropped: few clicks": few_clicks, "dropped: no click": without_click - impressions}
    )
    yield from context.emit("sums", titles, "titles")
    pairs = pairs.select(
        "query_fingerprint",
        "title_fingerprint",
        "clicks",
        "weighted",
        "positive",
        "impression",
        "train",
    )
    tables = []
    for frame in (queries.select("fingerprint", "text"), pairs):
        ((_, shard),) = context.emit("", frame, bucket=bucket)
        tables.append(shard)
    yield bucket, tables
    occurrences = (queries["pairs"] * queries["train"]).to_numpy()
    words = _count_words(queries["form"], occurrences, options.rules)
    yield from context.emit("words", words, "words")
    yield TaggedOutput("sizes", (bucket, len(queries)))


def _describe_queries(
    bucket: int,
    pairs: pl.DataFrame,
    texts: pl.DataFrame,
    unclicked: pl.DataFrame,
    context: PipelineContext,
) -> LogStatistics:
    """Describes the queries of a bucket; only queries with enough sessions become examples.

    Args:
        bucket: the bucket.
        pairs: all pairs of the queries that have a `positive` pair.
        texts: columns of the kind `texts`, of all queries of the log.
        unclicked: columns of the kind `unclicked`.
        context: settings of the pipeline.
    """
    statistics, options = LogStatistics(), context.options
    clicks = (
        pairs.filter("positive")
        .group_by(fingerprint="query_fingerprint")
        .agg(number=col.clicks.sum())
    )
    queries = clicks.join(best_texts(texts, options.rules), on="fingerprint")
    queries = queries.join(texts.group_by("fingerprint").agg(col.sessions.sum()), on="fingerprint")
    reportable = queries.filter(col.sessions >= options.report_min_sessions)
    statistics.add_histogram("queries", queries["number"])
    statistics.add_example_rows("queries", reportable)
    if context.previous:
        earlier = context.previous.fingerprints("queries", bucket, context.bits, options.rules)
        new = queries.filter(~col.fingerprint.is_in(earlier.implode()))
        statistics.count({"new queries": len(new), "clicks of new queries": new["number"].sum()})
        statistics.add_example_rows(
            "new queries", new.join(reportable, on="fingerprint", how="semi")
        )
    spelling_counts = (
        texts.join(queries, on="fingerprint", how="semi").group_by("fingerprint").len()
    )
    views = unclicked.join(texts.filter(col.clicks > 0), on="fingerprint", how="anti")
    unclicked_queries = views.sort("impressions", "text", descending=[True, False])
    unclicked_queries = unclicked_queries.group_by("fingerprint", maintain_order=True).agg(
        col.text.first(), col.sessions.sum(), number=col.impressions.sum()
    )
    statistics.count(
        {
            "queries with several spellings": (spelling_counts["len"] > 1).sum(),
            "queries to show": len(reportable),
            "queries without a click": len(unclicked_queries),
            "impressions without a click": unclicked["impressions"].sum(),
            "impressions of queries without a click": unclicked_queries["number"].sum(),
        }
    )
    frequent = unclicked_queries.filter(col.sessions >= options.report_min_sessions)
    statistics.add_example_rows("queries without a click", frequent)
    return statistics


def sum_titles(group: Group, context: PipelineContext) -> Iterator[Any]:
    """Sums the clicks of each title. The text of the log takes precedence over that of the corpus.

    Yields:
        main   (bucket of titles, its titles);
        words  (bucket of words, words);
        fingerprints (bucket, fingerprints and clicks of its titles);
        counts dict[str, int];
        statistics LogStatistics.
    """
    bucket, shards, options = group[0], shards_by_kind(group[1]), context.options
    sums = sum_shards(shards["sums"], "sums").filter(col.in_table > 0)
    log_texts = (
        sum_shards(shards["texts"], "texts")
        .join(sums, on="fingerprint", how="semi")
        .drop("sessions")
    )
    corpus = sum_shards(shards["corpus"], "corpus")
    texts = pl.concat([log_texts, corpus.with_columns(clicks=pl.lit(-1, pl.Int64))])
    titles = best_texts(texts, options.rules)
    titles = titles.join(sums, on="fingerprint", how="left").fill_null(0).sort("fingerprint")
    titles = titles.with_columns(
        (col("clicks", "all_clicks") / CLICK_WEIGHT_SCALE)
        .round(mode="half_to_even")
        .cast(pl.Int64),
        in_corpus=col.fingerprint.is_in(corpus["fingerprint"].implode()),
    )
    # The vocabulary also counts corpus titles without a training click, once each.
    occurrences = titles.select(pl.when(col.queries > 0).then("queries").otherwise("in_corpus"))
    yield count_output(
        {
            "titles: in all": len(titles),
            "titles: clicked in the training part": (titles["queries"] > 0).sum(),
            "titles: of the corpus": titles["in_corpus"].sum(),
        }
    )
    yield statistics_output(_describe_titles(bucket, titles, log_texts, corpus, context))
    yield from context.emit("titles", titles.select("text", "clicks", "queries"), bucket=bucket)
    words = _count_words(titles["form"], occurrences.to_series().to_numpy(), options.rules)
    yield from context.emit("words", words, "words")
    known_titles = titles.select("fingerprint", "clicks", "all_clicks")
    yield from context.emit("fingerprints", known_titles, "fingerprints", bucket=bucket)


def _describe_titles(
    bucket: int,
    titles: pl.DataFrame,
    log_texts: pl.DataFrame,
    corpus: pl.DataFrame,
    context: PipelineContext,
) -> LogStatistics:
    """Describes the titles of a bucket.

    Args:
        bucket: the bucket.
        titles: the titles of the log and the corpus; columns `fingerprint`, `text`, `log_clicks`
            and `in_corpus`.
        log_texts: the distinct texts of the log, with their clicks.
        corpus: the distinct texts of the corpus.
        context: settings of the pipeline.
    """
    statistics, options = LogStatistics(), context.options
    titles = titles.with_columns(number="log_clicks")
    clicked = titles.filter(col.number > 0)
    statistics.add_histogram("titles", clicked["number"])
    statistics.add_example_rows("titles", clicked)
    statistics.count(
        {
            "titles with several spellings": (
                log_texts.group_by("fingerprint").len()["len"] > 1
            ).sum(),
            "catalog titles": titles["in_corpus"].sum(),
            "catalog titles with several spellings": (
                corpus.group_by("fingerprint").len()["len"] > 1
            ).sum(),
            "catalog titles without a click": titles.filter(
                col.in_corpus & (col.number == 0)
            ).height,
        }
    )
    statistics.add_examples("titles with several spellings", spellings(log_texts))
    if options.corpus:
        missing = clicked.filter(~col.in_corpus)
        clicks = missing["number"].sum()
        statistics.count({"unmatched titles": len(missing), "clicks of unmatched titles": clicks})
        statistics.add_example_rows("unmatched titles", missing)
    if context.previous:
        earlier = context.previous.fingerprints("titles", bucket, context.bits, options.rules)
        new = titles.filter(~col.fingerprint.is_in(earlier.implode()))
        statistics.count({"new titles": len(new), "clicks of new titles": new["number"].sum()})
        statistics.add_example_rows("new titles", new.filter(col.number > 0))
    return statistics


def sum_words(group: Group, context: PipelineContext) -> Iterator[Any]:
    """Sums the occurrences of words and of their letter n-grams.

    Yields:
        main         (bucket of words, its words);
        fingerprints (bucket, fingerprints of its words);
        ngrams       dict[str, int], counts of letter n-grams in the training split.
    """
    bucket, shards = group
    rules = context.options.rules
    words = sum_shards(shards_by_kind(shards)["words"], "words")
    words = words.unique("fingerprint", keep="first", maintain_order=True)
    ngrams: Counter[str] = Counter()
    for word, count in words.filter(col.occurrences > 0).select("word", "occurrences").iter_rows():
        for ngram in letter_ngrams(word, rules.max_letters, rules.letter_ngrams):
            ngrams[ngram] += count
    yield from context.emit("words", words, bucket=bucket)
    yield from context.emit(
        "fingerprints", words.select("fingerprint"), "fingerprints", bucket=bucket
    )
    yield TaggedOutput("ngrams", dict(ngrams))


def _count_words(
    forms: pl.Series, occurrences: NDArray[np.int64], rules: TextRules
) -> pl.DataFrame:
    """Counts the words of texts.

    Args:
        forms: normal forms of the texts.
        occurrences: number of occurrences of each text in the training split, `(texts,)`.
        rules: limit the words per text.

    Returns:
        Columns `word`, `occurrences` and `fingerprint`.
    """
    words, counts = explode_words(forms, rules)
    totals = pl.DataFrame({"word": words, "occurrences": np.repeat(occurrences, counts)})
    totals = totals.group_by("word").agg(col.occurrences.sum())
    return totals.with_columns(fingerprint=fingerprints(totals["word"]))


def best_texts(texts: pl.DataFrame, rules: TextRules) -> pl.DataFrame:
    """Chooses the most clicked text of each fingerprint; ties go to the smallest text.

    Args:
        texts: columns of the kind `texts`, see `SUMMED`.
        rules: the rules by which texts are normalized.

    Returns:
        Columns `fingerprint`, `text` and `form`, the normal form.
    """
    ranked = texts.sort("fingerprint", "clicks", "text", descending=[False, True, False])
    best = ranked.unique("fingerprint", keep="first", maintain_order=True).select(
        "fingerprint", "text"
    )
    return best.with_columns(form=normal_forms(best["text"], rules))

"""Builds the batches of a training: clicks, titles as their own queries, graded lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.config import Config
from dssm_tf.data.batches import Batches
from dssm_tf.data.graded_sources import GradedSource, list_rows
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.rows import click_rows, title_rows
from dssm_tf.data.texts import TextIndexer
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.training.mining import read_mined
from dssm_tf.training.validation import validation_title_queries


def training_batches(
    config: Config,
    data: Preprocessed,
    *,
    replicas: int,
    fixed_shapes: bool = False,
    sources: Sequence[GradedSource] = (),
    frequencies: DocumentFrequencies | None = None,
) -> Batches:
    """The training split as batches.

    Without clicks, an epoch has each title once as its own query. A title is never trained on with
    the words of a validation query of `ValidationTask.from_titles` as its query.

    Args:
        config: the resolved configuration; its sections `training` and `negatives` are read.
        data: the preprocessed directory.
        replicas: devices that share a step.
        fixed_shapes: whether all batches have one shape, as XLA needs them.
        sources: graded lists to train on besides clicks.
        frequencies: document frequencies of the titles, for scores that read terms.
    """
    training, negatives = config.training, config.negatives
    indexer = TextIndexer(data)
    lists = [list_rows(source, indexer) for source in sources]
    texts = indexer.build_tensors(training.typos > 0, training.letters_only > 0, frequencies)
    clicks = {
        split: click_rows(pairs, negatives.recorded, training.click_weight, training.batch_size)
        for split, pairs in data.splits.items()
    }
    rows = dict(clicks) if training.clicks else {}
    if training.title_queries:
        titles_per_epoch = round(training.title_queries * data.count("train"))
        if not data.nonempty_splits:
            titles_per_epoch = data.spec.count("titles")
        rows["always"] = title_rows(texts, clicks["train"], titles_per_epoch)
    # An unclicked title counts as half a click.
    draw_weights = np.maximum(data.title_counts[0], 0.5) ** data.spec.negative_alpha
    batches = Batches(
        texts,
        (rows, *lists),
        fresh=negatives.fresh,
        draw_probabilities=draw_weights / draw_weights.sum(),
        in_batch=negatives.in_batch,
        # One text batch of queries and titles needs a single pass through a shared tower.
        joint=config.shared_towers and not config.score.reads_words,
        typos=training.typos,
        neighboring_words=training.neighboring_words,
        letters_only=training.letters_only,
        mined=read_mined(negatives, data),
        mined_count=negatives.mined,
        held_out=[query.words for query in validation_title_queries(data)],
    )
    return batches.with_shapes(fixed_shapes, replicas)

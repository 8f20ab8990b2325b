"""The model card of a run: model, data, validation, limits."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from dssm_tf.common.files import atomic_write
from dssm_tf.config import Config
from dssm_tf.data.format import Spec
from dssm_tf.evaluation.intervals import small_sample_warning
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.model.siamese import Siamese
from dssm_tf.text.fields import join_fields
from dssm_tf.towers.tower import Tower

if TYPE_CHECKING:
    from dssm_tf.training.run_directory import Result
    from dssm_tf.training.warm_start import WarmStart


def write_model_card(
    out: Path,
    model: Siamese,
    config: Config,
    result: Result,
    spec: Spec,
    warm_start: WarmStart | None = None,
) -> None:
    """Writes `MODEL_CARD.md` into a run's directory.

    Args:
        out: the run.
        model: the trained model.
        config: how it was trained.
        result: of the training.
        spec: of the data it was trained on.
        warm_start: the earlier run that the training started from.
    """
    ndcg = result.ndcg
    metrics = "\n".join(
        f"| {name} | {ndcg[name]:.4f} | {ndcg[f'low {name}']:.3f} to {ndcg[f'high {name}']:.3f} "
        f"| {ndcg[f'cosine {name}']:.4f} |"
        for name in ndcg
        if f"low {name}" in ndcg
    )
    searched = ""
    if "cutoff" in ndcg:
        sentences = _SEARCHED.format(ndcg["bm25_weight"], 1 - ndcg["bm25_weight"], ndcg["cutoff"])
        searched = f"\n{fill(sentences, 100)}\n"
    few = small_sample_warning("\nThey rest on", ndcg["queries"]) if ndcg else []
    negatives = [
        f"{name} {value}" for name, value in config.negatives.model_dump().items() if value
    ]
    ranked = metrics or "| no validation part | | | |"
    epochs = f"{result.epochs}, best {result.best_epoch}"
    if config.training.folds:
        epochs = f"{result.best_epoch}, the best of {result.epochs} by folds; on all records"
    elif result.refitted:
        epochs += "; then trained on, on training and validation part, for two thirds as many"
    learned = "".join(f"| {name} | {sentence} |\n" for name, sentence in result.learned.items())
    if not config.training.clicks:
        learned += "| clicks | not learned from: `training.clicks: false` |\n"
    known = f"{spec.vocabulary_size:,} (vocabulary {spec.fingerprint})"
    earlier_run = before = ""
    if warm_start is not None:
        new = spec.trigrams - warm_start.ngrams
        earlier_run = (
            f"\n| started from | `{warm_start.run}`, fingerprint {warm_start.fingerprint:.16}, "
            f"with {new:,} new letter trigrams; pairs and clicks below "
            "are those since; the log-prior of titles also counts "
            f"{config.ranking.earlier_clicks:g} times the clicks before |"
        )
        before = (
            "\nOnly queries that the earlier run did not know are asked here, if there are any; "
            f"before the first step NDCG@10 was {result.untrained['ndcg@10']:.4f} by the cosine.\n"
            if result.untrained
            else ""
        )
    text = f"""# {config.tower.name}

{_described(type(model.query_tower))} Scores a title for a query by the cosine of two semantic
vectors of length {model.query_tower.dimension}, plus {result.prior_weight:g} times the log of the
title's share of clicks. Input: raw strings, in any language written in letters.

## Training

| | |
|---|---|{earlier_run}
| pairs (query, clicked title) | {spec.count("train"):,} |
| clicks | {spec.clicks:,} |
| a title is | {_fields(spec)} |
{learned}| letter trigrams known | {known} |
| towers | {"shared" if config.shared_towers else "separate"} |
| parameters | {model.count_params():,} |
| negatives | {", ".join(negatives)} |
| loss | {config.loss.summary()} |
| optimizer | {_optimizer(config)} |
| epochs | {epochs} |
| precision | {config.training.precision} in training; it ranks and is served in float32 |

The exact settings are in `config.yaml`, the curves in `history.json`.

## Validation

{fill(f"{result.validated or 'No query was held out.'} Gain `2^grade - 1`.", 100)}
{"" if config.training.folds else "Measured before any training on the validation part."}

| metric | value | 95 % interval over queries | by the cosine alone, without the prior |
|---|---|---|---|
{ranked}
{"".join(few)}{before}
Vectors with the prior rank as the first column says: those of `dssm embed`, of the signatures
`encode_query` and `encode_title`, and of `prior=True` in Python; compare them by inner product.
Unit vectors (`dssm embed --cosine`, or all numbers of a vector but the last) rank as the last
column says.
{searched}
## Use and limits

Rank titles for queries like those of the log. Clicks are not relevance: what users did not see
they could not click, and what ranked high was clicked more. Titles that nobody clicked have the
smallest log-prior; those that neither the log nor a corpus given to preprocess held were never
learned and are scored by what their letter trigrams share with others. Queries can hold personal
data; this model keeps titles (`titles.tsv`), letter trigrams and a hash of each query
(`query_ids.npy`, by which an evaluation knows new queries), but no query's text. Who guesses a
query can tell by its hash whether the log held it; no ranking needs the file.
"""
    with atomic_write(out / MODEL_CARD) as file:
        file.write(text)


_SEARCHED = (
    "`dssm search` adds BM25, weight {:.2f}, and this model, weight {:.2f}, each scaled to 0..1. "
    "It says that nothing good was found if every title it found has a cosine below {:.3f} and "
    "lacks a word of the query. That is the 5th percentile of the first title's cosine over the "
    "validation queries whose first title was clicked; how many poor answers are below it was not "
    "measured."
)


def _optimizer(config: Config) -> str:
    optimizer = config.optimizer
    summary = f"{optimizer.name}, learning rate {optimizer.learning_rate:g}"
    if optimizer.schedule.name != "constant":
        summary += f", schedule {optimizer.schedule.summary()}"
    return summary


def _fields(spec: Spec) -> str:
    """What a title is made of, as it is to be sent."""
    if len(spec.title_fields) == 1:
        return "one text"
    return f"`{join_fields(spec.title_fields)}`, fields with U+241F between"


def _described(tower: type[Tower]) -> str:
    """A tower's name and the papers that its docstring refers to."""
    _, _, reference = (tower.__doc__ or "").partition("Reference: ")
    return f"{tower.__name__}: {' '.join(reference.split()) or 'no paper'}"

"""Writes the model card of a run: model, data, validation, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dssm_tf.common.files import atomic_write
from dssm_tf.config import Config
from dssm_tf.config.scores import MaxSimConfig
from dssm_tf.data.format import Spec
from dssm_tf.evaluation.intervals import small_sample_warning
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.model.siamese import Siamese
from dssm_tf.scores import Score
from dssm_tf.text.fields import join_fields
from dssm_tf.text.letter_ngrams import WHOLE_WORD
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.tower import Tower
from dssm_tf.training.prior_weight import PRIOR_WEIGHTS
from dssm_tf.training.validation import FROM_TITLES, GRADED_BY_TITLES

if TYPE_CHECKING:
    from dssm_tf.training.run_directory import Result
    from dssm_tf.training.warm_start import WarmStart


def write_model_card(
    out: Path,
    model: Siamese,
    config: Config,
    result: Result,
    spec: Spec,
    vocabulary: Vocabulary,
    warm_start: WarmStart | None = None,
) -> None:
    """Writes `MODEL_CARD.md` into a run's directory.

    Args:
        out: the run's directory.
        model: the trained model.
        config: the configuration of the training.
        result: the result of the training.
        spec: describes the data of the training.
        vocabulary: the letter n-grams and words of the model.
        warm_start: the earlier run that the training started from.
    """
    metrics = result.metrics
    on_title_queries = result.validation_description == GRADED_BY_TITLES
    metric_rows = "\n".join(
        f"| {name} | {metrics[name]:.4f} "
        f"| {metrics[f'low {name}']:.3f} to {metrics[f'high {name}']:.3f} "
        f"| {metrics[f'similarity {name}']:.4f} |"
        for name in metrics
        if f"low {name}" in metrics
    )
    search = ""
    if "cutoff" in metrics:
        sentences = _NO_GOOD_MATCH.format(metrics["cutoff"])
        search = f"\n{fill(sentences, 100)}\n"
    small_sample = []
    if metrics:
        small_sample = small_sample_warning(
            "\nThese values are based on",
            metrics["queries"],
            FROM_TITLES if on_title_queries else "",
        )
    negatives = [
        f"{name} {value}" for name, value in config.negatives.model_dump().items() if value
    ]
    metric_rows = metric_rows or "| no validation split | | | |"
    epochs = f"{result.epochs}, best {result.best_epoch}" if result.epochs else "0, without clicks"
    if config.training.folds:
        epochs = (
            f"{result.best_epoch}, the best of {result.epochs} by cross-validation; trained on all "
            "records"
        )
    elif result.refitted:
        epochs += f"; then a refit on both splits, {result.refit_epochs}"
    sources = "".join(
        f"| {name} | {sentence} |\n" for name, sentence in result.source_descriptions.items()
    )
    if not config.training.clicks:
        sources += "| clicks | not used: `training.clicks: false` |\n"
    words = vocabulary.counts[WHOLE_WORD]
    limits = _LIMITS.format(*_LIMITS_WITH_WORDS if words else ("", ""))
    if not (spec.count("train") or warm_start or config.lists):
        limits = _LIMITS_WITHOUT_CLICKS.format(", their words" if words else "")
    ngrams = f"{spec.vocabulary_size - words:,}"
    if words:
        ngrams += f", and {words:,} words with rows of their own"
    ngrams += f" (vocabulary {spec.fingerprint})"
    earlier_run = validation_note = ""
    if warm_start is not None:
        new = spec.ngrams - warm_start.ngrams
        earlier_run = (
            f"\n| started from | `{warm_start.run}`, fingerprint {warm_start.fingerprint:.16}, "
            f"with {new:,} new letter n-grams and words; the pairs and clicks below are only "
            "those of the new data; the log-prior also counts the clicks of the earlier run, "
            f"multiplied by {config.ranking.earlier_clicks:g} |"
        )
        validation_note = (
            "\nThe validation queries are those that the earlier run was not trained on, if there "
            "are any. Before the first step, NDCG@10 without the prior was "
            f"{result.untrained['ndcg@10']:.4f}.\n"
            if result.untrained
            else ""
        )
    reads_words = config.score.reads_words
    dimension = model.query_tower.dimension
    score = f"the cosine of two semantic vectors of length {dimension}"
    if reads_words:
        score = f"`{config.score.name}` of word vectors of length {dimension} (docs/maxsim.md)"
    text_vectors = ""
    if isinstance(config.score, MaxSimConfig) and config.score.text_cosine:
        text_vectors = (
            f"The score includes {config.score.text_cosine:g} times the cosine of text vectors of "
            f"length {config.score.text_units}. "
        )
    component = type(model.score if reads_words else model.query_tower)
    introduction = (
        f"{_name_and_papers(component)} The score of a title for a query is {score}, plus "
        f"{result.prior_weight:g} times the log of the title's fraction of the clicks. "
        f"{text_vectors}Input: raw strings, in any language written in letters."
    )
    stages = "".join(
        f"| {'start' if result.epochs else 'stage'} | {stage['name']}{_stage_metric(stage)}"
        f"{'; chosen' if stage['chosen'] and len(result.stages) > 1 else ''} |\n"
        for stage in result.stages
    )
    text = f"""# {config.model_name}

{fill(introduction, 100)}

## Training

| | |
|---|---|{earlier_run}
| pairs (query, clicked title) | {spec.count("train"):,} |
| clicks | {spec.clicks:,} |
| a title is | {_fields(spec)} |
{sources}{stages}| letter n-grams | {ngrams} |
| towers | {"shared" if config.shared_towers else "separate"} |
| parameters | {model.count_params():,} |
| negatives | {", ".join(negatives)} |
| loss | {config.loss.summary()} |
| optimizer | {_optimizer(config)} |
| epochs | {epochs} |
| precision | {config.training.precision} in training; float32 in ranking and serving |

The exact settings are in `config.yaml`, the curves in `history.json`.

## Validation

{fill(f"{result.validation_description or 'No query was held out.'} Gain `2^grade - 1`.", 100)}
{_choices(config, result, spec)}

| metric | value | 95 % interval over queries | without the prior |
|---|---|---|---|
{metric_rows}
{"".join(small_sample)}{validation_note}
{"" if reads_words else _VECTORS}{search}
## Use and limits

{fill(limits, 100)}
"""
    with atomic_write(out / MODEL_CARD) as file:
        file.write(text)


_LIMITS = (
    "The model ranks titles for queries like those of the log. Clicks are not relevance: users "
    "cannot click titles that they did not see, and they click high ranks more often. Unclicked "
    "titles have the smallest log-prior. Titles that are neither in the log nor in a corpus were "
    "not trained on; their scores come from letter n-grams that they share with other titles. "
    "Queries can contain personal data. This run contains titles (`titles.tsv`), letter n-grams{}, "
    "and a hash of each query and of each pair of query and title (`query_ids.npy` and "
    "`pair_ids.npy`, with which an evaluation recognizes the queries and pairs of the training), "
    "but no text of a query{}. A guessed query can be checked against the hashes; ranking does not "
    "need these files."
)
_LIMITS_WITH_WORDS = (
    ", each word that occurs at least twice in the queries and titles (`vocabulary.txt`)",
    ", except that such a word can be a query",
)

_LIMITS_WITHOUT_CLICKS = (
    "The model was trained on titles alone. It has not learned from users: neither which words "
    "they type for a title, nor which titles they prefer, so all titles have the same log-prior. "
    "Validation queries have words of their titles, so users' queries can be ranked worse. Measure "
    "the model on judged queries, and train on clicks as soon as there are some. Titles that are "
    "not in the corpus were not trained on. This run contains titles (`titles.tsv`){}, and letter "
    "n-grams."
)

_VECTORS = """\
The column "value" measures the ranking by vectors that include the prior. `dssm embed`, the
signatures `encode_query` and `encode_title`, and `prior=True` in Python return these vectors.
Compare them by inner product. The last column measures the ranking by unit vectors, without the
prior. `dssm embed --cosine` returns these; they are the same vectors without the last number.
"""

_NO_GOOD_MATCH = (
    "`dssm search` warns that no result is good if each of the first ten titles has a score "
    "without the prior below {:.3f} and lacks a word of the query. This cut-off is the 5th "
    "percentile of this score of the most similar title, over the validation queries whose most "
    "similar title has a grade. It was not measured how many poor results have such a warning."
)


def _choices(config: Config, result: Result, spec: Spec) -> str:
    """Sentences about the settings that were chosen on the same validation queries as the table."""
    if not result.metrics:
        return ""
    choices = []
    if result.epochs > 1:
        choices.append(f"the epoch, the best of {result.epochs}")
    if len(result.stages) > 1:
        name = "start" if result.epochs else "stage"
        choices.append(f"the {name}, the best of {len(result.stages)}")
    if config.ranking.prior == "auto" and spec.clicks:
        choices.append(f"the weight of the log-prior, the best of {len(PRIOR_WEIGHTS)}")
    sentences = []
    if result.refitted and not config.training.folds:
        sentences.append("The values are those before the refit on all records.")
    if choices:
        sentences.append(
            f"These choices were made on the same queries: {_enumeration(choices)}. So the values "
            "are too high on average, and the intervals do not account for the choices. Measure "
            "the model on other judged queries (`dssm evaluate`)."
        )
    return fill(" ".join(sentences), 100)


def _enumeration(items: Sequence[str]) -> str:
    """Items with commas and `and`.

    >>> _enumeration(["a"]), _enumeration(["a", "b"]), _enumeration(["a", "b", "c"])
    ('a', 'a, and b', 'a, b, and c')
    """
    return ", ".join([*items[:-1], f"and {items[-1]}" if len(items) > 1 else items[-1]])


def _stage_metric(stage: Mapping[str, Any]) -> str:
    """The validation metrics of a start or a stage, if there was a validation."""
    if "ndcg@10" not in stage:
        return ""
    text = f": validation NDCG@10 {stage['ndcg@10']:.4f}"
    if "compared" not in stage:
        return text
    compared = dict(stage["compared"])
    epochs = compared.pop("epochs")
    [(monitor, value)] = compared.items()
    name = monitor.replace("ndcg", "NDCG").replace("val_loss", "validation loss")
    best = f", the best of {epochs} epochs" if epochs > 1 else " after 1 epoch"
    return f"{text} before clicks; {name} {value:.4f}{best}"


def _optimizer(config: Config) -> str:
    """Name, learning rate and schedule of the optimizer."""
    optimizer = config.optimizer
    summary = f"{optimizer.name}, learning rate {optimizer.learning_rate:g}"
    if optimizer.schedule.name != "constant":
        summary += f", schedule {optimizer.schedule.summary()}"
    return summary


def _fields(spec: Spec) -> str:
    """The fields of a title, in the form in which a client sends them."""
    if len(spec.title_fields) == 1:
        return "one text"
    return f"`{join_fields(spec.title_fields)}`, fields separated by U+241F"


def _name_and_papers(component: type[Tower | Score]) -> str:
    """The name of a tower or score, and the papers that its docstring refers to."""
    _, _, reference = (component.__doc__ or "").partition("Reference: ")
    return f"{component.__name__}: {' '.join(reference.split()) or 'no paper'}"

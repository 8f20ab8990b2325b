"""Trains skip-thought encoders on contiguous text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.skip_thought import RESETS
from dssm_tf.baselines.skip_thought.passages import UNKNOWN_ID, Passages
from dssm_tf.baselines.skip_thought.published_weights import KINDS
from dssm_tf.baselines.skip_thought.vectors import Encoder, ThoughtVectors
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task, Told, progress_of

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.baselines.skip_thought.model import SkipThought

_LIKE_LENGTHS = 50  # batches whose sentences are sorted by length together
_COMPILED_STEPS = 12  # from here on, compiling the step takes less time than it saves


@dataclass(frozen=True)
class TrainingOptions:
    """How encoders are trained. The paper's values in brackets.

    Args:
        kind: `uni`, `bi`, or `combine`: both, one after the other.
        units: size of the uni-skip vector and of the bi-skip vector, half of it a direction;
            combine-skip has twice as many [2400].
        word_units: size of the word vectors [620].
        vocabulary: most frequent words that are known [20,000].
        predicted: most frequent words that the decoders tell apart, which is what takes time;
            the others are one word to them [all].
        max_words: words of a sentence that are read [30].
        epochs: passes over the text.
        batch_size: sentences a step [128].
        learning_rate: of Adam.
        clip_norm: gradients longer than this are shortened [10].
        reset: see `model.GRUCell`.
        max_steps: steps at most, of each encoder; None for all.
        repeat: whether each sentence stands twice in its passage, so that one of its neighbours
            is itself: its vector then keeps its own words, which ranking lives on; a pass takes
            twice as many steps [no].
        seed: of the first weights and the order of batches.
    """

    kind: str = "uni"
    units: int = 300
    word_units: int = 300
    vocabulary: int = 20000
    predicted: int = 5000
    max_words: int = 30
    epochs: int = 2
    batch_size: int = 64
    learning_rate: float = 3e-3
    clip_norm: float = 10.0
    reset: str = "before"
    max_steps: int | None = None
    repeat: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}; expected one of {', '.join(KINDS)}.")
        for name in (
            "units", "word_units", "vocabulary", "predicted", "max_words", "epochs", "batch_size"
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1.")
        if self.reset not in RESETS:
            raise ValueError(f"reset is {self.reset!r}; expected one of {', '.join(RESETS)}.")
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps}; expected at least 1, or None.")
        if self.kind != "uni" and self.units % 2:
            raise ValueError(
                f"units is {self.units}; bi-skip has half of it in each direction: give an even "
                "number."
            )
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected more than 0.")


@dataclass(frozen=True)
class Epoch:
    """What one pass over the text came to: negative log likelihoods of the neighbours' words.

    Args:
        encoder: `uni` or `bi`.
        number: of the pass, from 1 on.
        steps: of the pass.
        first: nats a word over the first tenth of the pass's steps.
        last: the same over the last tenth.
        seconds: the pass took.
    """

    encoder: str
    number: int
    steps: int
    first: float
    last: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.encoder}-skip pass {self.number}: {self.steps:,} steps, from {self.first:.3f} "
            f"to {self.last:.3f} nats a word · {self.seconds:.0f} s"
        )


def train(
    passages: Iterable[Sequence[str]],
    options: TrainingOptions,
    progress: Console | Told | None = None,
) -> tuple[ThoughtVectors, list[Epoch]]:
    """Trains encoders.

    Every sentence with a neighbour is a training tuple; where one of the two is missing, at the
    ends of a passage, the other alone is predicted.

    Args:
        passages: sentences that follow each other.
        options: sizes and steps.
        progress: a console to show it on, or a function that is told the steps of an encoder that
            are done and their number; None shows none.

    Returns:
        What encodes texts, and the passes of all encoders.

    Raises:
        UserError: the text has no two neighbouring sentences, or training diverges.
    """
    text = Passages.of(passages, options.vocabulary, options.max_words, options.repeat)
    encoders, history = [], []
    for name in ("uni", "bi") if options.kind == "combine" else (options.kind,):
        model, epochs = _train_one(text, name, options, progress)
        history += epochs
        # Row 0 is the padding's; without it row i is the word on line i of the dictionary.
        table = np.asarray(model.table, np.float32)[1:]
        encoders.append(Encoder(name, table, model.encoder))
    rows = {word: row for row, word in enumerate(text.dictionary)}
    return ThoughtVectors(rows, encoders), history


def _train_one(
    text: Passages, name: str, options: TrainingOptions, progress: Console | Told | None
) -> tuple[SkipThought, list[Epoch]]:
    # Only now: Keras takes seconds to import, and the text is found good before.
    import keras

    from dssm_tf.baselines.skip_thought.model import SkipThought

    bidirectional = name == "bi"
    model = SkipThought(
        len(text.dictionary),
        options.units // 2 if bidirectional else options.units,
        options.word_units,
        bidirectional,
        options.reset,
        seed=options.seed,
        predicted_words=UNKNOWN_ID + options.predicted,
    )
    model.start_at_frequencies(text.counts(model.predicted_words))
    per_epoch = max(1, len(text) // options.batch_size)
    total = min(per_epoch * options.epochs, options.max_steps or per_epoch * options.epochs)
    model.compile(
        keras.optimizers.Adam(options.learning_rate, global_clipnorm=options.clip_norm),
        jit_compile=False,
        run_eagerly=total < _COMPILED_STEPS,
    )
    epochs = []
    with progress_of(f"{name}-skip", total, progress) as task:
        for number in range(1, -(-total // per_epoch) + 1):
            steps = min(per_epoch, total - per_epoch * (number - 1))
            epoch = _epoch(model, text, name, number, steps, options, task)
            if progress is not None and not callable(progress):
                progress.print(str(epoch), highlight=False, markup=False, soft_wrap=True)
            epochs.append(epoch)
    return model, epochs


def _epoch(
    model: SkipThought,
    text: Passages,
    name: str,
    number: int,
    steps: int,
    options: TrainingOptions,
    task: Task,
) -> Epoch:
    started = monotonic()
    sums = np.zeros((steps + 1, 2))  # nats and words up to each step
    batches = _batches(text, options.batch_size, options.seed + number)
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        model.reset_metrics()
        logs = model.train_on_batch(batch, return_dict=True)
        counted = float(logs["nats"]), float(logs["words"])
        sums[step] = sums[step - 1] + counted
        mean = counted[0] / counted[1]
        if not np.isfinite(mean):
            raise UserError(
                f"training of {name}-skip diverged at step {step} of pass {number} (the loss is "
                f"{mean}); use a smaller learning rate than {options.learning_rate:g}."
            )
        task.advance(state=f"{mean:.3f} nats a word")
    tenth = max(1, steps // 10)
    first, last = sums[tenth] - sums[0], sums[-1] - sums[-1 - tenth]
    seconds = monotonic() - started
    return Epoch(name, number, steps, float(first[0] / first[1]), float(last[0] / last[1]), seconds)


def _batches(
    text: Passages, batch_size: int, seed: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
    """Sentences with their neighbours, `(batch, words)` each, those of like length together.

    Batches are of one size, so what is left over at the end of a shuffled pass is not used; a
    text smaller than a batch is one batch.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(text))
    size = min(batch_size, len(text))
    order = order[: len(order) // size * size]
    before, after = text.neighbour(order, -1), text.neighbour(order, 1)
    lengths = text.lengths()
    own = lengths[order]
    # A neighbour needs a column more, for <eos>.
    beside = [np.where(rows < 0, 0, lengths[rows] + 1) for rows in (before, after)]
    # By the longest of the three: by the neighbours alone, a batch of a click log would hold either
    # queries or titles only.
    longest = np.maximum.reduce([own, *beside])
    chunks = []
    for start in range(0, len(order), size * _LIKE_LENGTHS):
        part = np.arange(start, min(start + size * _LIKE_LENGTHS, len(order)))
        part = part[np.argsort(longest[part], kind="stable")]
        chunks += np.split(part, len(part) // size)
    for place in random.permutation(len(chunks)):
        rows = chunks[place]
        yield (
            text.matrix(order[rows], max(1, int(own[rows].max())), end=False),
            text.matrix(before[rows], max(1, int(beside[0][rows].max())), end=True),
            text.matrix(after[rows], max(1, int(beside[1][rows].max())), end=True),
        )

"""The networks of skip-thought: a sentence is encoded so that its neighbors can be predicted.

The GRU is Keras's own. The paper writes `h(t) = (1 - z) h(t-1) + z g`; Keras's `z` is the fraction
of the old state that remains. As it is a sigmoid, that is the same family of functions.

Reference: Kiros et al. 2015, eq. 1-10, and sec. 3 for bi-skip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from numpy.typing import NDArray

from dssm_tf.baselines.skip_thought.published import UNKNOWN, Arrays, encoder_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from dssm_tf.baselines.skip_thought.baseline import SkipThought

Ids = NDArray[np.int32]

_END_ID, _UNKNOWN_ID = 1, 2  # 0 is padding
_BATCH = 64


def _uniform() -> Any:
    """A new initializer of all weights but those of states."""
    return keras.initializers.RandomUniform(-0.1, 0.1)


@keras.saving.register_keras_serializable(package="dssm_tf.skip_thought")
def _orthogonal(shape: tuple[int, int], dtype: Any = None) -> Any:
    """One orthogonal matrix per gate, which preserves the state's memory of earlier words."""
    square = shape[0], shape[0]
    return ops.concatenate([keras.initializers.Orthogonal()(square, dtype) for _ in range(3)], 1)


def _gru(units: int, **options: Any) -> Any:
    return layers.GRU(
        units, kernel_initializer=_uniform(), recurrent_initializer=_orthogonal, **options
    )


class Text(NamedTuple):
    """Sentences as ids: 0 padding, 1 `<eos>`, 2 `UNK`, then words by frequency.

    Attributes:
        dictionary: the word of each id, from 1 on.
        triples: three matrices of ids, `(sentences, words)` each, with one row per sentence that
            has a neighbor: the sentence, the previous one and the following one. The last two have
            `<eos>` at both ends. The row of a missing neighbor is 0.
    """

    dictionary: tuple[str, ...]
    triples: tuple[Ids, ...]

    @classmethod
    def from_passages(
        cls, passages: Iterable[Sequence[str]], vocabulary: int, max_words: int
    ) -> Text:
        """Reads passages. Those of one sentence count only for the dictionary.

        Args:
            passages: the raw sentences of each passage; those without a word are left out.
            vocabulary: the most frequent words to keep; the others become `UNK`.
            max_words: words of a sentence that are read.

        Raises:
            UserError: no two sentences are neighbors.
        """
        split = [
            [words[:max_words] for sentence in passage if (words := FOLDED.words(sentence))]
            for passage in passages
        ]
        counts = Counter(word for passage in split for words in passage for word in words)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))[:vocabulary]
        ids = {word: row for row, word in enumerate(ranked, start=_UNKNOWN_ID + 1)}
        rows_of_triples: list[tuple[list[int], ...]] = []
        for passage in split:
            if len(passage) > 1:
                rows = [[ids.get(word, _UNKNOWN_ID) for word in words] for words in passage]
                ends = [[], *([_END_ID, *row, _END_ID] for row in rows), []]
                rows_of_triples += zip(rows, ends, ends[2:], strict=False)
        if not rows_of_triples:
            raise UserError(
                "there are no two sentences that follow each other to learn from; skip-thought "
                "needs contiguous text: sentences one after another, or a log of clicks."
            )
        pad = partial(keras.utils.pad_sequences, padding="post")
        matrices = tuple(map(pad, zip(*rows_of_triples, strict=True)))
        return cls(("<eos>", UNKNOWN, *ranked), matrices)


def gru(units: int, bidirectional: bool, reset_after: bool = False) -> Any:
    """A layer: `(texts, words, dim)` to the last state of one GRU or of two, side by side."""
    layer = _gru(units, reset_after=reset_after, name="encoder")
    return layers.Bidirectional(layer, name="encoder") if bidirectional else layer


def make_encoder(weights: Sequence[NDArray[np.float32]], reset_after: bool) -> Any:
    """The layer of one direction or two with its weights, three of each."""
    kernel, recurrent, *_ = weights
    layer = gru(len(recurrent), len(weights) > 3, reset_after)
    layer.build((None, None, len(kernel)))
    layer.set_weights(weights)
    return layer


def make_model(text: Text, name: str, settings: SkipThought) -> Any:
    """The encoder, `uni` or `bi`, and two decoders: ids of `Text.triples` to logits of next words.

    Both decoders are GRUs that read `[word, thought vector]` at each step; they share the word
    vectors of the encoder and the output matrix.
    """
    keras.utils.set_random_seed(settings.seed)
    words = len(text.dictionary) + 1
    embedding = layers.Embedding(
        words, settings.word_units, _uniform(), mask_zero=True, name="words"
    )
    output = layers.Dense(
        min(_UNKNOWN_ID + 1 + settings.predicted, words),
        kernel_initializer=_uniform(),
        bias_initializer=lambda shape, **_: _log_frequencies(text, *shape),
        name="output",
    )
    current, *neighbors = (keras.Input((None,), dtype="int32") for _ in text.triples)
    thought = gru(settings.units // (1 + (name == "bi")), name == "bi")(embedding(current))
    logits = []
    for neighbor, decoder in zip(neighbors, ("previous", "following"), strict=True):
        previous_words = embedding(neighbor[:, :-1])
        repeated = thought[:, None] + 0 * previous_words[..., :1]  # for each word
        states = _gru(thought.shape[-1], return_sequences=True, reset_after=False, name=decoder)(
            ops.concatenate([previous_words, repeated], axis=-1), mask=neighbor[:, :-1] != 0
        )
        logits.append(output(states))
    return keras.Model([current, *neighbors], logits)


def train(text: Text, name: str, settings: SkipThought, *, progress: bool = False) -> Arrays:
    """Trains one encoder.

    Args:
        text: the text to learn from.
        name: `uni` or `bi`.
        settings: sizes, seed and learning rate.
        progress: shows a progress bar.

    Returns:
        See `ThoughtEncoders.encoders`.

    Raises:
        UserError: training diverges.
    """
    model = make_model(text, name, settings)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=10.0),
        [keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)] * 2,
        jit_compile=False,
    )
    steps = -(-len(text.triples[0]) // _BATCH) * settings.epochs
    steps = min(steps, settings.max_steps or steps)

    with progress_of(f"{name}-skip", steps, progress) as task:

        def show_loss(_: int, logs: dict[str, float]) -> None:
            task.advance(state=f"{logs['loss'] / 2:.3f} nats per word")
            model.stop_training = task.done >= steps

        history = model.fit(
            _batches(text, model.output_shape[0][-1]),
            epochs=settings.epochs,
            shuffle=False,  # `_batches` does
            verbose=0,
            callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=show_loss)],
        )
    if not np.isfinite(history.history["loss"][-1]):
        raise UserError(
            f"training of {name}-skip diverged; use a smaller learning rate than "
            f"{settings.learning_rate:g}."
        )
    # Row 0 is the padding's; without it row i is the word on line i of the dictionary.
    table = np.asarray(model.get_layer("words").embeddings, np.float32)[1:]
    return encoder_arrays(name, table, model.get_layer("encoder").get_weights())


def _batches(text: Text, predicted: int) -> tf.data.Dataset:
    """Sentences with their neighbors, and the words to predict; shuffled in each pass."""
    targets = (_predicted_ids(ids[:, 1:], predicted) for ids in text.triples[1:])
    columns = tuple(map(tf.constant, text.triples)), tuple(map(tf.constant, targets))
    rows = tf.data.Dataset.range(len(text.triples[0])).shuffle(len(text.triples[0])).batch(_BATCH)
    batches = rows.map(lambda row: tf.nest.map_structure(lambda ids: tf.gather(ids, row), columns))
    # Keras would make an autotuned data set from arrays.
    return batches.with_options(WITHOUT_AUTOTUNING)


def _log_frequencies(text: Text, predicted: int) -> NDArray[np.float32]:
    """The initial bias of the output: the logs of the words' frequencies, in nats.

    Otherwise the decoders learn the frequencies first, through thought vectors that are all the
    same, and take hundreds of steps to leave that state.
    """
    sentences = _predicted_ids(text.triples[0], predicted)
    counts = np.bincount(sentences.ravel(), minlength=predicted) + 0.5
    counts[0], counts[_END_ID] = 0.5, len(sentences)
    return np.log(counts / counts.sum()).astype(np.float32)


def _predicted_ids(ids: Ids, predicted: int) -> Ids:
    """Ids below the number of words that the decoders distinguish; the others become `UNK`."""
    return np.where(ids < predicted, ids, _UNKNOWN_ID)

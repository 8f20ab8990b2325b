"""The skip-thought model: a GRU encoder and two GRU decoders that read its vector.

Reference: Kiros et al., "Skip-Thought Vectors", NIPS 2015, eq. 1-10.
"""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.baselines.skip_thought import RESETS
from dssm_tf.baselines.skip_thought.passages import UNKNOWN_ID


@keras.saving.register_keras_serializable(package="dssm_tf.baselines.skip_thought")
class GRUCell(keras.layers.Layer):
    """One step of a GRU whose input is already multiplied by its matrices.

    Differs from `keras.layers.GRUCell` by that, so that all words of a batch are multiplied at
    once, by gates in the published order (reset, update) and by a choice of where the reset gate
    acts. With the input `[W_r x + b_r, W_u x + b_u, W x + b]`:

        r = sigmoid(W_r x + b_r + U_r h(t-1))
        u = sigmoid(W_u x + b_u + U_u h(t-1))
        g = tanh(W x + b + U (r * h(t-1)))        reset "before": the paper
        g = tanh(W x + b + r * (U h(t-1)))        reset "after": the published weights
        h(t) = u * h(t-1) + (1 - u) * g

    The paper writes h(t) = (1 - z) h(t-1) + z g. As z = 1 - u, which is a sigmoid of the negated
    argument, that is the same family of functions; the published weights hold u.

    Args:
        units: size of the state.
        reset: `before` or `after`.

    Call arguments:
        inputs: `(batch, 3 * units)`.
        states: `[h(t-1)]`, `(batch, units)`.

    Returns:
        `h(t)` and `[h(t)]`, `(batch, units)`.

    Reference: Kiros et al. 2015, eq. 1-4.
    """

    def __init__(self, units, reset="before", seed=None, **kwargs):
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"GRUCell received units={units}; expected at least 1.")
        if reset not in RESETS:
            raise ValueError(f"GRUCell received reset={reset!r}; expected one of {RESETS}.")
        self.units = units
        self.reset = reset
        self.seed = seed
        self.state_size = [units]
        self.output_size = units

    def build(self, *_):
        """Makes `U_r` and `U_u` side by side, `(units, 2 units)`, and `U` `(units, units)`."""
        self.gate_kernel = self.add_weight(
            name="gate_kernel", shape=(self.units, 2 * self.units), initializer=self._two_orthogonal
        )
        self.state_kernel = self.add_weight(
            name="state_kernel",
            shape=(self.units, self.units),
            initializer=_orthogonal(self.seed, 2),
        )
        self.built = True

    def _two_orthogonal(self, shape, dtype=None):
        square = (self.units, self.units)
        return ops.concatenate(
            [_orthogonal(self.seed, place)(square, dtype) for place in range(2)], axis=1
        )

    def call(self, inputs, states, training=False):
        """One word."""
        (h,) = states
        of_gates, of_state = inputs[:, : 2 * self.units], inputs[:, 2 * self.units :]
        gates = ops.sigmoid(of_gates + ops.matmul(h, self.gate_kernel))
        reset, update = ops.split(gates, 2, axis=-1)
        if self.reset == "before":
            recurrent = ops.matmul(reset * h, self.state_kernel)
        else:
            recurrent = reset * ops.matmul(h, self.state_kernel)
        h = update * h + (1.0 - update) * ops.tanh(of_state + recurrent)
        return h, [h]

    def get_initial_state(self, batch_size=None):
        """`h(0)`: zeros, `(batch_size, units)`."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype)]

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"units": self.units, "reset": self.reset, "seed": self.seed}


@keras.saving.register_keras_serializable(package="dssm_tf.baselines.skip_thought")
class GRU(keras.layers.Layer):
    """Runs a `GRUCell` over texts; padding words leave the state as it is.

    Args:
        dim: size of the word vectors.
        units: size of the state.
        reset: see `GRUCell`.
        go_backwards: read each text from right to left.
        return_sequences: give the state at every word instead of the last.
        condition: size of a vector that is added to every word's input, multiplied by its own
            matrices `C_r, C_u, C` (the paper's decoder, eq. 5-8); 0 for none.
        seed: of the first weights; None draws others each time.

    Call arguments:
        words: `(texts, max_words, dim)`.
        present: bool `(texts, max_words)`, false at padding.
        given: `(texts, condition)`.

    Returns:
        `(texts, units)`, or `(texts, max_words, units)`.
    """

    def __init__(
        self,
        dim,
        units,
        reset="before",
        go_backwards=False,
        return_sequences=False,
        condition=0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.input_projection = keras.layers.Dense(
            3 * units,
            kernel_initializer=_uniform(seed, 3),
            name="input_projection",
            dtype=self.dtype_policy,
        )
        self.condition_projection = None
        if condition:
            self.condition_projection = keras.layers.Dense(
                3 * units,
                use_bias=False,
                kernel_initializer=_uniform(seed, 4),
                name="condition_projection",
                dtype=self.dtype_policy,
            )
        self.recurrence = keras.layers.RNN(
            GRUCell(units, reset, seed, dtype=self.dtype_policy),
            go_backwards=go_backwards,
            return_sequences=return_sequences,
            name="recurrence",
            dtype=self.dtype_policy,
        )
        # Made here: Keras would trace `call` to find the shapes, which takes longer than the call.
        self.input_projection.build((None, None, dim))
        if self.condition_projection is not None:
            self.condition_projection.build((None, condition))
        self.recurrence.build((None, None, 3 * units))

    def build(self, *_):
        """All weights are there."""
        self.built = True

    def call(self, words, present=None, given=None):
        """Multiplies all words at once, then goes through them."""
        projected = self.input_projection(words)
        if self.condition_projection is not None:
            projected = projected + ops.expand_dims(self.condition_projection(given), 1)
        return self.recurrence(projected, mask=present)


@keras.saving.register_keras_serializable(package="dssm_tf.baselines.skip_thought")
class ThoughtEncoder(keras.layers.Layer):
    """Word vectors of a sentence to its thought vector: the last state of one GRU or of two.

    Args:
        dim: size of the word vectors.
        units: size of the state of each direction.
        bidirectional: whether a second GRU reads the sentence backwards (bi-skip); the two last
            states stand side by side, left to right first.
        reset: see `GRUCell`.
        seed: of the first weights.

    Call arguments:
        words: `(sentences, max_words, dim)`.
        present: bool `(sentences, max_words)`, false at padding.

    Returns:
        `(sentences, units)`, or `(sentences, 2 * units)` when bidirectional.

    Reference: Kiros et al. 2015, sec. 2.1 and "Details of training" of sec. 3.
    """

    def __init__(self, dim, units, bidirectional=False, reset="before", seed=None, **kwargs):
        super().__init__(**kwargs)
        self.dimension = units * (2 if bidirectional else 1)
        policy = self.dtype_policy
        self.forward_gru = GRU(
            dim, units, reset, seed=_derived(seed, 1), name="forward", dtype=policy
        )
        self.backward_gru = None
        if bidirectional:
            self.backward_gru = GRU(
                dim,
                units,
                reset,
                go_backwards=True,
                seed=_derived(seed, 2),
                name="backward",
                dtype=policy,
            )

    def build(self, *_):
        """All weights are there."""
        self.built = True

    def call(self, words, present=None):
        """Reads every sentence."""
        thought = self.forward_gru(words, present=present)
        if self.backward_gru is None:
            return thought
        return ops.concatenate([thought, self.backward_gru(words, present=present)], axis=-1)

    def directions(self):
        """The GRUs, left to right first."""
        return [self.forward_gru, *([self.backward_gru] if self.backward_gru else [])]


class SkipThought(keras.Model):
    """Encodes a sentence and predicts the words of the sentences before and after it.

    Both decoders are GRUs that see the thought vector at every word; they share the word
    vectors of the encoder and the output matrix.

    Args:
        vocabulary_size: number of words, padding (id 0) not counted.
        units: size of the encoder's state, of each direction.
        word_units: size of the word vectors.
        bidirectional: uni-skip or bi-skip.
        reset: see `GRUCell`.
        seed: of the first weights.
        predicted_words: the decoders tell this many words apart, ids 1 to it; the others are
            `UNK` to them, though not to the encoder. None for all.

    Call arguments:
        sentences: a tuple of three int matrices `(sentences, words)`, 0 = padding at the end:
            the sentence, the one before and the one after, the last two with their `<eos>`.

    Returns:
        Negative log likelihood of both neighbours in nats, `(sentences,)`; `fit` minimises the
        mean over sentences and logs `nats_per_word`.

    Reference: Kiros et al. 2015, eq. 5-10.
    """

    def __init__(
        self,
        vocabulary_size,
        units,
        word_units,
        bidirectional=False,
        reset="before",
        seed=None,
        predicted_words=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if vocabulary_size < 1 or word_units < 1:
            raise ValueError(
                f"SkipThought received vocabulary_size={vocabulary_size}, "
                f"word_units={word_units}; both must be at least 1."
            )
        if predicted_words is not None and predicted_words < UNKNOWN_ID:
            raise ValueError(
                f"SkipThought received predicted_words={predicted_words}; expected at least "
                f"{UNKNOWN_ID}, the unknown word, or None for all."
            )
        policy = self.dtype_policy
        self.predicted_words = min(predicted_words or vocabulary_size, vocabulary_size)
        self.table = self.add_weight(
            name="word_vectors",
            shape=(vocabulary_size + 1, word_units),
            initializer=_uniform(seed, 5),
        )
        self.encoder = ThoughtEncoder(
            word_units,
            units,
            bidirectional,
            reset,
            seed=_derived(seed, 6),
            name="encoder",
            dtype=policy,
        )
        self.decoders = [
            GRU(
                word_units,
                self.encoder.dimension,
                reset,
                return_sequences=True,
                condition=self.encoder.dimension,
                seed=_derived(seed, place),
                name=name,
                dtype=policy,
            )
            for place, name in ((7, "previous"), (8, "following"))
        ]
        self.output_words = keras.layers.Dense(
            self.predicted_words + 1,
            kernel_initializer=_uniform(seed, 9),
            name="output_words",
            dtype=policy,
        )
        self.output_words.build((None, None, self.encoder.dimension))
        self.nats = keras.metrics.Sum(name="nats")
        self.words = keras.metrics.Sum(name="words")

    def build(self, *_):
        """All weights are there."""
        self.built = True

    def start_at_frequencies(self, counts):
        """Makes the decoders predict words by their frequency before any training.

        Otherwise the frequencies are the first thing they learn, through thought vectors that
        are all the same; finding out of that takes hundreds of steps.

        Args:
            counts: `(predicted_words + 1,)`, of each id.
        """
        shares = (counts + 0.5) / (counts + 0.5).sum()
        self.output_words.bias.assign(ops.log(ops.convert_to_tensor(shares, "float32")))

    def word_vectors(self, ids):
        """Rows of the table `(..., word_units)`."""
        # The gradient of a bare gather is a list of rows, repeats included, which Keras squares
        # one by one; that of a reshape is a plain matrix. See `WordHashing`.
        return ops.take(ops.reshape(self.table, self.table.shape), ids, axis=0)

    def call(self, sentences, training=False):
        """The negative log likelihood of the neighbours, `(sentences,)`."""
        current, *neighbours = sentences
        thought = self.encoder(self.word_vectors(current), present=ops.not_equal(current, 0))
        losses = [
            self._nats(decoder, thought, words)
            for decoder, words in zip(self.decoders, neighbours, strict=True)
        ]
        return losses[0] + losses[1]

    def _nats(self, decoder, thought, words):
        present = ops.not_equal(words, 0)
        known = ops.cast(present, self.compute_dtype)
        # The first word is predicted from the thought alone, word t + 1 from word t.
        seen = self.word_vectors(words[:, :-1])
        seen = ops.pad(seen, ((0, 0), (1, 0), (0, 0)))
        states = decoder(seen, present=present, given=thought)
        named = ops.where(words > self.predicted_words, UNKNOWN_ID, words)
        nats = ops.sparse_categorical_crossentropy(
            named, self.output_words(states), from_logits=True
        )
        return ops.sum(nats * known, axis=-1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Mean nats a sentence, as in the published training code; also counts nats a word."""
        counts = [ops.sum(ops.cast(ops.not_equal(words, 0), "float32")) for words in x[1:]]
        self.nats.update_state(y_pred)
        self.words.update_state(counts[0] + counts[1])
        return ops.mean(y_pred)

    @property
    def metrics(self):
        """The two sums; reset by Keras at each epoch."""
        return [self.nats, self.words]


def _orthogonal(seed, place):
    return keras.initializers.Orthogonal(seed=_derived(seed, place))


def _uniform(seed, place):
    return keras.initializers.RandomUniform(-0.1, 0.1, seed=_derived(seed, place))


def _derived(seed, place):
    """A seed of its own for each matrix, so that none repeats another."""
    return None if seed is None else (seed * 1_000_003 + place) % (1 << 31)

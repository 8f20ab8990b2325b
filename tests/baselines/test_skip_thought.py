"""Skip-thought: small files in the format of the published weights, and training."""

import numpy as np
import pytest
from pytest import approx

from dssm_tf.baselines.skip_thought.baseline import SkipThought, _passages
from dssm_tf.baselines.skip_thought.networks import Text, make_model
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task
from dssm_tf.export.load import load
from tests.baselines.planted_topics import TOPICS, planted_clicks
from tests.reference import gru as oracle

STEPS = 20
WORDS = ["<eos>", "UNK", "red", "kettle", "blue", "café"]
DIM, UNITS = 3, 4


@pytest.fixture
def release(tmp_path):
    """A directory in the published format; as in the real one, the archives include decoders."""
    random = np.random.default_rng(0)
    encoders = {"uni": oracle.random_encoder(DIM, UNITS, 1)}
    encoders["bi"] = oracle.random_encoder(DIM, UNITS // 2, 2)
    encoders["bi"] |= oracle.random_encoder(DIM, UNITS // 2, 3, "encoder_r")
    (tmp_path / "dictionary.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    for name, parameters in encoders.items():
        arrays = {key: value.astype(np.float32) for key, value in parameters.items()}
        np.savez(tmp_path / f"{name}_skip.npz", decoder_f_W=np.zeros((2, 2)), **arrays)
        (tmp_path / f"{name}_skip.npz.pkl").write_bytes(b"never read")
        table = random.normal(size=(len(WORDS), DIM)).astype(np.float32)
        np.save(tmp_path / f"{name[0]}table.npy", table)
    return tmp_path


def reference_vector(release, name, words):
    """The unit vector of words by the reference implementation."""
    with np.load(release / f"{name}_skip.npz") as archive:
        arrays = {key: archive[key].astype(np.float64) for key in archive.files}
    table = np.load(release / f"{name[0]}table.npy").astype(np.float64)
    thought = oracle.thought([table[WORDS.index(word)] for word in words], arrays, "after")
    return thought / np.linalg.norm(thought)


def fit_published(release, kind=None):
    return SkipThought(weights=str(release), kind=kind).fit([("q", "t", 1.0)], ["t"])


@pytest.mark.numeric
@pytest.mark.parametrize("kind", ["uni", "bi", "combine", None])
def test_published_vectors_equal_the_reference(release, kind):
    texts = {
        "A red, KETTLE!": ["UNK", "red", "kettle"],
        "blue": ["blue"],
        "zebra café": ["UNK", "café"],  # words of the release keep their accents
    }
    names = [kind] if kind in ("uni", "bi") else ["uni", "bi"]
    texts_without_known_words = ["", "?!", "zebra", "cafe"]
    vectors = fit_published(release, kind).vectors([*texts, *texts_without_known_words])
    assert not vectors[len(texts) :].any()
    vectors = vectors[: len(texts)]
    for vector, words in zip(vectors, texts.values(), strict=True):
        encoder_vectors = np.concatenate([reference_vector(release, name, words) for name in names])
        assert vector == approx(encoder_vectors / np.sqrt(len(names)), abs=1e-6)


@pytest.mark.numeric
def test_the_vector_of_a_text_is_bitwise_equal_in_any_batch(release):
    model, random = fit_published(release, "uni"), np.random.default_rng(5)
    texts = [" ".join(random.choice(WORDS[2:], random.integers(1, 9))) for _ in range(90)]
    together = model.vectors(texts)
    order = random.permutation(len(texts))
    assert (model.vectors([texts[i] for i in order]) == together[order]).all()
    assert (model.vectors(texts[7:8]) == together[7]).all()


def test_published_weights_can_be_loaded_and_saved(release, tmp_path):
    (release / "bi_skip.npz").unlink()
    loaded = load(release, "skip_thought")
    loaded.save(tmp_path / "copy")
    vector = loaded.vectors(["red"])
    assert (SkipThought.load(tmp_path / "copy").vectors(["red"]) == vector).all()


def replace_arrays(release, **arrays):
    """Writes the uni-skip archive again with some arrays replaced, or left out if None."""
    path = release / "uni_skip.npz"
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files} | arrays
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


def delete(*names):
    return lambda release: [(release / name).unlink() for name in names]


DAMAGE_BY_MESSAGE = {
    r"has no uni_skip\.npz and no bi_skip\.npz; give a": delete("uni_skip.npz", "bi_skip.npz"),
    r"has no bi_skip\.npz; give a directory": delete("bi_skip.npz"),
    r"dictionary\.txt cannot be read": delete("dictionary.txt"),
    r"utable\.npy cannot be read": delete("utable.npy"),
    r"uni_skip\.npz is not an archive of arrays": lambda release: replace_arrays(
        release, encoder_U=np.array([{"a": 1}], dtype=object)
    ),
    r"uni_skip\.npz has no GRU: .*encoder_Ux": lambda release: replace_arrays(
        release, encoder_Ux=None
    ),
    r"have the shapes \[\(3, 12\), \(4, 12\), \(2, 9\)\], which are not": lambda release: (
        replace_arrays(
            release, encoder_b=np.zeros(6, np.float32), encoder_bx=np.zeros(3, np.float32)
        )
    ),
    r"utable\.npy is \(5, 3\); the dictionary needs 6 rows": lambda release: np.save(
        release / "utable.npy", np.zeros((5, 3), np.float32)
    ),
    r"utable\.npy is \(6, 2\); .* 3 columns": lambda release: np.save(
        release / "utable.npy", np.zeros((6, 2), np.float32)
    ),
}


@pytest.mark.parametrize("message", DAMAGE_BY_MESSAGE)
def test_missing_and_damaged_files_are_reported(release, message):
    DAMAGE_BY_MESSAGE[message](release)
    with pytest.raises(UserError, match=message):
        fit_published(release, "combine")


# -------------------------------------------------------------------------------------- training


def test_passages_repeat_each_title_and_alternate_it_with_its_queries():
    clicks = [("kettle", "Kettle", 3.0), ("rug", "Rug", 1.0), ("pot", "Kettle", 1.0)]
    kettle, rug = ["Kettle"] * 2, ["Rug"] * 2
    assert _passages([*clicks, clicks[0]]) == [
        [*kettle, "kettle", "kettle", *kettle, "pot", "pot", *kettle],
        [*rug, "rug", "rug", *rug],
    ]


def test_sentences_are_aligned_with_their_neighbors():
    text = Text.from_passages([["b a b", "A, c!", "?", "c a b d"], ["d"], ["b", "a"]], 3, 2)
    # a and b occur three times, c and d twice. The vocabulary keeps 3 words, sentences keep 2.
    assert text.dictionary == ("<eos>", "UNK", "a", "b", "c")
    sentences, before, after = (ids.tolist() for ids in text.triples)
    assert sentences == [[4, 3], [3, 5], [5, 3], [4, 0], [3, 0]]
    assert before == [[0] * 4, [1, 4, 3, 1], [1, 3, 5, 1], [0] * 4, [1, 4, 1, 0]]
    assert after == [[1, 3, 5, 1], [1, 5, 3, 1], [0] * 4, [1, 3, 1, 0], [0] * 4]
    with pytest.raises(UserError, match="no two sentences"):
        Text.from_passages([["one"], ["two", "?"]], 100, 30)


def parameters_of(weights):
    """The weights of Keras GRUs, three per direction, under the names of the release."""
    parameters = {}
    for prefix, direction in (("encoder", weights[:3]), ("encoder_r", weights[3:])):
        for part, gates in zip("WUb", direction, strict=False):
            update, reset, state = np.split(gates, 3, axis=-1)
            parameters[f"{prefix}_{part}"] = np.concatenate([reset, update], axis=-1)
            parameters[f"{prefix}_{part}x"] = state
    return parameters


@pytest.mark.numeric
@pytest.mark.parametrize("name", ["uni", "bi"])
def test_the_likelihood_of_neighboring_sentences_equals_the_reference(name):
    text = Text.from_passages([["a b", "b c d", "c"]], 100, 30)
    model = make_model(text, name, SkipThought(units=UNITS, word_units=DIM))
    random = np.random.default_rng(4)
    model.set_weights([random.normal(0, 0.5, weight.shape) for weight in model.weights])
    table = model.get_layer("words").get_weights()[0]
    matrix, bias = model.get_layer("output").get_weights()
    encoder = parameters_of(model.get_layer("encoder").get_weights())
    for decoder, neighbors, logits in zip(
        ("previous", "following"), text.triples[1:], model(text.triples), strict=True
    ):
        parameters = parameters_of(model.get_layer(decoder).get_weights())
        for sentence, words, row in zip(text.triples[0], neighbors, logits, strict=True):
            words = words[words > 0]
            if len(words):
                thought = oracle.thought(list(table[sentence[sentence > 0]]), encoder, "before")
                inputs = [np.concatenate([table[word], thought]) for word in words[:-1]]
                states = oracle.states(inputs, parameters, "encoder", "before")
                expected = oracle.negative_log_likelihood(states, words[1:], matrix, bias)
                ours = np.asarray(row, np.float64)[: len(inputs)]
                losses = np.log(np.exp(ours).sum(axis=1)) - ours[range(len(inputs)), words[1:]]
                assert losses.sum() == approx(expected, rel=1e-4)


def test_the_untrained_output_predicts_words_by_their_frequency():
    text = Text.from_passages([["red red red blue", "red red blue kettle"] * 8], 100, 30)
    model = make_model(text, "uni", SkipThought(units=UNITS, word_units=DIM, predicted=2))
    frequencies = np.exp(model.get_layer("output").bias.numpy())
    # 40 red, 16 blue, 8 kettle (counted as unknown) and 16 ends; each id has half a word more.
    assert frequencies == approx(np.array([0.5, 16, 8.5, 40.5, 16.5]) / 82, rel=1e-5)


@pytest.fixture(scope="module")
def trained():
    """A model trained on a log in which no query shares a word with a title."""
    totals = []
    model = SkipThought(units=16, word_units=16, epochs=9, learning_rate=0.01, max_steps=STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "advance", lambda task, state="": totals.append(task.total))
        model.fit(planted_clicks(100, seed=0), [])
    assert totals[-STEPS:] == [STEPS] * STEPS
    return model


def test_queries_and_titles_of_the_same_planted_topic_become_similar(trained):
    def topic(text):
        return max(range(TOPICS), key=lambda number: text.count(f"{number}x"))

    queries, titles, _ = zip(*planted_clicks(40, seed=1), strict=True)
    same = np.equal.outer([topic(text) for text in queries], [topic(text) for text in titles])
    scores = trained.score_matrix(queries, titles)
    assert scores[same].mean() - scores[~same].mean() > 0.5  # 0.05 after one training step


def test_scores_are_cosines_of_thought_vectors(trained):
    titles = ["t0x1 t0x2", "Q1X3 t2x1", "q0x1 q0x2"]
    vectors = trained.vectors(titles).astype(np.float64)
    scores = trained.score("q0x1 q0x2", titles)
    assert scores == approx(vectors @ vectors[2], abs=1e-6)
    assert scores[2] == approx(1.0)


@pytest.mark.slow
def test_both_encoders_train_on_contiguous_text_and_divergence_is_an_error():
    sizes = {"units": 12, "word_units": 8, "seed": 1}
    passages = [["red kettle", "blue rug", "oak table", "tall lamp"] * 2] * 4
    model = SkipThought(**sizes, kind="combine", epochs=1).fit_text(passages)
    assert model.vectors(passages[0]).shape == (8, 24)
    model = SkipThought(**sizes, learning_rate=1e38, epochs=5)
    with pytest.raises(UserError, match=r"uni-skip diverged; use a smaller"):
        model.fit_text(passages)

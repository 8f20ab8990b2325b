"""The files of the release, made small: pickled options, archives of matrices, tables."""

import io
import pickle

import numpy as np
import pytest
from pytest import approx

from dssm_tf.baselines.skip_thought.published_weights import load_vectors, write_vectors
from dssm_tf.common.errors import UserError
from tests.reference import gru as oracle

WORDS = ["<eos>", "UNK", "red", "kettle", "blue", "rug"]
DIM, UNITS = 3, 4


@pytest.fixture
def release(tmp_path):
    """A directory of the published layout; the archives also hold decoders, as the real ones do."""
    random = np.random.default_rng(0)
    uni = oracle.random_encoder(DIM, UNITS, 1)
    bi = oracle.random_encoder(DIM, UNITS // 2, 2)
    bi |= oracle.random_encoder(DIM, UNITS // 2, 3, "encoder_r")
    (tmp_path / "dictionary.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    for name, parameters, units in (("uni", uni, UNITS), ("bi", bi, UNITS // 2)):
        arrays = {key: value.astype(np.float32) for key, value in parameters.items()}
        np.savez(tmp_path / f"{name}_skip.npz", decoder_f_W=np.zeros((2, 2)), **arrays)
        options = {
            "dim": units,
            "dim_word": DIM,
            "encoder": "gru",
            "decoder": "gru",
            "decay_c": 0.0,
        }
        (tmp_path / f"{name}_skip.npz.pkl").write_bytes(pickle.dumps(options, 0))
        table = random.normal(size=(len(WORDS), DIM)).astype(np.float32)
        np.save(tmp_path / f"{name[0]}table.npy", table)
    return tmp_path


def parameters_of(release, name):
    with np.load(release / f"{name}_skip.npz") as archive:
        arrays = {key: archive[key].astype(np.float64) for key in archive.files}
    return arrays, np.load(release / f"{name[0]}table.npy").astype(np.float64)


def expected(release, name, words):
    """The unit vector of words by the oracle."""
    arrays, table = parameters_of(release, name)
    thought = oracle.thought([table[WORDS.index(word)] for word in words], arrays, "after")
    return thought / np.linalg.norm(thought)


TEXT, TOKENS = "A red, KETTLE!", ["UNK", "red", "kettle"]


@pytest.mark.numeric
@pytest.mark.parametrize("kind", ["uni", "bi"])
def test_vectors_equal_the_oracles(release, kind):
    found = load_vectors(release, kind)([TEXT, "rug"])
    assert found.shape == (2, UNITS)
    assert found[0] == approx(expected(release, kind, TOKENS), abs=1e-6)
    assert found[1] == approx(expected(release, kind, ["rug"]), abs=1e-6)


@pytest.mark.parametrize("kind", ["combine", None])
def test_combine_skip_gives_both_halves_the_same_length(release, kind):
    (found,) = load_vectors(release, kind)([TEXT])
    both = [expected(release, name, TOKENS) for name in ("uni", "bi")]
    assert found == approx(np.concatenate(both) / np.sqrt(2), abs=1e-6)
    assert np.linalg.norm(found) == approx(1.0)


def test_a_text_without_a_known_word_has_the_zero_vector(release):
    found = load_vectors(release)(["", "?!", "zebra", "zebra rug"])
    assert (found[:3] == 0).all()
    assert found[3] == approx(
        np.concatenate([expected(release, name, ["UNK", "rug"]) for name in ("uni", "bi")])
        / np.sqrt(2),
        abs=1e-6,
    )


@pytest.mark.numeric
def test_a_text_has_the_same_vector_to_the_last_bit_beside_any_others(release):
    encode = load_vectors(release)
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(WORDS[2:], random.integers(1, 20))) for _ in range(90)]
    together = encode(texts)
    order = random.permutation(len(texts))
    assert (encode([texts[i] for i in order]) == together[order]).all()
    assert (encode(texts[7:8]) == together[7]).all()


def test_what_is_written_is_read_back(release, tmp_path):
    vectors = load_vectors(release)
    write_vectors(tmp_path / "copy", vectors)
    again = load_vectors(tmp_path / "copy")
    assert (again([TEXT]) == vectors([TEXT])).all()
    assert not list((tmp_path / "copy").glob("*.pkl"))


def test_only_uni_skip_there_means_uni_skip(release):
    (release / "bi_skip.npz").unlink()
    assert load_vectors(release).dimension == UNITS
    with pytest.raises(UserError, match=r"holds no bi_skip\.npz"):
        load_vectors(release, "combine")


# ------------------------------------------------------------------------------------- bad files


def change(release, **arrays):
    """Writes the uni-skip archive again with some arrays replaced, or left out where None."""
    path = release / "uni_skip.npz"
    with np.load(path) as archive:
        kept = {key: archive[key] for key in archive.files} | arrays
    np.savez(path, **{key: value for key, value in kept.items() if value is not None})


def nothing(release):
    for name in ("uni", "bi"):
        (release / f"{name}_skip.npz").unlink()


def object_table(release):
    np.save(release / "utable.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def object_matrix(release):
    change(release, encoder_U=np.array([[{"a": 1}]], dtype=object))


def options(release, **changed):
    values = {"dim": UNITS, "dim_word": DIM, "encoder": "gru"} | changed
    (release / "uni_skip.npz.pkl").write_bytes(pickle.dumps(values))


def executable_options(release):
    (release / "uni_skip.npz.pkl").write_bytes(pickle.dumps({"dim": io.BytesIO}))


BAD = {
    r"holds no uni_skip\.npz and no bi_skip\.npz; give a directory": nothing,
    r"utable\.npy is no array of numbers: it holds Python objects": object_table,
    r"uni_skip\.npz is no archive of arrays: it holds Python objects": object_matrix,
    r"uni_skip\.npz\.pkl holds more than dictionaries": executable_options,
    r"uni_skip\.npz lacks encoder_Ux": lambda release: change(release, encoder_Ux=None),
    r"encoder_b is float32 \(3,\); the options ask for floats of the shape \(8,\)": (
        lambda release: change(release, encoder_b=np.zeros(3, np.float32))
    ),
    "encoder_bx holds a value that is not finite": (
        lambda release: change(release, encoder_bx=np.full(UNITS, np.nan))
    ),
    r"pkl: dim is None; expected a whole number": lambda release: options(release, dim=None),
    r"pkl: dim is True; expected a whole number": lambda release: options(release, dim=True),
    r"pkl: the encoder is 'lstm'; expected 'gru'": lambda release: options(release, encoder="lstm"),
    r"utable\.npy is \(6, 3\); .* say 2 columns": lambda release: options(release, dim_word=2),
    r"utable\.npy is \(6, 3\); the dictionary needs 7 rows": (
        lambda release: (release / "dictionary.txt").write_text("\n".join([*WORDS, "more"]))
    ),
    r"dictionary\.txt holds no word": lambda release: (release / "dictionary.txt").write_text("\n"),
    r"dictionary\.txt cannot be read": lambda release: (release / "dictionary.txt").unlink(),
    r"utable\.npy cannot be read": lambda release: (release / "utable.npy").unlink(),
    r"uni_skip\.npz\.pkl does not exist": lambda release: (release / "uni_skip.npz.pkl").unlink(),
    r"uni_skip\.npz is no archive of arrays": (
        lambda release: (release / "uni_skip.npz").write_bytes(b"PK\x03\x04 damaged")
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_damaged_files_are_named(release, message):
    BAD[message](release)
    with pytest.raises(UserError, match=message):
        load_vectors(release)


def test_an_unknown_kind_is_refused(release):
    with pytest.raises(ValueError, match="kind is 'tri'; expected one of uni, bi, combine"):
        load_vectors(release, "tri")

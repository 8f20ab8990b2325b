"""A run's file of weights is refused before memory is taken for it."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config.load import find_config, load_config
from dssm_tf.model.build import build_model
from dssm_tf.model.weights_file import check_weights_file

WORDS = 20  # letter n-grams


@pytest.fixture
def config():
    return load_config(find_config("dssm"), ["tower.widths=[4, 3]"])


@pytest.fixture
def path(tmp_path, config):
    path = tmp_path / "model.weights.h5"
    build_model(config, WORDS).save_weights(path)
    return path


def refused(path, config) -> str:
    with pytest.raises(UserError) as caught:
        check_weights_file(path, config, WORDS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["dssm", "clsm", "rnn", "lstm", "bilstm", "maxsim"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_weights_of_every_tower_are_accepted(tmp_path, name, shared):
    options = ["score.text_cosine=0.15"] if name == "maxsim" else [f"shared_towers={shared}"]
    config = load_config(find_config(name), options)
    build_model(config, WORDS).save_weights(tmp_path / "model.weights.h5")
    check_weights_file(tmp_path / "model.weights.h5", config, WORDS)


def test_a_configuration_larger_than_the_weights_is_refused(path):
    # 21 * 4 + 4 numbers of the first layer, 4 * 10^9 + 10^9 of the second, 4 bytes each
    config = load_config(find_config("dssm"), ["tower.widths=[4, 1_000_000_000]"])
    assert "its configuration needs 20,000,000,352 for its weights" in refused(path, config)


def test_text_vectors_longer_than_the_weights_are_refused(tmp_path):
    options = ["tower.units=4", "score.text_cosine=0.15", "score.text_units=3"]
    path, config = tmp_path / "model.weights.h5", load_config(find_config("maxsim"), options)
    build_model(config, WORDS).save_weights(path)
    check_weights_file(path, config, WORDS)
    larger = load_config(find_config("maxsim"), [*options, "score.text_units=1_000_000_000"])
    # 21 rows of 4 and of 10^9 numbers, 4 bytes each
    assert "its configuration needs 84,000,000,336 for its weights" in refused(path, larger)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda file: file.create_dataset("x", data=np.zeros(10**6), compression="gzip"),
            "'/x' is compressed, or is in another file",
        ),
        (
            lambda file: file.create_dataset("x", (10**12,), chunks=(1000,)),
            "'/x' is compressed, or is in another file",
        ),
        (
            lambda file: file.create_dataset("x", (9,), "u1", external=[("/etc/hosts", 0, 9)]),
            "'/x' is compressed, or is in another file",
        ),
        (lambda file: file.update({"x": h5py.ExternalLink("other.h5", "/a")}), "'x' is a link"),
        (lambda file: file.update({"x": h5py.SoftLink("/layers")}), "'x' is a link"),
        (lambda file: file.update({"x": file["layers"]}), "is in it twice"),
    ],
)
def test_an_array_that_is_not_in_the_file_is_refused(path, config, change, message):
    with h5py.File(path, "a") as file:
        change(file)
    assert message in refused(path, config)


@pytest.mark.parametrize("type", ["<i4", "<f8", "<f2", ">f4", "S4", "?"])
def test_weights_of_another_type_than_float32_are_refused(path, config, type):
    with h5py.File(path, "a") as file:
        name = next(name for name in _arrays(file) if "hashing" in name)
        values = np.ones(file[name].shape, type)
        del file[name]
        file[name] = values
    message = refused(path, config)
    assert f"{name!r} is " in message
    assert "expected float32" in message


def _arrays(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(f"/{name}") if hasattr(item, "dtype") else None)
    return names


def test_a_file_that_is_not_hdf5_is_refused(path, config):
    path.write_bytes(b"x" * 1000)
    assert "model.weights.h5 cannot be loaded" in refused(path, config)

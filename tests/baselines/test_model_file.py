import json

import numpy as np
import pytest

from dssm_tf.baselines.model_file import read_model, write_model
from dssm_tf.baselines.ulm import ULM
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError


def sealed(directory):
    """The directory, with a checksum of the model that a test has put there."""
    write_checksums(directory, ["ulm.npz"], "ulm.sha256")
    return directory


def test_settings_and_arrays_come_back_as_they_were(tmp_path):
    path = tmp_path / "deep" / "er" / "plsa.npz"
    arrays = {"x": np.array([[0.1, 0.2]]), "ids": np.array([1, 2], dtype=np.int32)}
    write_model(path, {"mu": 0.1, "words": ["été"]}, arrays)
    settings, read = read_model(path)
    assert settings == {"mu": 0.1, "words": ["été"]}
    assert {key: value.tolist() for key, value in read.items()} == {
        "x": [[0.1, 0.2]],
        "ids": [1, 2],
    }
    assert read["ids"].dtype == np.int32


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_broken_file_names_itself(tmp_path, content):
    (tmp_path / "ulm.npz").write_bytes(content)
    with pytest.raises(
        UserError, match=r"ulm\.npz is no archive of arrays: .* Fit and save it again"
    ):
        ULM.load(sealed(tmp_path))


def test_an_archive_of_something_else_and_one_array_names_itself(tmp_path):
    np.savez(tmp_path / "ulm.npz", x=np.zeros(2))
    with pytest.raises(UserError, match="holds no saved ulm model: it lacks 'settings'"):
        ULM.load(sealed(tmp_path))
    np.save(tmp_path / "array.npy", np.zeros(2))
    (tmp_path / "array.npy").rename(tmp_path / "ulm.npz")
    with pytest.raises(UserError, match="is no archive of arrays"):
        ULM.load(sealed(tmp_path))
    text = np.frombuffer(json.dumps([1]).encode(), dtype=np.uint8)
    np.savez(tmp_path / "ulm.npz", settings=text)
    with pytest.raises(UserError, match="not a table"):
        ULM.load(sealed(tmp_path))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"parameters": {"mu": 30.0}}, "it lacks 'words'"),
        ({"parameters": {"mu": -1}, "words": ["a"]}, "mu is -1"),
        ({"parameters": {"colour": "red"}, "words": ["a"]}, "colour"),
        ({"parameters": 3, "words": ["a"]}, "attribute"),
        ({"parameters": {}, "words": 3}, "expected a list of text"),
        ({"parameters": {}, "words": ["a"]}, "it lacks 'probabilities'"),
    ],
)
def test_a_file_that_lacks_what_the_model_needs_says_what(tmp_path, settings, reason):
    write_model(tmp_path / "ulm.npz", settings, {})
    with pytest.raises(UserError, match=f"ulm.npz holds no saved ulm model: .*{reason}"):
        ULM.load(sealed(tmp_path))

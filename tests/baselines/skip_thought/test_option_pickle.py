"""Option files are read and never run."""

import pickle
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.skip_thought.option_pickle import MAX_BYTES, read_options
from dssm_tf.common.errors import UserError

# What Python 2 wrote: {'dim': 3, 'dim_word': 2L, 'encoder': 'gru', 'decay_c': 0.0,
# 'reload_': False, 'seen': [1, None], 'twice': <the same list>}
PYTHON_2 = (
    b"(dp0\nS'dim'\np1\nI3\nsS'dim_word'\np2\nL2L\nsS'encoder'\np3\nS'gru'\np4\ns"
    b"S'decay_c'\np5\nF0.0\nsS'reload_'\np6\nI00\nsS'seen'\np7\n(lp8\nI1\naNasS'twice'\np9\ng8\ns."
)


def test_a_pickle_of_python_2_is_read(tmp_path):
    path = tmp_path / "uni_skip.npz.pkl"
    path.write_bytes(PYTHON_2)
    assert read_options(path) == {
        "dim": 3,
        "dim_word": 2,
        "encoder": "gru",
        "decay_c": 0.0,
        "reload_": False,
        "seen": [1, None],
        "twice": [1, None],
    }
    assert pickle.loads(PYTHON_2) == read_options(path)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=5), st.integers(0, 5))
def test_plain_values_come_back_whatever_the_protocol(tmp_path_factory, options, protocol):
    path = tmp_path_factory.mktemp("pickle") / "options.pkl"
    path.write_bytes(pickle.dumps(options, protocol))
    assert read_options(path) == options


class Bomb:
    """Runs a function when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path, protocol):
    path = tmp_path / "options.pkl"
    path.write_bytes(pickle.dumps({"dim": Bomb()}, protocol))
    with pytest.raises(UserError, match=r"options\.pkl holds more than .* It is not executed"):
        read_options(path)


@pytest.mark.parametrize("value", [OrderedDict(dim=1), {"dim": {1, 2}}, {"dim": 1j}])
def test_harmless_objects_are_refused_as_well(tmp_path, value):
    path = tmp_path / "options.pkl"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(UserError, match="holds more than dictionaries, lists"):
        read_options(path)


@pytest.mark.parametrize(
    "raw",
    [b"", b"not a pickle", PYTHON_2[:-1], PYTHON_2[:20], b"s.", b"(I1\ns.", b"\x80\x04e.", b"g7\n.",
     b"(dp0\nS'dim'\nS.", b"]}\x85."],
)  # fmt: skip
def test_damaged_pickles_are_one_error(tmp_path, raw):
    path = tmp_path / "options.pkl"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"options\.pkl (is not a whole pickle|holds a )"):
        read_options(path)


@given(st.binary(max_size=60), st.integers(0, len(PYTHON_2)))
def test_whatever_the_bytes_the_only_error_is_ours(tmp_path_factory, noise, cut):
    path = tmp_path_factory.mktemp("pickle") / "options.pkl"
    path.write_bytes(PYTHON_2[:cut] + noise)
    try:
        found = read_options(path)
    except UserError:
        found = {}
    assert isinstance(found, dict)


@pytest.mark.parametrize("value", [[1], "dim", {1: 2}])
def test_anything_but_options_by_name_is_refused(tmp_path, value):
    path = tmp_path / "options.pkl"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(UserError, match="expected a dictionary of options by name"):
        read_options(path)


def doubling(levels: int) -> bytes:
    """A tuple of the same tuple twice, and so on."""
    return b"}\x8c\x07encoder" + b")" + b"q\x00h\x00\x86" * levels + b"s."


@pytest.mark.parametrize(
    "raw",
    [
        doubling(30),
        doubling(16),
        b"}\x8c\x03dim](" + b"(" * 60_000,
        b"(" * 30_000 + b"t" * 30_000 + b".",
        b"}\x8c\x03dim]q\x00h\x00as.",
        b"}\x8c\x03dim" + b"]" * 30 + b"a" * 29 + b"s.",
        b"}\x8c\x03dim\x8b\x00\x20\x00\x00" + b"\x7f" * 8192 + b"s.",
        b"N" * 60_000 + b"t.",
    ],
    ids=[
        "doubling",
        "doubling less",
        "marks",
        "tuples",
        "itself",
        "deep",
        "large number",
        "no mark",
    ],
)
def test_more_than_options_are_refused_at_once(tmp_path, raw):
    path = tmp_path / "options.pkl"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"options\.pkl is not a whole pickle of options"):
        read_options(path)


def test_a_missing_and_a_huge_file_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.pkl cannot be read"):
        read_options(tmp_path / "none.pkl")
    huge = tmp_path / "huge.pkl"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UserError, match="a file of options has"):
        read_options(huge)

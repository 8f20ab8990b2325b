"""The files of compact models, and errors for files that are damaged or of another format."""

from __future__ import annotations

import json
import shutil
import zipfile

import numpy as np
import pytest

from dssm_tf.cli import main
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.export import compact as exporting
from dssm_tf.export.compact import export_compact
from dssm_tf.runtime import CompactRanker

FILES = {
    "MODEL_CARD.md", "SHA256SUMS", "compact.json", "prior.npz", "spec.json", "vocabulary.txt",
    "weights.npz",
}  # fmt: skip
TITLES = ["Red Fox", "green owl", "black bear", "blue whale"]


@pytest.fixture
def copy(directory, tmp_path):
    return shutil.copytree(directory, tmp_path / "copy")


def test_a_version_is_a_directory_with_the_documented_files(directory, lstm_run, tmp_path):
    assert {path.name for path in directory.iterdir()} == FILES
    first = shutil.copytree(directory, tmp_path / "lstm" / "1")
    second = export_compact(lstm_run, tmp_path)
    assert second == tmp_path / "lstm" / "2"
    # Two exports of a run have the same bytes.
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in FILES)
    assert CompactRanker.load(tmp_path / "lstm").name == "lstm"


def test_no_file_needs_a_pickle(directory):
    for name in ("weights.npz", "prior.npz"):
        with np.load(directory / name, allow_pickle=False) as arrays:
            assert all(arrays[key].dtype.kind in "fi" for key in arrays)


@pytest.mark.parametrize("name", ["compact.json", "prior.npz", "vocabulary.txt", "weights.npz"])
def test_a_changed_byte_is_an_error(copy, name):
    raw = bytearray((copy / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / name).write_bytes(raw)
    with pytest.raises(UserError, match=rf"{name} is damaged .*`dssm export --format compact`"):
        CompactRanker.load(copy)
    (copy / name).unlink()
    with pytest.raises(UserError, match=rf"{name} does not exist"):
        CompactRanker.load(copy)


def test_another_format_is_an_error(copy):
    settings = json.loads((copy / "compact.json").read_text())
    (copy / "compact.json").write_text(json.dumps(settings | {"format": 13}))
    write_checksums(copy, sorted(FILES - {"SHA256SUMS"}))
    with pytest.raises(UserError, match=r"is of format 13; this version reads 12\. Install"):
        CompactRanker.load(copy)


def test_a_directory_without_a_compact_model_is_an_error(lstm_run, tmp_path):
    for path in (tmp_path / "nowhere", lstm_run):
        with pytest.raises(UserError, match=f"{path.name}.* does not exist"):
            CompactRanker.load(path)


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"number_type": "int8"}, "title_tower/hashing/scale", "encode_titles of "),
        ({"number_type": "float16"}, "query_tower/hashing/kernel", "encode_queries of "),
    ],
)
def test_an_export_whose_vectors_differ_from_the_model_s_is_rejected(
    lstm_run, tmp_path, monkeypatch, options, key, message
):
    save = np.savez

    def save_changed(file, **arrays):
        if key in arrays:
            arrays[key] = arrays[key].copy()
            arrays[key][..., 0] += 0.1
        save(file, **arrays)

    monkeypatch.setattr(exporting.np, "savez", save_changed)
    with pytest.raises(UserError, match=message):
        export_compact(lstm_run, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------- rounded tables


@pytest.fixture(scope="module")
def int8(lstm_run, tmp_path_factory):
    """A compact model whose first matrices are rounded to int8."""
    return export_compact(lstm_run, tmp_path_factory.mktemp("int8"), number_type="int8")


@pytest.mark.parametrize(("number_type", "bytes_per_number"), [("float16", 2), ("int8", 1)])
def test_vectors_of_a_rounded_matrix_are_close_to_the_model_s(
    lstm_run, trained, int8, tmp_path, number_type, bytes_per_number
):
    out = int8
    if number_type != "int8":
        out = export_compact(lstm_run, tmp_path, number_type=number_type)
    exact, rounded = trained.encode_titles(TITLES), CompactRanker.load(out).encode_titles(TITLES)
    assert not np.array_equal(exact, rounded)
    # Half a step of 127, 5 trigrams per word: a few hundredths of a unit vector at most.
    assert np.linalg.norm(exact - rounded, axis=1).max() < 0.05
    with zipfile.ZipFile(out / "weights.npz") as archive:
        stored = archive.getinfo("query_tower/hashing/kernel.npy").file_size
    rows = 1 + trained.vocabulary.size
    assert stored == rows * 16 * bytes_per_number + 128


def test_int8_rows_are_within_half_a_step_of_the_model_s(trained, int8):
    with np.load(int8 / "weights.npz") as arrays:
        rows, scale = (arrays[f"title_tower/hashing/{name}"] for name in ("kernel", "scale"))
    kernel = trained.model.title_tower.hashing.kernel.numpy()[1:]
    steps = np.abs(kernel).max(axis=1, keepdims=True) / 127
    assert (np.abs(rows[1:] * scale[1:] - kernel) <= steps * 0.501).all()
    assert not rows[0].any()


# --------------------------------------------------------------------------- the command


def test_the_command_prints_how_to_load_the_model(lstm_run, tmp_path, capsys):
    out = tmp_path / "compact"
    command = ["export", "--model", str(lstm_run), "--out", str(out), "--format", "compact"]
    assert main([*command, "--name", "shop", "--number-type", "float16"]) in (0, None)
    output = capsys.readouterr().out
    assert f"from dssm_tf.runtime import load; load({str(out / 'shop')!r})" in output
    assert "rounded to float16" in output
    assert CompactRanker.load(out / "shop").score("fox", TITLES).shape == (4,)


def test_the_flag_number_type_is_for_compact_models_only(lstm_run, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["export", "--model", str(lstm_run), "--out", str(out)]
    assert main([*command, "--number-type", "int8"]) == 1
    assert "is for compact models" in capsys.readouterr().err
    assert not out.exists()

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from rich.console import Console

from dssm_tf.commands import embed
from dssm_tf.commands.embed import embed_command
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.vectors import check_whole, open_writer
from tests.retrieval.conftest import CORPUS, DIMENSION
from tests.rounding import rounding

TITLES = [title for _, title in CORPUS]
# Up to 10 trigrams, 8 units and 6, of vectors that come to at most twice their length.
SAME = rounding(24, 2)


def test_vectors_are_the_models_and_ids_stand_beside_them(
    run_directory, corpus_file, tmp_path, console
):
    out = tmp_path / "vectors" / "corpus.npy"
    assert embed_command(run_directory, corpus_file, out, console=console) == 5
    vectors = np.load(out)
    assert vectors.dtype == np.float32
    wanted = SemanticRanker.load(run_directory).encode_titles(TITLES, prior=True)
    np.testing.assert_allclose(vectors, wanted, atol=SAME)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :-1], axis=1), 1, rtol=SAME)
    assert (out.parent / "corpus.ids.txt").read_text().split() == ["d1", "d2", "d3", "d4", "d5"]
    assert "5 vectors of length 7, to compare by inner product" in console.file.getvalue()
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "corpus.ids.txt", "corpus.npy", "corpus.sha256"
    ]  # fmt: skip


def test_the_inner_product_of_embedded_texts_is_the_score(
    run_with_prior, corpus_file, tmp_path, console
):
    (tmp_path / "q.txt").write_text("red hat\nbox\n\n")
    embed_command(run_with_prior, tmp_path / "q.txt", tmp_path / "q.npy", "query", console=console)
    embed_command(run_with_prior, corpus_file, tmp_path / "t.npy", console=console)
    products = np.load(tmp_path / "q.npy") @ np.load(tmp_path / "t.npy").T
    scores = SemanticRanker.load(run_with_prior).score_matrix(["red hat", "box", ""], TITLES)
    np.testing.assert_allclose(products, scores, atol=SAME)
    # Green Tie has nearly all 100,000 clicks: log(100,000) = 11.5 nats more than the others, times
    # .02 more than the difference of these cosines. By the cosine alone it is not the first.
    assert products.argmax(axis=1).tolist() == scores.argmax(axis=1).tolist() == [0, 2, 2]


def test_cosine_asks_for_unit_vectors(run_with_prior, corpus_file, tmp_path, console):
    embed_command(run_with_prior, corpus_file, tmp_path / "v.npy", cosine=True, console=console)
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (5, DIMENSION)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=SAME)
    assert "to compare by cosine" in console.file.getvalue()


def test_parquet_holds_id_text_and_vector(run_directory, corpus_file, tmp_path, console):
    embed_command(run_directory, corpus_file, tmp_path / "v.parquet", console=console)
    embed_command(run_directory, corpus_file, tmp_path / "v.npy", console=console)
    table = parquet.read_table(tmp_path / "v.parquet")
    assert str(table.schema.field("vector").type) == (
        f"fixed_size_list<element: float>[{DIMENSION + 1}]"
    )
    assert table["id"].to_pylist() == [name for name, _ in CORPUS]
    assert table["text"].to_pylist() == TITLES
    np.testing.assert_array_equal(
        np.array(table["vector"].to_pylist(), np.float32), np.load(tmp_path / "v.npy")
    )


def test_small_batches_give_the_same_in_the_same_order(
    run_directory, tmp_path, console, monkeypatch
):
    monkeypatch.setattr(embed, "_BATCHES", 2)
    lines = [f"{'felt ' * (i % 4)}{TITLES[i % 5]}" for i in range(11)]
    (tmp_path / "t.txt").write_text("\n".join(lines))
    for size in (1, 3, 100):
        embed_command(
            run_directory, tmp_path / "t.txt", tmp_path / f"{size}.npy", batch_size=size,
            console=console,
        )  # fmt: skip
    one, three, all_ = (np.load(tmp_path / f"{size}.npy") for size in (1, 3, 100))
    np.testing.assert_allclose(one, all_, atol=SAME)
    np.testing.assert_allclose(three, all_, atol=SAME)


def test_lines_of_standard_input_keep_their_rows_and_empty_ones_are_zero(
    run_directory, tmp_path, console, monkeypatch
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"red hat\n\nblue\n")))
    out = tmp_path / "v.npy"
    assert embed_command(run_directory, "-", out, side="query", console=console) == 3
    vectors = np.load(out)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :-1], axis=1), [1, 0, 1], rtol=SAME)
    assert (vectors[:, -1] == 1).all()
    assert not (tmp_path / "v.ids.txt").exists()


def test_ids_of_an_older_file_do_not_stay(run_directory, corpus_file, tmp_path, console):
    out = tmp_path / "v.npy"
    embed_command(run_directory, corpus_file, out, console=console)
    (tmp_path / "t.txt").write_text("red\n")
    embed_command(run_directory, tmp_path / "t.txt", out, console=console)
    assert np.load(out).shape == (1, DIMENSION + 1)
    assert not (tmp_path / "v.ids.txt").exists()


@pytest.mark.parametrize("last", ["v.npy", "v.sha256"])
def test_new_ids_beside_old_vectors_are_told(
    run_directory, corpus_file, tmp_path, console, monkeypatch, last
):
    """As a kill leaves them between the moves of the ids, the vectors and their checksums."""
    embed_command(run_directory, corpus_file, out := tmp_path / "v.npy", console=console)
    other = tmp_path / "other.tsv"
    other.write_text("doc_id\ttitle\n" + "".join(f"x{i}\tfelt {i}\n" for i in range(len(CORPUS))))
    move = Path.replace

    def killed(path, target):
        if Path(target).name == last:
            raise KeyboardInterrupt
        return move(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            embed_command(run_directory, other, out, console=console)
    assert (tmp_path / "v.ids.txt").read_text().startswith("x0\n")
    with pytest.raises(UserError, match=r"v\.(ids\.txt|npy) is damaged or was changed: .* again: "):
        check_whole(out)
    embed_command(run_directory, other, out, console=console)
    check_whole(out)


def test_a_flipped_bit_in_the_vectors_is_told(run_directory, corpus_file, tmp_path, console):
    embed_command(run_directory, corpus_file, out := tmp_path / "v.npy", console=console)
    raw = bytearray(out.read_bytes())
    raw[-1] ^= 1
    out.write_bytes(raw)
    with pytest.raises(UserError, match=r"v\.npy is damaged or was changed"):
        check_whole(out)


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_failure_in_the_middle_leaves_the_old_output(
    run_directory, tmp_path, console, monkeypatch, suffix
):
    monkeypatch.setattr(embed, "_BATCHES", 1)
    out, source = tmp_path / f"v{suffix}", tmp_path / "t.tsv"
    source.write_text("id\ttext\n1\ta\n2\tb\n3\tc\n")
    embed_command(run_directory, source, out, console=console)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != source}
    source.write_bytes(b"id\ttext\n1\tx\n2\ty\n3\t\xff\n")
    with pytest.raises(UserError, match=r"t.tsv:4: not UTF-8"):
        embed_command(run_directory, source, out, batch_size=1, console=console)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != source}
    assert after == before


@pytest.mark.parametrize(
    ("name", "data", "out", "options", "message"),
    [
        ("t.txt", b"", "v.npy", {}, "holds no text"),
        ("t.tsv", b"title\n", "v.parquet", {}, "holds no text"),
        ("t.txt", b"a", "v.txt", {}, "written as .npy or .parquet"),
        ("t.txt", b"a", "v.npy", {"side": "both"}, "title or query"),
        ("t.txt", b"a", "v.npy", {"batch_size": 0}, "at least 1"),
        ("t.parquet", b"a", "t.parquet", {}, "is the input"),
        ("t.csv", b'id,text\n"a\nb",c\n', "v.npy", {}, "holds a line break"),
    ],
)
def test_what_cannot_be_done_is_refused_and_writes_nothing(
    run_directory, tmp_path, console, name, data, out, options, message
):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        embed_command(run_directory, tmp_path / name, tmp_path / out, **options, console=console)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_terminal_sees_a_bar(run_directory, corpus_file, tmp_path):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    embed_command(run_directory, corpus_file, tmp_path / "v.npy", console=terminal)
    assert "5 texts" in terminal.file.getvalue()


@pytest.mark.parametrize("rows", [0, 1, 10, 99_999])
def test_the_header_is_numpys_for_any_number_of_rows(tmp_path, rows):
    with open_writer(tmp_path / "v.npy", 2, has_ids=False) as writer:
        for start in range(0, rows, 7000):
            part = np.arange(2 * start, 2 * min(rows, start + 7000), dtype=np.float32)
            writer.write(None, [""] * (len(part) // 2), part.reshape(-1, 2))
    expected = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    np.testing.assert_array_equal(
        np.load(tmp_path / "v.npy", mmap_mode="r" if rows else None), expected
    )

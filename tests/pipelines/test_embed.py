"""The embed pipeline writes the vectors of the model."""

import gzip
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import export_compact
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from pipelines.embed import embed, run
from tests.clicks import click_log, write_data
from tests.runs import finished_run

CORPUS = [CorpusTitle(f"d{i}", f"blue {'fox ' * (i % 3)}owl {i}") for i in range(40)]


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "a.tsv", CORPUS[:25])
    write_corpus(tmp_path / "b.tsv", CORPUS[25:])
    (tmp_path / "empty.tsv.gz").write_bytes(gzip.compress(b""))
    return tuple(str(tmp_path / name) for name in ("a.tsv", "b.tsv", "empty.tsv.gz"))


def read(out):
    """The text and the vector of each id."""
    rows = parquet.read_table(out).to_pylist()
    by_id = {row["id"]: (row["text"], row["vector"]) for row in rows}
    assert len(by_id) == len(rows)
    return by_id


@pytest.fixture(scope="module")
def expected_vectors(run_directory):
    return SemanticRanker.load(run_directory).encode_titles(
        [row.title for row in CORPUS], prior=True
    )


def check(out, expected_vectors):
    """Checks that the vectors are those of the model."""
    rows = read(out)
    assert {name: text for name, (text, _) in rows.items()} == dict(CORPUS)
    vectors = np.array([rows[row.doc_id][1] for row in CORPUS], np.float32)
    np.testing.assert_allclose(vectors, expected_vectors, atol=1e-6)


def test_the_pipeline_writes_the_vectors_of_the_model_into_several_files_and_reports_their_number(
    run_directory, corpus, expected_vectors, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("pipelines.encode.TITLES_PER_FILE", 16)
    out = tmp_path / "out"
    flags = ["--output", str(out), "--direct_num_workers=2"]
    assert run(["--model", str(run_directory), "--input", *corpus, *flags]) == 0
    # 6 dimensions of the tower, and one for the prior.
    assert "40 vectors of length 7 written" in capsys.readouterr().err
    assert len([*out.iterdir()]) == 3
    check(out, expected_vectors)


def test_a_compact_model_writes_the_same_vectors_without_tensorflow(
    run_directory, corpus, expected_vectors, tmp_path, checkout
):
    export_compact(run_directory, tmp_path / "compact", "fox")
    compact = tmp_path / "compact" / "fox"
    code = f"""
import sys
from pipelines.embed import run
code = run(["--model", {str(compact)!r}, "--input", *{corpus!r}, "--output", sys.argv[1]])
heavy = {{"tensorflow", "keras"}} & set(sys.modules)
sys.exit(f"{{code}} {{heavy}}" if code or heavy else 0)
"""
    out = tmp_path / "out"
    subprocess.run([sys.executable, "-c", code, out], cwd=checkout, check=True)
    check(out, expected_vectors)


def test_titles_have_the_fields_of_the_training_data(write, tmp_path):
    data = write_data(tmp_path / "data", click_log())
    replace(data.spec, title_fields=("title", "brand")).save(data.path)
    model = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [4]}})
    corpus, out = write("c.tsv", "doc_id\ttitle\tbrand\na\tred fox\tacme\n"), tmp_path / "out"
    embed(model=str(model), input=(str(corpus),), output=str(out))
    assert read(out)["a"][0] == "red fox␟acme"


@pytest.mark.long
def test_errors_are_a_single_line(run_directory, corpus, write, tmp_path, capsys):
    def check_error(match, model=run_directory, input=corpus):
        with pytest.raises(UserError, match=match) as caught:
            embed(model=str(model), input=input, output=str(tmp_path / "out"))
        assert "\n" not in str(caught.value)

    check_error("contains no trained model", model=tmp_path)
    check_error(
        r"bad\.tsv:3: .*columns", input=[str(write("bad.tsv", "doc_id\ttitle\na\tred\nb\n"))]
    )
    check_error("^--input nothing matches", input=("nothing",))
    check_error("holds no title", input=[str(write("bad.tsv", "doc_id\ttitle\n"))])
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "vectors.parquet").write_text("")
    check_error("exists already")
    run(["--model", str(run_directory), "--input", *corpus, "--output", "o", "--modle=3"])
    assert "Did you mean '--model'?" in capsys.readouterr().err

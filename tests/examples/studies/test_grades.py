"""`examples.studies.grades` on tiny judgments, and on a tiny log with a stand-in for WordLlama."""

import sys

import pytest

from examples.studies.grades import main
from tests.examples.studies.conftest import table_rows

SMALL = ["--seeds", "1", "--set", "training.epochs=1", "--set", "tower.widths=[8]"]
WORDLLAMA = """
import numpy as np


class WordLlama:
    @classmethod
    def load(cls, disable_download):
        return cls()

    def embed(self, texts):
        letters = "abcdefghijklmnopqrstuvwxyz"
        return np.array([[text.count(letter) for letter in letters] for text in texts], "f4")
"""


@pytest.mark.slow
def test_judgments_are_compared_with_clicks_and_bm25(judgments, capsys):
    flags = ["--judgments", str(judgments), "--variants", "clicks; judgments"]
    main(["judgments", *flags, *SMALL])
    output = capsys.readouterr().out
    head, _, *rows = table_rows(output)
    assert head[:2] == ["dssm from", "NDCG@1"]
    assert [row[0] for row in rows] == [
        "bm25", "clicks", "clicks; by cosine", "judgments", "judgments; by cosine"
    ]  # fmt: skip
    assert all(0 <= float(row[1]) <= 1 for row in rows)


@pytest.mark.slow
def test_a_teacher_is_compared_with_clicks(shop, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "site"
    (folder / "wordllama" / "tokenizers").mkdir(parents=True)
    (folder / "wordllama" / "__init__.py").write_text(WORDLLAMA, "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    flags = ["--clicks", str(shop / "clicks.tsv"), "--corpus", str(shop / "corpus.tsv")]
    flags += ["--wordllama", str(folder), "--variants", "clicks; teacher, kl"]
    main(["teacher", *flags, *SMALL])
    rows = table_rows(capsys.readouterr().out)[2:]
    assert [row[0] for row in rows] == [
        "bm25", "WordLlama", "clicks", "clicks; by cosine", "teacher, kl", "teacher, kl; by cosine"
    ]  # fmt: skip
    assert (folder / "wordllama" / "tokenizer").is_symlink()

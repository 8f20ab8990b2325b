"""The LightGBM example: it reads the output of `dssm features` and learns from both features."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from examples.learning_to_rank import Features, main, mean_ndcg, read_features

LINES = """\
# 1:score 2:prior
2 qid:1 1:0.5 2:-1 # q1\td1
0 qid:1 1:0.75 2:0 # q1\td2
"""


def test_the_lines_of_features_are_read(tmp_path):
    (tmp_path / "features.txt").write_text(LINES, "utf-8")
    rows = read_features(tmp_path / "features.txt")
    assert (rows.names, rows.doc_ids) == (["score", "prior"], ["d1", "d2"])
    np.testing.assert_array_equal(rows.values, [[0.5, -1], [0.75, 0]])
    # The title of grade 2 is second: its gain 3 is discounted by log2(3), and the best DCG is 3.
    ndcg = mean_ndcg(rows.values[:, 0], rows, np.array([True, True]))
    assert ndcg == approx(1 / np.log2(3))


def test_a_query_without_grades_does_not_count():
    rows = Features([], np.zeros((3, 0)), np.array([0.0, 1, 0]), np.array([1, 2, 2]), [""] * 3)
    assert mean_ndcg(np.array([0.0, 1, 0]), rows, np.ones(3, bool)) == 1.0


def test_lightgbm_learns_from_columns_and_parts_of_scores(tmp_path, capsys):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    lines, catalog = ["# 1:score"], ["doc_id\tprice"]
    for query in range(1, 61):
        for row in range(8):
            score, price = rng.random(2)
            grade = int(score > 0.5) + int(price > 0.5)
            lines.append(f"{grade} qid:{query} 1:{score:.4f} # q{query}\td{query}-{row}")
            catalog.append(f"d{query}-{row}\t{price if row else '':}")
    (tmp_path / "features.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "corpus.tsv").write_text("\n".join(catalog) + "\n", "utf-8")
    flags = [
        "--features",
        str(tmp_path / "features.txt"),
        "--catalog",
        str(tmp_path / "corpus.tsv"),
    ]
    ranker = tmp_path / "ranker.txt"
    assert main([*flags, "--columns", "price", "--ranker", str(ranker)]) == 0
    score, columns, both = (float(line.split()[1]) for line in capsys.readouterr().out.splitlines())
    # Both matter equally, so each one alone is worse than both.
    assert both > max(score, columns) + 0.02
    assert "tree" in ranker.read_text("utf-8")

"""`examples.studies.small_logs` on a tiny log."""

import json

import pytest

from examples.studies.small_logs import main
from tests.examples.studies.conftest import table_rows


@pytest.mark.slow
def test_a_variant_is_compared_with_trigram_tfidf_on_each_log(shop, tmp_path, capsys):
    variant = "tiny=tower.widths=[8];training.epochs=1;training.refit=false"
    flags = ["--sizes", "50", "--draws", "1", "--variant", variant, "--best-buy", str(shop)]
    main([*flags, "--json", str(tmp_path / "values.json")])
    rows = table_rows(capsys.readouterr().out)
    assert rows[0] == ["NDCG@10", "trigram_tfidf", "tiny"]
    assert [row[0] for row in rows[2:4]] == ["WebQuestions, 50 pairs", "Best Buy, 50 pairs"]
    # trigram_tfidf has .914 on WebQuestions for every log (docs/baselines.md).
    assert rows[2][1] == "0.914"
    values = json.loads((tmp_path / "values.json").read_text())
    ((control, tiny),) = [draw.values() for draw in values["WebQuestions, 50 pairs"]]
    difference = tiny[0] - control[0]
    assert rows[2][2] == f"{tiny[0]:.3f} ({difference:+.3f} to {difference:+.3f})"

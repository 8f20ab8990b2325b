"""`examples.studies.title_fields` on a tiny log."""

import pytest

from examples.studies.title_fields import VARIANTS, main
from tests.examples.studies.conftest import table_rows, write_rows


@pytest.mark.slow
def test_every_variant_has_a_row(tmp_path, capsys):
    names = [f"{color} {animal}" for color in ("red", "blue", "green") for animal in ("fox", "owl")]
    articles = [(i, name, name.split()[1], f"the {name} lives") for i, name in enumerate(names)]
    write_rows(tmp_path / "docs_first200.tsv", "doc_id title subject text", articles)
    # Each article links to the two next ones.
    clicks = [(names[i], names[(i + step) % 6], 3 - step) for i in range(6) for step in (1, 2)]
    write_rows(tmp_path / "nav_clicks.tsv", "start clicked clicks", clicks)
    main(["--data", str(tmp_path), "--seeds", "1", "--folder", str(tmp_path / "runs")])
    head, _, *rows = table_rows(capsys.readouterr().out)
    assert head[:3] == ["fields", "rows", "NDCG@1"]
    assert [tuple(row[:2]) for row in rows] == [*VARIANTS]
    for row in rows:
        assert all(0 <= float(cell.split()[0]) <= 1 for cell in row[2:8])
    # Separate rows of each field need more parameters than shared ones.
    assert float(rows[4][-1].rstrip("M")) >= float(rows[3][-1].rstrip("M"))

"""The notebook in docs/ is checked in with its outputs, and it runs."""

from __future__ import annotations

import re

import pytest

nbformat = pytest.importorskip("nbformat")

NOTEBOOK = "docs/from_log_to_explained_match.ipynb"
MAX_BYTES = 300_000


@pytest.fixture
def notebook(checkout):
    return nbformat.read(checkout / NOTEBOOK, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output_text(notebook):
    """The text that all cells print or show."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    return "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") + "\n"
        for output in outputs
    )


def test_the_notebook_is_checked_in_executed_in_order_and_small(checkout, notebook):
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    text = output_text(notebook)
    assert "grand canyon" in text
    assert "\x1b" not in text
    assert not re.search(r"/(home|tmp|work|root|usr)/", text)  # paths of a machine
    assert (checkout / NOTEBOOK).stat().st_size < MAX_BYTES
    kinds = [kind for cell in cells for output in cell.outputs for kind in output.get("data", {})]
    assert kinds.count("image/png") == 1
    streams = [output.get("name") for cell in cells for output in cell.outputs]
    assert "stderr" not in streams


@pytest.mark.long
def test_the_notebook_runs_and_shows_similar_results(checkout, notebook, tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(checkout))
    checked_in_text = output_text(notebook)
    NotebookClient(
        notebook, timeout=3000, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    # Trained models differ slightly between machines.
    for text in (checked_in_text, output_text(notebook)):
        assert "'grand' is in the title" in text
        rows = {
            cells[0]: [float(cell) for cell in cells[1:]]
            for line in text.splitlines()
            if len(cells := re.findall(r"[\w.@]+", line)) == 8 and cells[0] in ("bm25", "dssm")
        }
        ndcg_at_10 = rows["dssm"][2]
        assert ndcg_at_10 == pytest.approx(0.96, abs=0.02)
        assert ndcg_at_10 > rows["bm25"][2] + 0.05

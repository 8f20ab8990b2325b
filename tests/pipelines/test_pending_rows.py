"""The rows of a log that wait in memory until they are summed."""

from __future__ import annotations

from pipelines import parse_log
from pipelines.options import PreprocessOptions
from pipelines.shards import PipelineContext
from pipelines.sources import Piece


def test_the_texts_that_wait_to_be_summed_have_a_limited_size(tmp_path, monkeypatch):
    row = f"hat\t{'red ' * 250}\n"  # 1,006 bytes of text
    (tmp_path / "log.tsv").write_text("query\ttitle\n" + row * 500, "utf-8")
    monkeypatch.setattr(parse_log, "MAX_PENDING_BYTES", 50_000)
    monkeypatch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", 10_000)
    rows = []

    def sum_rows(frame, context):
        rows.append(len(frame))
        return []

    monkeypatch.setattr(parse_log, "sum_rows", sum_rows)
    options = PreprocessOptions(output="", input=(str(tmp_path / "log.tsv"),))
    context = PipelineContext(options, 0, str(tmp_path))
    list(parse_log.parse_piece(Piece(0, str(tmp_path / "log.tsv")), context))
    assert sum(rows) == 500
    assert max(rows) <= 60  # 50,000 bytes, and those of one block

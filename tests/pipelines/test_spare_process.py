"""A second process writes shards; nobody can tell from the result."""

from __future__ import annotations

import random

import pytest

from dssm_tf.text.vocabulary import Vocabulary
from pipelines import preprocess, spare_process
from pipelines.blocks import pack
from pipelines.progress import Progress


def test_the_output_is_the_same_with_and_without_a_spare_process(tmp_path, monkeypatch):
    words = random.Random(0)
    rows = [f"query {words.randrange(400)}\ttitle {words.randrange(90)}" for _ in range(3000)]
    (tmp_path / "log.tsv").write_text("query\ttitle\n" + "\n".join(rows) + "\n", "utf-8")
    offered = []
    offer = spare_process.SpareProcess.offer

    def counted(self, job):
        taken = offer(self, job)
        offered.append(taken is not None)
        return taken

    monkeypatch.setattr(spare_process.SpareProcess, "offer", counted)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for name, worth in (("alone", 1 << 40), ("helped", 0)):
        monkeypatch.setattr(preprocess, "WORTH_BYTES", worth)
        arguments = ["--input", str(tmp_path / "log.tsv"), "--output", str(tmp_path / name)]
        assert preprocess.run(arguments) == 0
    assert any(offered)  # it did write some
    for path in (tmp_path / "alone").iterdir():
        assert path.read_bytes() == (tmp_path / "helped" / path.name).read_bytes(), path.name
    assert spare_process.current() is None


def test_an_error_there_is_an_error_here_and_the_process_lives_on(tmp_path):
    vocabulary = Vocabulary(["#ca", "cat", "at#"])
    spare = spare_process.SpareProcess()
    try:
        nowhere = tmp_path / "file"
        nowhere.write_text("in the way")
        bad = spare_process.ShardJob("train", [pack([])], vocabulary, str(nowhere), Progress())
        with pytest.raises(Exception, match="file"):
            spare.offer(bad).result(timeout=60)
        good = bad._replace(directory=str(tmp_path))
        assert spare.offer(good).result(timeout=60).records == 0
    finally:
        spare.close()
    assert spare._process.returncode == 0

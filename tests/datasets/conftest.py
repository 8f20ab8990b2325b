"""A folder for a source, and its conversion by `dssm data convert`."""

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.tables.judgments import read_corpus, read_judgments
from tests.tables.rows import read_log_rows


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def convert(tmp_path, source):
    """Converts the folder; returns clicks, corpus and judgments, None for a missing table."""

    def run(name, held_out=None, settings=()):
        out = tmp_path / "out"
        convert_command(name, source, out, held_out=held_out, settings=tuple(settings))
        clicks = judgments = None
        if (out / "clicks.tsv").exists():
            # The reader of preprocess must accept every row.
            clicks = read_log_rows(out / "clicks.tsv", max_rejected=0.0)
        if (out / "judgments.tsv").exists():
            judgments = read_judgments(out / "judgments.tsv")
        return clicks, list(read_corpus(out / "corpus.tsv")), judgments

    return run

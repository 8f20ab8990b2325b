"""A folder for a source, and what `dssm data convert` makes of it."""

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.tables.click_log import log_blocks
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.reader import open_table


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def convert(tmp_path, source):
    """Converts the folder; gives clicks, corpus and judgments as plain tuples, None if missing."""

    def run(name, held_out=None, settings=()):
        out = tmp_path / "out"
        convert_command(name, source, out, held_out=held_out, settings=tuple(settings))
        clicks = judgments = None
        if (out / "clicks.tsv").exists():
            lines = (out / "clicks.tsv").read_text("utf-8").splitlines()
            # The reader that preprocess uses must take every row.
            with open_table(out / "clicks.tsv") as table:
                assert not any(rejects for _, rejects in log_blocks(table))
            header, *rows = (line.split("\t") for line in lines)
            clicks = [dict(zip(header, row, strict=True)) for row in rows]
        if (out / "judgments.tsv").exists():
            judgments = read_judgments(out / "judgments.tsv")
        return clicks, list(read_corpus(out / "corpus.tsv")), judgments

    return run

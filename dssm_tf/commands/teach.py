"""`dssm teach`: writes the scores of a teacher for `dssm train --teacher`."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.common.files import refuse_existing
from dssm_tf.common.paths import AnyPath, NamedPath
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say


def teach(
    *,
    data: AnyPath,
    model: NamedPath,
    out: AnyPath,
    best: int = 16,
    random: int = 16,
    seed: int = 0,
) -> None:
    """Write the scores of a larger model, from which a small model learns.

    To use another teacher, such as a cross-encoder, write a table with query, title and score
    yourself.

        dssm teach --data DATA --model all-MiniLM-L6-v2 --out scores.tsv
        dssm train --config dssm --data DATA --teacher scores.tsv --out RUN

    Args:
        data: directory that preprocess wrote.
        model: directory that `dssm train` or `dssm export` wrote; or the name or directory of a
            sentence-transformers model.
        out: table to write; it must not exist.
        best: number of titles per query that the teacher ranks first, besides the clicked ones.
        random: number of random titles per query.
        seed: seed of the random titles.

    Raises:
        UserError: the model cannot be loaded, or `out` exists.
    """
    data, out, model = Path(data), Path(out), str(model)
    refuse_existing(out)
    from dssm_tf.benchmark.external import load_teacher

    teacher = load_teacher(model)  # PyTorch fails if it is imported after TensorFlow
    load_tensorflow()
    from dssm_tf.benchmark.teacher import teach as score_lists
    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.tables.graded_lists import write_lists

    lists = score_lists(Preprocessed(data), teacher, best, random, seed, progress=True)
    write_lists(out, "score", lists)
    say(f"written: {out}")

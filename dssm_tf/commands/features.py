"""`dssm features`: writes a model's score and its parts for a learning-to-rank model."""

from __future__ import annotations

import sys

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say


def features(
    *,
    model: AnyPath,
    judgments: AnyPath,
    out: AnyPath,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Write a model's score and its parts for a learning-to-rank model.

    The file has SVMlight's format: for each query and title the grade, the number of the query, the
    features, and the ids as a comment. Add these features to those of your own model: match rows by
    the ids. The first line names the features.

        dssm features --model RUN --judgments judgments.tsv --out features.txt

    Args:
        model: directory that `dssm train`, `dssm export` or `dssm index` wrote; that of an index
            includes its rules and remembered clicks
        judgments: table with query_id, query, doc_id, title, grade
        out: file to write, replaced when complete
        tables: layout of the judgments

    Raises:
        UserError: an input cannot be used.
    """
    from dssm_tf.common.files import atomic_write
    from dssm_tf.export.features import feature_lines, feature_names
    from dssm_tf.export.load import load_model
    from dssm_tf.tables.judgments import read_judgments

    ranker = load_model(model)
    names = feature_names(ranker)
    rows = read_judgments(judgments, tables.layout(model))
    queries = len({row.query_id for row in rows})
    with (
        progress_of("features", queries, unit="queries") as task,
        atomic_write(out) as file,
    ):
        file.write(f"# {' '.join(f'{number}:{name}' for number, name in enumerate(names, 1))}\n")
        for lines in feature_lines(ranker, rows):
            file.writelines(lines)
            task.advance()
    say(
        f"{out}: {len(rows):,} lines of {queries:,} queries; features {', '.join(names)}",
        to=sys.stderr,
    )

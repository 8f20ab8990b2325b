"""`dssm export`: writes a trained run for TensorFlow Serving, for NumPy, or for a search engine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath, optional_path
from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.tables.judgments import CorpusTitle


def export_model(
    *,
    model: AnyPath,
    out: AnyPath,
    name: str | None = None,
    format: Literal["saved_model", "compact", "opensearch", "rules"] = "saved_model",
    number_type: Literal["float32", "float16", "int8"] = "float32",
    corpus: AnyPath | None = None,
    similar_words: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 16,
    rules: AnyPath | None = None,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Write a model for TensorFlow Serving, for NumPy, or for a search engine.

    A SavedModel takes raw strings. It has the signatures encode_query, encode_title and score, and
    warm-up requests for TensorFlow Serving. A compact model is loaded by dssm_tf.runtime.
    OpenSearch and Elasticsearch compute the score of a maxsim model themselves: the export has the
    mapping, the similar words of each word, and a specification of the queries; `dssm documents`
    adds the model's fields to documents. Every export is compared with the trained model before it
    is complete. The format rules is a file of learned similar words, to review and to edit.

        dssm export --model RUN --out EXPORT
        dssm export --model RUN --out ENGINE --format opensearch --corpus corpus.tsv
        dssm export --model RUN --out learned.tsv --format rules

    Args:
        model: directory that `dssm train` wrote; for opensearch, a compact model too
        out: directory; the model is written to OUT/NAME/VERSION/; for rules, a file
        name: name of the served model; by default the tower's, or maxsim
        format: format of the export
        number_type: type of the numbers of a compact model's first matrix, which has most of its
            bytes
        corpus: opensearch, rules: table with the titles whose words queries are expanded to; by
            default the titles of the training data
        similar_words: opensearch: number of similar words of each query word; 0: all
        rules: compact, opensearch: file with similar words, words that never match, and titles
            pinned to or blocked for a query (docs/rules.md)
        tables: opensearch, rules: layout of the corpus

    Raises:
        UserError: an input cannot be used, or an option does not apply to the format.
    """
    model, out, rules = Path(model), Path(out), optional_path(rules)
    if format != "compact" and number_type != "float32":
        raise UserError("--number-type is for compact models; add --format compact.")
    if format not in ("opensearch", "rules") and corpus is not None:
        raise UserError("--corpus is for search engines; add --format opensearch.")
    if format not in ("opensearch", "compact") and rules is not None:
        raise UserError("--rules is for --format compact and opensearch.")
    if format in ("opensearch", "rules"):
        titles = None
        if corpus is not None:
            from dssm_tf.tables.judgments import read_corpus

            with progress_of("reading the corpus", None, unit=""):
                titles = read_corpus(corpus, tables.layout(model).corpus)
        if format == "opensearch":
            _export_search_engine(model, out, name, titles, similar_words, rules)
        else:
            _export_rules(model, out, titles)
        return
    load_tensorflow()
    if format == "saved_model":
        from dssm_tf.export.saved_model import export_saved_model

        target = export_saved_model(model, out, name)
        base = target.parent.resolve()
        lines = [
            f"{target}: verified against the trained model",
            f"serve it: tensorflow_model_server --port=8500 --rest_api_port=8501 "
            f"{shlex.quote(f'--model_name={base.name}')} "
            f"{shlex.quote(f'--model_base_path={base}')}",
        ]
    else:
        from dssm_tf.export.compact import export_compact

        target = export_compact(model, out, name, number_type, rules)
        size = sum(file.stat().st_size for file in target.iterdir()) / 1e6
        rounding = "" if number_type == "float32" else f" rounded to {number_type}"
        lines = [
            f"{target}: {size:.1f} MB; verified against the trained model{rounding}",
            f"read it: from dssm_tf.runtime import load; load({str(target.parent)!r})",
        ]
    say(*lines)


def _export_search_engine(
    model: Path,
    out: Path,
    name: str | None,
    corpus: Sequence[CorpusTitle] | None,
    similar_words: int,
    rules: Path | None,
) -> None:
    """Writes an export for OpenSearch and Elasticsearch; see `export_model`."""
    from dssm_tf.export.search_engine.export import export_search_engine

    titles = None if corpus is None else [entry.title for entry in corpus]
    doc_ids = None if corpus is None else [entry.doc_id for entry in corpus]
    target = export_search_engine(model, out, name, titles, similar_words, rules, doc_ids)
    say(
        f"{target}: verified against the trained model",
        f"next: read {shlex.quote(str(target / 'README.md'))}",
    )


def _export_rules(model: Path, out: Path, corpus: Sequence[CorpusTitle] | None) -> None:
    """Writes learned similar words; see `export_model`."""
    from dssm_tf.export.learned_rules import export_learned_rules

    titles = None if corpus is None else [entry.title for entry in corpus]
    count = export_learned_rules(model, out, titles)
    say(
        f"{out}: {count:,} pairs of similar words",
        "next: edit it, then dssm index --rules or dssm export --format opensearch --rules",
    )

"""`dssm index`: a corpus made ready to be searched, once; titles added to it and taken away."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.fields import warn_of_other_fields
from dssm_tf.commands.parser import Commands, add_encoding, add_title_fields, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.retrieval.title_index import TitleIndex

_KINDS = ("auto", "exact", "flat", "int8", "ivf", "hnsw")


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        if arguments.add or arguments.remove:
            change_index_command(
                arguments.model,
                arguments.out,
                arguments.add,
                arguments.remove,
                encoding=arguments.encoding,
                title_fields=parse_fields(arguments.title_fields),
            )
            return
        index_command(
            arguments.model,
            arguments.corpus,
            arguments.out,
            vectors=arguments.vectors,
            kind=arguments.kind,
            recall=arguments.recall,
            queries=arguments.queries,
            hybrid=arguments.hybrid,
            cosine=arguments.cosine,
            encoding=arguments.encoding,
            title_fields=parse_fields(arguments.title_fields),
        )

    parser = command(
        commands,
        "index",
        run,
        "make a corpus ready to be searched, and keep it so",
        "`dssm search --index` opens it; with --add or --remove, an index that stands is changed",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--out", required=True, type=Path, help="directory of the index")
    titles = parser.add_mutually_exclusive_group()
    titles.add_argument("--corpus", type=Path, help="table with doc_id, title")
    titles.add_argument(
        "--vectors",
        nargs="+",
        metavar="FILE",
        help="Parquet files that `dssm embed` or `pipelines.embed` wrote, instead of --corpus",
    )
    titles.add_argument("--add", type=Path, metavar="CORPUS", help="titles to add to the index")
    parser.add_argument(
        "--remove", type=Path, metavar="FILE", help="ids to take out of the index, one a line"
    )
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument(
        "--kind",
        choices=_KINDS,
        default="auto",
        help="exact and flat compare all titles; int8, ivf and hnsw (faiss, extra `search`) fewer "
        "or faster; auto: exact up to 100,000 titles, then hnsw",
    )
    parser.add_argument(
        "--recall",
        type=float,
        default=0.98,
        help="least recall@10 against exact search; an index that stays below becomes exact",
    )
    parser.add_argument(
        "--queries",
        type=Path,
        help="queries to measure it on (.txt or a table); else made of titles",
    )
    parser.add_argument(
        "--hybrid",
        type=Path,
        metavar="FILE",
        help="joins BM25 and the model as `dssm benchmark` chose, a file of BENCH/hybrids",
    )
    parser.add_argument(
        "--cosine",
        action="store_true",
        help="rank by cosine alone, without the titles' prior, as --hybrid does anyway",
    )


def index_command(
    model: Path | str,
    corpus: Path | str | None,
    out: Path | str,
    *,
    vectors: Sequence[str] | None = None,
    kind: str = "auto",
    recall: float = 0.98,
    queries: Path | str | None = None,
    hybrid: Path | str | None = None,
    cosine: bool = False,
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = ("title",),
    console: Console | None = None,
) -> None:
    """Writes the index of a corpus.

    Args:
        model: directory that `dssm train` wrote.
        corpus: a table, see `read_corpus`; or give `vectors`.
        out: directory to write; it must not hold anything.
        vectors: Parquet files of titles with their vectors, see `read_embedded`.
        kind: of the vector index, see `choose_index`.
        recall: least recall@10, above 0 and at most 1.
        queries: file of queries to measure it on, see `tables.texts`.
        hybrid: a file that `dssm benchmark` wrote, see `ChosenHybrid`.
        cosine: whether vectors are without the prior.
        encoding: of the corpus and the queries.
        title_fields: columns that a title is made of.
        console: where to print; standard error by default.

    Raises:
        UserError: an input cannot be used, or `out` exists.
    """
    from dssm_tf.common.files import refuse_existing
    from dssm_tf.retrieval.hybrid import ChosenHybrid
    from dssm_tf.retrieval.title_index import Settings, TitleIndex, check_vectors
    from dssm_tf.retrieval.vectors import read_embedded
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.texts import open_texts

    out = Path(out)
    if (corpus is None) == (vectors is None):
        raise UserError("Give either --corpus or --vectors; or --add or --remove to change --out.")
    if not 0 < recall <= 1:
        raise UserError(f"--recall {recall:g}: expected above 0 and at most 1.")
    if kind not in _KINDS:
        raise UserError(f"--kind {kind!r:.40}: expected one of {', '.join(_KINDS)}.")
    refuse_existing(out)
    chosen = None if hybrid is None else ChosenHybrid.load(hybrid)
    cosine = cosine or chosen is not None  # the weights of a hybrid were chosen on cosines
    asked: list[str] = []
    if queries is not None:
        with open_texts(queries, "query", encoding=encoding) as found:
            asked = [row.text for row in found.rows if row.text.strip()][:_MOST_QUERIES]
        if len(asked) < 2:
            raise UserError(f"{queries} holds {len(asked)} queries; expected at least 2.")
    made = None
    if corpus is not None:
        titles = read_corpus(corpus, encoding, title_fields)
        warn_of_other_fields(model, title_fields, console or _errors())
    else:
        titles, made = read_embedded(vectors or ())
    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    console = console or _errors()
    with progress_of("index", 1.0, console, unit="") as task:
        task.update(0.0, "loading the model")
        ranker = SemanticRanker.load(model)
        if made is not None:
            check_vectors(ranker, titles, made)
            plain = ranker.encode_titles([]).shape[1]
            if cosine:
                made = made[:, :plain]
            elif made.shape[1] == plain:
                raise UserError(
                    "The vectors are without the prior (`dssm embed --cosine`); add --cosine, or "
                    "make them again without."
                )
        settings = Settings(kind, not cosine, recall, tuple(asked), chosen)
        index = TitleIndex.build(
            ranker, titles, settings, lambda step, share: task.update(share, step), made
        )
        task.update(1.0, "writing")
        _save(index, out, Path(model), replace=False)
    _tell(index, out, console)


def change_index_command(
    model: Path | str,
    out: Path | str,
    add: Path | str | None = None,
    remove: Path | str | None = None,
    *,
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = ("title",),
    console: Console | None = None,
) -> None:
    """Adds titles to an index and takes others away; it is replaced when the new one is whole.

    Args:
        model: that made it.
        out: the index.
        add: a table, see `read_corpus`; only these titles are encoded.
        remove: ids, one a line.
        encoding: of the table.
        title_fields: columns that a title is made of.
        console: where to print; standard error by default.

    Raises:
        UserError: an input cannot be used; the index stays as it is.
    """
    from dssm_tf.common.checksums import fingerprint
    from dssm_tf.retrieval.title_index import TitleIndex
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.texts import read_ids

    out = Path(out)
    index = TitleIndex.open(out, fingerprint(Path(model)))
    titles = [] if add is None else read_corpus(add, encoding, title_fields)
    ids = [] if remove is None else read_ids(remove)
    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    console = console or _errors()
    with progress_of("index", 1.0, console, unit="") as task:
        task.update(0.0, "loading the model")
        ranker = SemanticRanker.load(model)
        index = index.changed(ranker, titles, ids, lambda step, share: task.update(share, step))
        task.update(1.0, "writing")
        _save(index, out, Path(model), replace=True)
    _tell(index, out, console)


_MOST_QUERIES = 1000  # that an approximate index is measured on


def _save(index: TitleIndex, out: Path, model: Path, *, replace: bool) -> None:
    from dssm_tf.common.checksums import fingerprint

    index.save(out, fingerprint(model), replace=replace)


def _tell(index: TitleIndex, out: Path, console: Console) -> None:
    by = "the model's score" if index.settings.prior else "cosine"
    console.print(
        f"{len(index.corpus):,} titles, ranked by {by}; {index.measured.sentence()}. "
        f"Written: {out}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _errors() -> Console:
    from rich.console import Console

    return Console(stderr=True)

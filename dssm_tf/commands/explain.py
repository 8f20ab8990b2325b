"""`dssm explain`: why a title matches a query, and what a word is like."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.analysis.survey import Contexts


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    parser = command(
        commands,
        "explain",
        _run,
        "show why a title matches a query, or what a word is like",
        "What each word of both texts adds to the score; of a run also its letter trigrams, of a "
        "recurrent one its gates, most active cells and keywords (Palangi et al. 2016, sec. V), of "
        "a CLSM the words that win its neurons (Shen et al. 2014, fig. 4). With --word, the words "
        "nearest to it, or how alike it is in different texts.",
    )
    parser.add_argument(
        "--model",
        required=True,
        type=Path,
        help="what `dssm train` or `dssm export` wrote (all of OUT, OUT/NAME or "
        "OUT/NAME/VERSION), or a baseline was saved in",
    )
    parser.add_argument("--query", help="the query, as a user would type it")
    parser.add_argument("--title", help="the title, as it is shown")
    parser.add_argument(
        "--word",
        help="instead of a query and a title, for a run or doc2vec: the words nearest to this one "
        "(Palangi et al. 2016, supplement F; Wu et al. 2014, table 2)",
    )
    parser.add_argument(
        "--texts",
        nargs="+",
        metavar="TEXT",
        help="with --word, for a CLSM or a recurrent run: texts that have the word, to compare the "
        "first one with the others (Shen et al. 2014, table 2)",
    )
    parser.add_argument("--out", type=Path, help="directory for explanation.json and the figures")
    parser.add_argument("--json", action="store_true", help="print JSON, not tables")


def _run(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from dssm_tf.common.files import refuse_existing

    _check(arguments)
    if arguments.out is not None:
        refuse_existing(arguments.out)
    load_tensorflow()
    from dssm_tf.benchmark.finished import load_finished
    from dssm_tf.model.semantic_ranker import SemanticRanker

    name = arguments.model.resolve().name
    # The versions of an export are numbers.
    parent = arguments.model.resolve().parent.name
    ranker, _ = load_finished(parent if name.isdecimal() else name, arguments.model)
    if isinstance(ranker, SemanticRanker):
        ranker.name = ranker.config.tower.name
    console = None if arguments.json else Console()
    if arguments.word is None:
        found = _pair(ranker, arguments.query, arguments.title, arguments.out, console)
    elif arguments.texts:
        found = _contexts(ranker, arguments.word, arguments.texts, console)
    else:
        found = _nearest(ranker, arguments.word, console)
    if arguments.json:
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _check(arguments: argparse.Namespace) -> None:
    """Refuses what cannot be before TensorFlow is loaded, which takes seconds."""
    pair = [arguments.query, arguments.title]
    if arguments.word is None:
        if None in pair or arguments.texts:
            raise UserError("give --query and --title; or --word, which --texts may follow.")
    elif pair != [None, None] or arguments.out is not None:
        raise UserError("--word stands without --query, --title and --out.")
    if arguments.texts and len(arguments.texts) < 2:
        raise UserError("--texts has one text; give two or more.")
    model = arguments.model
    if model.is_dir():
        return
    kind = "does not exist" if not model.exists() else "is a file"
    hybrid = " A hybrid's scores depend on all titles it ranks; explain one of its members."
    raise UserError(
        f"--model {model} {kind}; expected a directory that `dssm train` or `dssm export` wrote, "
        f"or that a baseline was saved in.{hybrid if model.suffix == '.json' else ''}"
    )


def _pair(ranker: Any, query: str, title: str, out: Path | None, console: Console | None) -> Any:
    from dssm_tf.analysis.explanation import explain
    from dssm_tf.analysis.show import show, write
    from dssm_tf.common.files import atomic_directory

    found = explain(ranker, query, title)
    if out is not None:
        with atomic_directory(out) as directory:
            write(found, directory)
    if console is not None:
        show(found, console)
        if out is not None:
            console.print(f"figures and explanation.json: {out}", highlight=False)
    return found.to_json()


def _nearest(ranker: Any, word: str, console: Console | None) -> Any:
    from dssm_tf.analysis.survey import neighbours
    from dssm_tf.baselines.doc2vec import Doc2Vec
    from dssm_tf.model.semantic_ranker import SemanticRanker

    if isinstance(ranker, Doc2Vec):
        nearest = ranker.most_similar(word)
    elif isinstance(ranker, SemanticRanker):
        vocabulary = ranker.vocabulary
        among = dict.fromkeys(
            one for title in ranker.prior.log_shares for one in vocabulary.words(title)
        )
        words = vocabulary.words(word)[:1]
        found = neighbours(ranker.model.title_tower, vocabulary, words, [*among], 10)
        if not found:
            raise UserError(f"the model knows no letter trigram of {word!r}.")
        (nearest,) = found.values()
    else:
        raise UserError(f"{ranker.name} has no vectors of words; --word is for runs and doc2vec.")
    if console is not None:
        _print(console, word, [[one, f"{cosine:.3f}"] for one, cosine in nearest])
    return {"word": word, "nearest": [list(one) for one in nearest]}


def _contexts(ranker: Any, word: str, texts: Sequence[str], console: Console | None) -> Any:
    from dssm_tf.analysis.survey import contexts
    from dssm_tf.model.semantic_ranker import SemanticRanker

    if not isinstance(ranker, SemanticRanker):
        raise UserError(f"{ranker.name} is not a run of `dssm train`, which --texts needs.")
    found: Contexts = contexts(ranker.model.title_tower, ranker.vocabulary, word, texts)
    others = [(" ".join(text), cosine) for text, cosine in found.others]
    if console is not None:
        _print(console, " ".join(found.text), [[text, f"{cosine:.3f}"] for text, cosine in others])
    return found._asdict() | {"text": " ".join(found.text), "others": [list(one) for one in others]}


def _print(console: Console, head: str, rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(head), overflow="fold")
    table.add_column("cosine", justify="right")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)

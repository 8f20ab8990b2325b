"""The `dssm` command: parsing only; each command is a function elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dssm_tf import __version__
from dssm_tf.errors import UserError

_EXAMPLES = """the usual way:
  python -m pipelines.preprocess --input clicks.tsv --corpus corpus.tsv --output DATA
  dssm train --config lstm --data DATA --out RUN
  dssm evaluate --model RUN --judgments judgments.tsv --corpus corpus.tsv --out EVALUATION
  dssm export --model RUN --out EXPORT
  dssm search --model RUN --corpus corpus.tsv

see it all at once on bundled data:  dssm demo --out demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0 done, 1 failed with a one-line reason on standard error, 2 wrong usage.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if argv is None:  # a real process, not a caller in Python
        from dssm_tf.quiet import quiet_native_logs

        quiet_native_logs()
    try:
        arguments.run(arguments)
    except UserError as error:
        sys.stderr.write(f"dssm {arguments.command}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"dssm {arguments.command}: interrupted\n")
        return 1
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        return 1
    except OSError as error:  # no permission, no space, not a directory: it names the file
        sys.stderr.write(f"dssm {arguments.command}: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dssm",
        description="From search click logs to a semantic ranker in production.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dssm-tf {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (
        _train,
        _tune,
        _evaluate,
        _benchmark,
        _export,
        _embed,
        _search,
        _demo,
        _skip_thought,
        _data,
        _experiment,
        _curves,
    ):
        add(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], object],
    summary: str,
    details: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ("" if not details else ". " + details),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.training_command import train_command

        train_command(arguments.config, arguments.data, arguments.out, arguments.set)

    parser = _command(
        commands,
        "train",
        run,
        "train a model on preprocessed clicks",
        "Uses all local GPUs, and several machines through TF_CONFIG. A run that was interrupted "
        "goes on when the same command is given again.",
    )
    parser.add_argument(
        "--config",
        required=True,
        help="YAML file, or the name of one that comes with the package, such as lstm or dssm",
    )
    parser.add_argument("--data", required=True, type=Path, help="directory preprocess wrote")
    parser.add_argument("--out", required=True, type=Path, help="directory of the run, new")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, e.g. training.epochs=5; may be repeated",
    )


def _evaluate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.evaluation.command import evaluate_command

        evaluate_command(
            arguments.model,
            arguments.judgments,
            arguments.corpus,
            arguments.out,
            [name for name in arguments.baselines.split(",") if name],
            data=arguments.data,
            runs=arguments.runs,
            repeats=arguments.repeats,
        )

    parser = _command(
        commands,
        "evaluate",
        run,
        "rank judged queries and measure NDCG, MRR, recall",
        "Writes metrics.json, TREC run files, qrels and report.html. Without --corpus each query "
        "ranks its judged titles; with it, the whole corpus, unjudged titles having grade 0.",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]RUN",
        help="directory `dssm train` wrote; may be repeated",
    )
    parser.add_argument(
        "--judgments",
        required=True,
        type=Path,
        help="TSV with query_id, query, doc_id, title, grade",
    )
    parser.add_argument("--corpus", type=Path, help="TSV with doc_id, title: rank all of it")
    parser.add_argument(
        "--baselines",
        default="bm25",
        help="comma-separated baselines, or '' for none; NAME=DIR loads what was saved instead of "
        "fitting on the titles, e.g. skip_thought=DIR for skip-thought weights",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="directory preprocess wrote: baselines learn from its clicks, not from titles alone",
    )
    parser.add_argument(
        "--runs",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a TREC run file of another system; may be repeated",
    )
    parser.add_argument(
        "--repeats",
        choices=("refuse", "mean"),
        default="refuse",
        help="what to do with a pair that is judged more than once",
    )
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def _benchmark(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.evaluation.benchmark.command import DETAILS, add_arguments, run

    summary = "measure many systems on the same judgments, with tests, in one table"
    add_arguments(_command(commands, "benchmark", run, summary, DETAILS))


def _export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.training_command import export_command

        export_command(arguments.model, arguments.out, arguments.name)

    parser = _command(
        commands,
        "export",
        run,
        "write a SavedModel that takes raw strings",
        "Signatures encode_query, encode_title and score; verified against the trained model "
        "before it counts; with warm-up requests for TensorFlow Serving.",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--out", required=True, type=Path, help="writes OUT/NAME/VERSION/")
    parser.add_argument("--name", help="the served model's name; the tower's by default")


def _embed(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.retrieval import embed_command

        embed_command(
            arguments.model,
            arguments.input,
            arguments.out,
            side=arguments.side,
            column=arguments.column,
            id_column=arguments.id_column,
            batch_size=arguments.batch_size,
        )

    parser = _command(commands, "embed", run, "turn texts into semantic vectors")
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument(
        "--input",
        required=True,
        type=Path,
        help="texts: .txt (one a line), .tsv, .csv, .jsonl, .parquet, also .gz; - for stdin",
    )
    parser.add_argument("--out", required=True, type=Path, help=".npy or .parquet")
    parser.add_argument("--side", choices=("title", "query"), default="title", help="which tower")
    parser.add_argument("--column", help="column that holds the text")
    parser.add_argument("--id-column", help="column that holds the id")
    parser.add_argument("--batch-size", type=int, default=1024, help="texts encoded at once")


def _search(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.retrieval import search_command

        interactive = not arguments.queries and sys.stdin.isatty()
        search_command(
            arguments.model,
            arguments.corpus,
            arguments.queries or None,
            k=arguments.k,
            index=arguments.index,
            interactive=interactive,
            vectors=arguments.vectors,
            fusion=arguments.fusion,
        )

    parser = _command(
        commands, "search", run, "search a corpus: BM25, semantic and hybrid side by side"
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--corpus", required=True, type=Path, help="TSV with doc_id, title")
    parser.add_argument("--k", type=int, default=10, help="results a system")
    parser.add_argument(
        "--index",
        choices=("exact", "faiss", "hnsw"),
        default="exact",
        help="vector index; faiss and hnsw (approximate) need the extra `search`",
    )
    parser.add_argument(
        "--vectors", type=Path, help="vectors of the corpus that `dssm embed` wrote, in its order"
    )
    parser.add_argument(
        "--fusion",
        choices=("rrf", "linear"),
        default="rrf",
        help="how the hybrid joins BM25 and the model: reciprocal ranks, or scores",
    )
    parser.add_argument("queries", nargs="*", help="queries; else typed, or one a line from stdin")


def _demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    def run(arguments: argparse.Namespace) -> None:
        from dssm_tf.demo import demo

        demo(arguments.out)

    parser = _command(
        commands,
        "demo",
        run,
        "click log to served ranker on bundled questions, start to finish",
        "Preprocesses WebQuestions, trains dssm and lstm, evaluates them against BM25, exports, "
        "searches, and writes one HTML page.",
    )
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="directory to write")


def _skip_thought(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.skip_thought_command import add_skip_thought

    add_skip_thought(commands)


def _data(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.data_command import add_data

    add_data(commands)


def _tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.tuning_command import add_tune

    add_tune(commands)


def _experiment(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.experiment_command import add_experiment

    add_experiment(commands)


def _curves(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from dssm_tf.curves_command import add_curves

    add_curves(commands)


if __name__ == "__main__":
    sys.exit(main())

"""`dssm skip-thought`: train encoders on contiguous text, turn texts into vectors."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.commands.parser import Commands, add_encoding
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.baselines.skip_thought.training import Epoch

_DETAILS = """Skip-thought vectors (Kiros et al. 2015): a GRU encodes a sentence so that two
decoders can tell the sentences around it. `train` learns from contiguous text; `encode` writes
vectors.

To rank with them, train with --repeat and load the encoder as a baseline:
  dssm evaluate --baselines bm25,skip_thought=DIR --judgments judgments.tsv --out EVALUATION
DIR is what `train` wrote, or the published release: uni_skip.npz and bi_skip.npz, each with its
.npz.pkl, dictionary.txt, utable.npy and btable.npy. With both encoders there the vectors are
combine-skip. The pickled options are read without being executed.
"""


def add(commands: Commands) -> None:
    """Adds `dssm skip-thought` to the parser."""
    summary = "train skip-thought encoders, encode texts with them"
    parser = commands.add_parser(
        "skip-thought",
        help=summary,
        description=_DETAILS,
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", required=True)
    _add_train(tasks)
    _add_encode(tasks)


def _add_train(tasks: Commands) -> None:
    def run(arguments: argparse.Namespace) -> None:
        names = (*numbers, "encoding", "kind", "max_steps", "learning_rate", "repeat")
        chosen = {name: getattr(arguments, name) for name in names}
        train_command(arguments.text, arguments.out, arguments.column, **chosen)

    parser = tasks.add_parser(
        "train",
        help="learn from contiguous text",
        description="Learns from contiguous text; writes the published layout, options as JSON.",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--text",
        required=True,
        type=Path,
        help=".txt: sentences go on from line to line, a blank line ends a passage; or .tsv, .csv, "
        ".jsonl, .parquet: a passage a cell; also .gz",
    )
    parser.add_argument("--column", help="column of a table; text or title if not given")
    add_encoding(parser)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument(
        "--kind",
        choices=("uni", "bi", "combine"),
        default="uni",
        help="one direction, two, or both encoders side by side (the paper's best, twice the time)",
    )
    # Name: default, published value or None, what it is.
    numbers: dict[str, tuple[int, int | None, str]] = {
        "units": (300, 2400, "size of the uni-skip and of the bi-skip vector, each"),
        "word_units": (300, 620, "size of the word vectors"),
        "vocabulary": (20000, 20000, "most frequent words that are known"),
        "predicted": (5000, 20000, "most frequent words that the decoders tell apart"),
        "max_words": (30, 30, "words of a sentence that are read"),
        "epochs": (2, None, "passes over the text"),
        "batch_size": (64, 128, "sentences a step"),
        "seed": (0, None, "of the first weights and the order of batches"),
    }
    for name, (default, published, meaning) in numbers.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=int,
            default=default,
            help=meaning + (f"; published: {published:,}" if published else ""),
        )
    parser.add_argument("--max-steps", type=int, help="steps at most, of each encoder")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="of Adam")
    parser.add_argument(
        "--repeat",
        action="store_true",
        help="let each sentence be its own neighbour too: its vector keeps its words, to rank by",
    )


def _add_encode(tasks: Commands) -> None:
    def run(arguments: argparse.Namespace) -> None:
        encode_command(
            arguments.weights,
            arguments.input,
            arguments.out,
            arguments.column,
            arguments.kind,
            encoding=arguments.encoding,
        )

    parser = tasks.add_parser(
        "encode",
        help="write the vectors of texts",
        description="Writes unit vectors, row i of text i, as a .npy matrix.",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--weights", required=True, type=Path, help="what `train` wrote, or published weights"
    )
    parser.add_argument(
        "--input",
        required=True,
        type=Path,
        help="texts: .txt (one a line), .tsv, .csv, .jsonl, .parquet, also .gz; - for stdin",
    )
    parser.add_argument("--column", help="column of a table; title or text if not given")
    add_encoding(parser)
    parser.add_argument(
        "--kind", choices=("uni", "bi", "combine"), help="all there is if not given"
    )
    parser.add_argument("--out", required=True, type=Path, help=".npy")


def train_command(
    text: Path,
    out: Path,
    column: str | None = None,
    console: Console | None = None,
    *,
    encoding: str = "utf-8",
    **options: Any,
) -> list[Epoch]:
    """Trains encoders and writes them in the published layout.

    Args:
        text: `.txt` (sentences go on from line to line, a blank line ends a passage), or a table
            (`.tsv`, `.csv`, `.jsonl`, `.parquet`), a passage a cell of `column`; also `.gz`.
        out: directory to make.
        column: of a table; `text` or `title` by default.
        console: where to print; a new one by default.
        encoding: of the text.
        options: of `TrainingOptions`.

    Raises:
        UserError: the text or an option is not usable, or `out` exists.
    """
    # Only now: the command line must answer --help without these.
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.baselines.skip_thought.passages import passages_of_cells, passages_of_lines
    from dssm_tf.baselines.skip_thought.published_weights import write_vectors
    from dssm_tf.baselines.skip_thought.training import TrainingOptions, train
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.tables.texts import open_texts

    console = console or Console()
    refuse_existing(out)
    try:
        chosen = TrainingOptions(**options)
    except ValueError as error:
        raise UserError(str(error)) from None
    with open_texts(text, "passage", column, encoding=encoding) as source:
        lines = (row.text for row in source.rows)
        running = Path(text.name.removesuffix(".gz")).suffix in (".txt", "")
        passages = passages_of_lines(lines) if running else passages_of_cells(lines)
        vectors, history = train(passages, chosen, console)
    with atomic_directory(out) as aside:
        write_vectors(aside, vectors)
    console.print(
        f"{out}: {chosen.kind}-skip of {chosen.units} units\n"
        f"next: dssm evaluate --baselines bm25,skip_thought={out} --judgments judgments.tsv "
        "--out EVALUATION",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return history


def encode_command(
    weights: Path,
    texts: Path,
    out: Path,
    column: str | None = None,
    kind: str | None = None,
    console: Console | None = None,
    *,
    encoding: str = "utf-8",
) -> None:
    """Writes the unit vectors of texts as a `.npy` matrix, row `i` of text `i`.

    Args:
        weights: see `load_vectors`.
        texts: see `open_texts`.
        out: `.npy` file to write.
        column: of a table; `title` or `text` by default.
        kind: which vectors; None for all there are.
        console: where to print; a new one by default.
        encoding: of the texts.

    Raises:
        UserError: an input is not usable, or `out` is no `.npy` name.
    """
    import io

    import numpy as np
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.baselines.skip_thought.published_weights import load_vectors
    from dssm_tf.common.files import atomic_write
    from dssm_tf.common.progress import progress_of
    from dssm_tf.tables.texts import open_texts

    console = console or Console()
    if out.suffix != ".npy":
        raise UserError(f"--out {out}: expected a name that ends in .npy.")
    encode = load_vectors(weights, kind)
    with open_texts(texts, column=column, encoding=encoding) as source:
        rows = [row.text for row in source.rows]
    with progress_of("texts", len(rows), console, "texts") as task:
        vectors = encode(rows, task.update)
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    with atomic_write(out, "wb") as file:
        file.write(buffer.getbuffer())
    console.print(
        f"{out}: {len(rows):,} vectors of {encode.dimension}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )

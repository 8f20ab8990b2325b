"""`dssm embed`: texts to vectors, however many."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from dssm_tf.commands.flags import PLAIN, Tables
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say

_CHUNK = 1 << 14  # texts encoded at once, so that those of like length share a batch


def embed(
    *,
    model: Path,
    input: Path,
    out: Path,
    side: Literal["title", "query"] = "title",
    cosine: bool = False,
    tables: Tables = PLAIN,
) -> None:
    """Turn texts into semantic vectors.

    Writes the columns id, text and vector, in the order of the input. Memory use does not depend
    on its size. The inner product of a query's vector and a title's is the model's score: a unit
    vector is followed by one more number, 1 for a query and the weighted log-prior for a title. A
    text without words has zeros in place of the unit vector.

        dssm embed --model RUN --input corpus.tsv --out vectors.parquet

    Args:
        model: what `dssm train` or `dssm export` wrote
        input: texts: .txt (one per line), .tsv, .csv, .jsonl, .parquet, also .gz
        out: Parquet file to write, replaced when complete
        side: which tower
        cosine: unit vectors, for cosines, without the dimension that holds the titles' prior
        tables: how the input is laid out; columns are title, query or text, and doc_id, query_id
            or id, else row numbers are the ids

    Raises:
        UserError: an input cannot be used, or holds no text.
    """
    import pyarrow
    from pyarrow import parquet

    from dssm_tf.export.load import load_model
    from dssm_tf.tables.read import rebatch, scan_texts

    if out.suffix != ".parquet" or out.is_dir():
        raise UserError(f"--out {out}: expected the name of a file that ends in .parquet.")
    if out.exists() and input.exists() and out.samefile(input):
        raise UserError(f"{out} is the input; choose another name for the vectors.")
    layout = tables.layout(model)
    texts = rebatch(scan_texts(input, side, layout.corpus if side == "title" else layout), _CHUNK)
    ranker = load_model(model)
    encode = ranker.encode_queries if side == "query" else ranker.encode_titles
    dimension, text = encode([], prior=not cosine).shape[1], pyarrow.string()
    vector = pyarrow.list_(pyarrow.float32(), dimension)
    schema = pyarrow.schema({"id": text, "text": text, "vector": vector})
    count = 0
    with (
        atomic_write(out, "wb") as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as table,
        progress_of("embed", None, unit="texts") as task,
    ):
        for chunk in texts:
            lines = chunk["text"].to_list()
            numbers = range(count, count + len(chunk))
            ids = [
                str(number) if id is None else id
                for number, id in zip(numbers, chunk["id"], strict=True)
            ]
            vectors = list(encode(lines, prior=not cosine))
            columns = {"id": ids, "text": lines, "vector": vectors}
            table.write_table(pyarrow.table(columns, schema))
            count += len(chunk)
            task.update(count)
        if not count:
            raise UserError(f"{input} holds no text; nothing was written.")
    use = "cosine" if cosine else "inner product, which is the model's score"
    say(f"{out}: {count} vectors of length {dimension}; compare them by {use}", to=sys.stderr)

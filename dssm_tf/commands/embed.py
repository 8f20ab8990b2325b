"""`dssm embed`: writes the vectors of texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say

_CHUNK = 1 << 14  # texts encoded at once: enough to group texts of similar length in batches


def embed(
    *,
    model: AnyPath,
    input: AnyPath,
    out: AnyPath,
    side: Literal["title", "query"] = "title",
    cosine: bool = False,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Turn texts into semantic vectors.

    Writes the columns id, text and vector, in the order of the input. Memory use does not depend
    on the size of the input. A vector is a unit vector and one more number: 1 for a query, the
    weighted log-prior for a title. So the inner product of a query's and a title's vector is the
    model's score. A text without words has zeros instead of the unit vector.

        dssm embed --model RUN --input corpus.tsv --out vectors.parquet

    Args:
        model: directory that `dssm train` or `dssm export` wrote
        input: texts: .txt (one per line), .tsv, .csv, .jsonl, .parquet, also .gz
        out: Parquet file to write, replaced when complete
        side: tower to encode with
        cosine: write unit vectors, for cosines, without the number for the prior
        tables: layout of the input; columns are title, query or text, and doc_id, query_id or id;
            row numbers are the default ids

    Raises:
        UserError: an input cannot be used, or contains no text.
    """
    model, input, out = Path(model), Path(input), Path(out)
    import pyarrow
    from pyarrow import parquet

    from dssm_tf.export.load import load_vector_ranker
    from dssm_tf.tables.read import rebatch, scan_texts

    if out.suffix != ".parquet" or out.is_dir():
        raise UserError(f"--out {out}: expected the name of a file that ends in .parquet.")
    if out.exists() and input.exists() and out.samefile(input):
        raise UserError(f"{out} is the input; choose another name for the vectors.")
    layout = tables.layout(model)
    texts = rebatch(scan_texts(input, side, layout.corpus if side == "title" else layout), _CHUNK)
    ranker = load_vector_ranker(model)
    encode = ranker.encode_queries if side == "query" else ranker.encode_titles
    dimension, string_type = encode([], prior=not cosine).shape[1], pyarrow.string()
    vector = pyarrow.list_(pyarrow.float32(), dimension)
    schema = pyarrow.schema({"id": string_type, "text": string_type, "vector": vector})
    count = 0
    with (
        atomic_write(out, "wb") as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as table,
        progress_of("embed", None, unit="texts") as task,
    ):
        for chunk in texts:
            text_chunk = chunk["text"].to_list()
            indices = range(count, count + len(chunk))
            ids = [
                str(index) if id is None else id
                for index, id in zip(indices, chunk["id"], strict=True)
            ]
            vectors = list(encode(text_chunk, prior=not cosine))
            columns = {"id": ids, "text": text_chunk, "vector": vectors}
            table.write_table(pyarrow.table(columns, schema))
            count += len(chunk)
            task.update(count)
        if not count:
            raise UserError(f"{input} contains no text; nothing was written.")
    use = "cosine" if cosine else "inner product, which is the model's score"
    say(f"{out}: {count} vectors of length {dimension}; compare them by {use}", to=sys.stderr)

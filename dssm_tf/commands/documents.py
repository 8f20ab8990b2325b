"""`dssm documents`: adds a model's fields to the documents of a search engine."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import refuse_special_file
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say


def documents(
    *,
    export: AnyPath,
    input: AnyPath,
    out: AnyPath,
    title_fields: str = "",
    id: str = "",
    bulk: bool = False,
) -> None:
    """Add a model's fields to the documents of OpenSearch or Elasticsearch.

    Each document gets the object `dssm`, which queries of the same export match. If it has one
    already, that is replaced. The input is read line by line, so its size does not matter.

        dssm documents --export ENGINE --input products.jsonl --out bulk.jsonl --id sku

    Args:
        export: directory that `dssm export --format opensearch` wrote
        input: a JSON object per line, also .gz
        out: file to write, replaced when complete
        title_fields: comma-separated fields that make a document's title, such as name,brand; by
            default those of the model's training data
        id: field with the document's id; the output is then the body of a bulk request
        bulk: the input is the body of a bulk request, with actions between the documents

    Raises:
        UserError: an input cannot be used; the message has the number of a malformed line.
    """
    export, input, out = Path(export), Path(input), Path(out)
    from dssm_tf.common.files import atomic_write
    from dssm_tf.runtime.search_engine_client import SearchEngineClient
    from dssm_tf.runtime.search_engine_documents import DocumentWriter

    if bulk and id:
        raise UserError("--id is for documents; with --bulk, the actions have the ids.")
    if out.exists() and input.exists() and out.samefile(input):
        raise UserError(f"{out} is the input; choose another name for the documents.")
    client = SearchEngineClient(export)
    fields = _names(title_fields) if title_fields else client.manifest.title_fields
    writer = DocumentWriter(client, fields)
    with (
        _open_lines(input) as lines,
        atomic_write(out, "wb") as file,
        progress_of("documents", None, unit="lines") as task,
    ):
        source = str(input)
        written = writer.bulk(lines, source) if bulk else writer.documents(lines, source, id)
        count = 0
        for count, line in enumerate(written, start=1):  # noqa: B007
            file.write(line)
            task.advance()
        if not count:
            raise UserError(f"{input} contains no document; nothing was written.")
    say(
        f"{out}: {count:,} lines with fields of version {client.manifest.version}; titles are made "
        f"of {', '.join(fields)}",
        to=sys.stderr,
    )


def _names(title_fields: str) -> tuple[str, ...]:
    """The names of fields; upper and lower case differ."""
    names = tuple(name.strip() for name in title_fields.split(","))
    if "" in names or len({*names}) < len(names):
        raise UserError(
            f"--title-fields is {title_fields!r}; expected names of fields separated by commas, "
            "each once, such as name,brand."
        )
    return names


@contextmanager
def _open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file of lines, also a compressed one.

    Raises:
        UserError: the file cannot be read.
    """
    refuse_special_file(
        path, "Give a file of documents, one JSON object per line.", allow_pipe=True
    )
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as lines:
                yield lines  # type: ignore[misc]
        else:
            with path.open("rb") as lines:
                yield lines
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a complete gzip file: {error}.") from None

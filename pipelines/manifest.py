"""The manifest: results that workers write for the launcher, as JSON files, which it checks.

Anyone who can write into the output can replace these files. Therefore nothing in them is executed,
and each path in them must be that of a file in `PARTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.tables.layout import Reject
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.log_statistics import LogStatistics
from pipelines.output import PARTS, load, open_bytes, save
from pipelines.shards import Counts, OutputFile

MANIFEST = "manifest"
_HINT = "It was changed while the command ran: keep others from writing into the output, and rerun."


class OutputManifest(NamedTuple):
    """Results of the pipeline that the launcher reads.

    Args:
        counts: counts by name.
        vocabulary: the letter n-grams.
        files: the written files, by kind and bucket.
        rejects: files of rejects, see `rejects_as_json`, in the order of their rows.
        curve: examination probabilities by which clicks are weighted.
        statistics: statistics of the log.
    """

    counts: Counts
    vocabulary: Vocabulary
    files: list[OutputFile]
    rejects: list[OutputFile]
    curve: ExaminationCurve | None
    statistics: LogStatistics

    def save(self, directory: str) -> None:
        """Writes the manifest into the directory `PARTS` of an output."""
        vocabulary, curve = self.vocabulary, self.curve
        content = {
            "counts": self.counts,
            "ngrams": vocabulary.ngrams,
            "rules": asdict(vocabulary.rules),
            "files": self.files,
            "rejects": self.rejects,
            "curve": None if curve is None else asdict(curve),
            "statistics": self.statistics.to_json(),
        }
        save(directory, MANIFEST, content)

    @classmethod
    def load(cls, directory: str) -> OutputManifest:
        """Reads and checks the manifest in the directory `PARTS` of an output.

        Raises:
            UserError: it is not a manifest, or it names a file outside of `PARTS`.
        """
        path = FileSystems.join(directory, PARTS, MANIFEST)
        content = load(path)
        try:
            counts = dict[str, int](content["counts"])
            if not all(type(count) is int for count in counts.values()):
                raise ValueError("a count is not a whole number")
            vocabulary = Vocabulary(
                map(str, content["ngrams"]), TextRules.from_json(content["rules"])
            )
            files, rejects = (_files(content[name], directory) for name in ("files", "rejects"))
            curve = None if content["curve"] is None else _curve(content["curve"])
            statistics = LogStatistics.from_json(content["statistics"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is not a manifest ({error}). {_HINT}") from None
        return cls(counts, vocabulary, files, rejects, curve, statistics)


def save_files(directory: str, name: str, files: Iterable[OutputFile]) -> None:
    """Writes a list of files, with the given file name, into the directory `PARTS` of an output."""
    save(directory, name, list(files))


def load_files(directory: str, name: str) -> list[OutputFile]:
    """Reads the list that `save_files` wrote.

    Raises:
        UserError: it is not such a list, or it names a file outside of `PARTS`.
    """
    path = FileSystems.join(directory, PARTS, name)
    try:
        return _files(load(path), directory)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} is not a list of files ({error}). {_HINT}") from None


def rejects_as_json(rejects: Sequence[Reject]) -> bytes:
    """Rejects as `load_rejects` reads them."""
    return json.dumps([asdict(reject) for reject in rejects]).encode("ascii")


def load_rejects(file: OutputFile) -> list[Reject]:
    """Reads a file that contains `rejects_as_json`.

    Raises:
        UserError: the file does not match its checksum, or is not such a file.
    """
    with open_bytes(file.path) as source:
        data = source.read()
    if sha256(data).hexdigest() != file.digest:
        raise UserError(f"{file.path} does not match its checksum. {_HINT}")
    try:
        return [_reject(values) for values in json.loads(data)]
    except (RecursionError, TypeError, ValueError) as error:
        raise UserError(f"{file.path} is not a list of rows ({error}). {_HINT}") from None


def _reject(values: Any) -> Reject:
    """A reject with the types of its fields checked."""
    reject = Reject(**values)
    types = [type(value) for value in (reject.line, reject.reason, reject.text, reject.detail)]
    if types != [int, str, str, str] or type(reject.clicks) not in (int, type(None)):
        raise ValueError(f"{values!r:.200} is not a row")
    if reject.line < 1 or (reject.clicks or 0) < 0:
        raise ValueError(f"{values!r:.200} has a number that is not positive")
    return reject


def _files(rows: Any, directory: str) -> list[OutputFile]:
    """Parses the files of a manifest.

    Raises:
        TypeError, ValueError: a row is not a file in the directory `PARTS` of an output.
    """
    files = [OutputFile(*row) for row in rows]
    for file in files:
        types = tuple(map(type, file))
        if types != (str, int, str, int, str) or file.bucket < 0 or file.rows < 0:
            raise ValueError(f"{file!r:.200} is not a file")
        name = re.split(r"[/\\]", file.path)[-1]
        expected = rf"{re.escape(file.kind)}-[0-9a-f]{{32}}"
        inside = file.path == FileSystems.join(directory, PARTS, name)
        if not (inside and re.fullmatch("[a-z]+", file.kind) and re.fullmatch(expected, name)):
            raise ValueError(f"{file.path!r:.200} is not a file of {directory}/{PARTS}")
    return files


def _curve(values: dict[str, Any]) -> ExaminationCurve:
    """Parses the curve of a manifest; raises `ValueError` if a value is impossible."""
    propensities = tuple(map(float, values["propensities"]))
    if not propensities or not all(0 < value <= 1 for value in propensities):
        raise ValueError("a propensity is not above 0 and at most 1")
    intervals = tuple((float(low), float(high)) for low, high in values["intervals"])
    basis = {str(name): int(count) for name, count in values["basis"].items()}
    return ExaminationCurve(
        propensities, intervals, str(values["method"]), basis, str(values["problem"])
    )

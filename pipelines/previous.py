"""The texts of an earlier output of preprocess; queries and titles not among them are new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.data.format import SPEC, file_name
from dssm_tf.tables.text_columns import fingerprints, normal_forms
from dssm_tf.text.rules import TextRules
from pipelines.options import PreprocessOptions
from pipelines.output import REPORT_JSON, open_bytes

_FLAG = "--previous-report"


class PreviousTables(NamedTuple):
    """The tables of texts of an earlier output.

    Args:
        directory: directory of the output, on any file system that Beam supports.
        files: number of files of each kind of texts, a power of two, by kind.
    """

    directory: str
    files: dict[str, int]

    def fingerprints(self, kind: str, bucket: int, bits: int, rules: TextRules) -> pl.Series:
        """The fingerprints of the texts of a bucket.

        File K of an output has the fingerprints whose first bits are K, so only the files that
        overlap with the bucket are read.

        Args:
            kind: `queries` or `titles`.
            bucket: the first bits of the fingerprints.
            bits: number of these bits.
            rules: the rules by which texts are normalized.

        Raises:
            UserError: a file cannot be read.
        """
        count = self.files[kind]
        first = (bucket * count) >> bits
        end = max(((bucket + 1) * count) >> bits, first + 1)
        texts = [pl.Series("text", [], pl.String)]
        for number in range(first, end):
            path = FileSystems.join(self.directory, file_name(kind, number, count))
            try:
                with open_bytes(path) as file:
                    texts.append(pl.read_parquet(file.read(), columns=["text"])["text"])
            except (BeamIOError, OSError, pl.exceptions.PolarsError) as error:
                raise UserError(f"{_FLAG}: {path} cannot be read: {error}.") from None
        return fingerprints(normal_forms(pl.concat(texts), rules))


class PreviousReport(NamedTuple):
    """An earlier output of preprocess.

    Args:
        report: content of its `report.json`.
        tables: its tables of texts.
    """

    report: dict[str, Any]
    tables: PreviousTables


def load_previous(options: PreprocessOptions) -> PreviousReport | None:
    """Reads the report and the spec of `--previous-report`; None without the flag.

    Raises:
        UserError: the directory is not an output of preprocess, its report does not describe a log,
            or it was written with another `--keep-accents` or `--title-fields`.
    """
    directory = options.previous_report
    if not directory:
        return None
    report, spec = (_load(directory, name) for name in (REPORT_JSON, SPEC))
    if not isinstance(report.get("log"), dict):
        raise UserError(
            f"{_FLAG} {directory}: {REPORT_JSON} does not describe a log; give an output of "
            "preprocess that has --input, written by this version."
        )
    try:
        rules, title_fields = TextRules.from_json(spec["rules"]), tuple(spec["title_fields"])
        files = {kind: len(spec["rows"][kind]) for kind in ("queries", "titles")}
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{_FLAG} {directory}: {SPEC} is damaged: {error}.") from None
    for flag, earlier, now in (
        ("--keep-accents", rules.keep_accents, options.keep_accents),
        ("--title-fields", _joined(title_fields), _joined(options.fields)),
    ):
        if earlier != now:
            raise UserError(
                f"{_FLAG} {directory} was written with {flag} {earlier}, and this log is read with "
                f"{now}, so their texts cannot be compared; use the same {flag}."
            )
    return PreviousReport(report, PreviousTables(directory, files))


def _joined(fields: Sequence[str]) -> str:
    return ",".join(map(str, fields))


def _load(directory: str, name: str) -> dict[str, Any]:
    path = FileSystems.join(directory, name)
    try:
        with open_bytes(path) as file:
            content = json.loads(file.read())
    except (BeamIOError, OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{_FLAG}: {path} cannot be read ({error}); expected a directory that preprocess wrote."
        ) from None
    if not isinstance(content, dict):
        raise UserError(f"{_FLAG}: {path} is not a JSON object.")
    return content

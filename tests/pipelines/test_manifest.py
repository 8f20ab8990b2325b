"""Manifests that workers send to the launcher, and files of other programs in the output."""

from __future__ import annotations

import json
import os
import pickle
import re
from hashlib import sha256
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.tables.layout import Reject
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import launcher
from pipelines.log_statistics import LogStatistics, TextExample
from pipelines.manifest import MANIFEST, OutputManifest, load_rejects, rejects_as_json
from pipelines.output import PARTS
from pipelines.shards import OutputFile

LOG = "query\ttitle\tclicks\n" + "".join(f"q{n}\tt{n % 7}\t{1 + n % 3}\n" for n in range(30))
UNIQUE = "0123456789abcdef" * 2


class Program:
    """Runs a shell command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def manifest(directory: Path, path: str = "") -> OutputManifest:
    file = OutputFile("titles", 0, path or f"{directory}/{PARTS}/titles-{UNIQUE}", 3, "0" * 64)
    curve = ExaminationCurve((1.0, 0.1 + 0.2), ((1.0, 1.0), (0.25, 0.5)), "harvesting", {"q": 3})
    rules = TextRules(keep_accents=True, letter_ngrams=("pairs", "trigrams"))
    statistics = LogStatistics()
    statistics.count({"new queries": 2**60})
    statistics.add_examples("titles", [TextExample(3, ("é", "É"), 2)])
    vocabulary = Vocabulary(["#a", "#é#"], rules)
    return OutputManifest({"rows: read": 2**60}, vocabulary, [file], [], curve, statistics)


def write_manifest(directory: Path, changes: dict[str, object]) -> None:
    (directory / PARTS).mkdir()
    manifest(directory).save(str(directory))
    path = directory / PARTS / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    write_manifest(tmp_path, {})
    loaded, expected = OutputManifest.load(str(tmp_path)), manifest(tmp_path)
    assert loaded.vocabulary.ngrams == expected.vocabulary.ngrams
    assert loaded.vocabulary.rules == expected.vocabulary.rules
    assert loaded._replace(vocabulary=None) == expected._replace(vocabulary=None)


def test_rejects_are_read_as_they_were_written_even_with_lone_surrogates(tmp_path):
    rejects = [Reject(3, "no title", "a\tb\udce9", None, "détail"), Reject(4, "bad", "", 2**60)]
    data = rejects_as_json(rejects)
    (tmp_path / "rejects").write_bytes(data)
    file = OutputFile("rejects", 0, str(tmp_path / "rejects"), 3, sha256(data).hexdigest())
    assert load_rejects(file) == rejects
    with pytest.raises(UserError, match="rejects does not match its checksum"):
        load_rejects(file._replace(digest="0" * 64))


@pytest.mark.parametrize(
    "content",
    [
        "3", "[3]", "[[]]", "[" * 100_000, '[{"line": 3}]',
        *(
            json.dumps([{"line": 3, "reason": "bad", "text": "a", "clicks": 1} | wrong])
            for wrong in (
                {"line": "3"}, {"line": True}, {"line": 0}, {"reason": None}, {"text": ["a"]},
                {"clicks": 2.5}, {"clicks": -1}, {"detail": 1}, {"more": 1},
            )
        ),
    ],
)  # fmt: skip
def test_rejects_with_wrong_fields_and_a_fitting_checksum_are_refused(tmp_path, content):
    (tmp_path / "rejects").write_text(content)
    digest = sha256(content.encode()).hexdigest()
    file = OutputFile("rejects", 0, str(tmp_path / "rejects"), 3, digest)
    with pytest.raises(UserError, match=r"rejects is not a list of rows \(") as caught:
        load_rejects(file)
    assert "\n" not in str(caught.value)


def test_rejects_of_a_piece_that_the_log_does_not_have_are_refused():
    with pytest.raises(UserError, match="names piece 1 of 0"):
        list(launcher.with_file_lines({}, [], [(1, [Reject(1, "bad", "a")])]))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "{0}/titles-" + UNIQUE, "{0}/parts/../titles-" + UNIQUE,
        "{0}/parts/x/titles-" + UNIQUE, "{0}/parts/manifest", "{0}/parts/titles-0",
        "gs://other/parts/titles-" + UNIQUE,
    ],
)  # fmt: skip
def test_a_manifest_names_files_of_its_output_only(tmp_path, path):
    write_manifest(tmp_path, {"files": [["titles", 0, path.format(tmp_path), 3, "0" * 64]]})
    with pytest.raises(UserError, match=r"is not a manifest .*is not a file of"):
        OutputManifest.load(str(tmp_path))


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": {"rows: read": "2"}}, {"counts": 3}, {"rules": {"max_words": 2**60}},
        {"ngrams": ["#a", "#a"]}, {"files": [[1, 2]]}, {"files": 1}, {"curve": {}},
        {"curve": [1]}, {"rejects": [["rejects", -1, "x", 0, ""]]},
    ],
)  # fmt: skip
def test_a_manifest_with_impossible_values_is_refused_in_one_line(tmp_path, changes):
    write_manifest(tmp_path, changes)
    with pytest.raises(UserError, match=r"is not a manifest \(") as caught:
        OutputManifest.load(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_pickle_planted_in_the_output_is_not_executed(error_of_run, tmp_path, monkeypatch):
    executed, run = tmp_path / "executed", launcher.run

    def run_and_plant(*arguments, **options):
        run(*arguments, **options)
        (path,) = tmp_path.glob(f".*.incomplete/{PARTS}/{MANIFEST}")
        path.write_bytes(pickle.dumps(Program(f"touch {executed}")))

    monkeypatch.setattr(launcher, "run", run_and_plant)
    assert "manifest is not JSON" in error_of_run(log=LOG)
    assert not executed.exists()


def test_no_code_of_the_package_unpickles():
    root = Path(launcher.__file__).parents[1]
    files = [
        file
        for name in ("dssm_tf", "pipelines", "serving", "examples")
        for file in (root / name).rglob("*.py")
    ]
    assert len(files) > 200
    modules = r"\b(pickle|_pickle|cPickle|cloudpickle|dill|joblib|shelve|marshal)\b"
    calls = (rf"(import|from) +{modules}|import_module\(.{modules}|allow_pickle=True|read_pickle|"
             r"\bpickle\.load|torch\.load|hub\.load|keras\.(models\.|saving\.)load_model|"
             r"enable_unsafe_deserialization|safe_mode=False|trust_remote_code=True|"
             r"yaml\.(unsafe_|full_)?load\(|UnsafeLoader|FullLoader|layers\.Lambda\b")  # fmt: skip
    allowed = {("plain_data.py", "yaml.load(")}  # with its own safe loader
    matches = {
        (file.name, match[0]) for file in files for match in re.finditer(calls, file.read_text())
    }
    assert matches <= allowed

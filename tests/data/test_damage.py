"""What a directory of records, a run or a configuration holds: read, or refused in one line."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import yaml

from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import FEATURES
from dssm_tf.model.run_files import mark_finished
from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.clicks import Data, click_log, frames, seal, write_data, write_records
from tests.damage import mangled, odd_json
from tests.runs import finished_run

CONFIG = {"tower": {"name": "dssm", "widths": [6]}, "training": {"xla": False}}
SECONDS = 30  # for a case


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Data:
    return write_data(tmp_path_factory.mktemp("damage") / "data", click_log(24), shards=1)


@pytest.fixture
def data(good, tmp_path) -> Path:
    return Path(shutil.copytree(good.path, tmp_path / "data"))


@contextmanager
def in_time():
    def too_long(*_):
        raise TimeoutError(f"it took more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def read_or_refused(read: Callable[[], object]) -> bool:
    """Whether it was read; any error but a UserError of one line fails the test."""
    try:
        with in_time():
            read()
    except UserError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")
        return False
    return True


def read_log(directory: Path) -> Preprocessed:
    """Whatever an evaluation reads of it, and more."""
    data = Preprocessed(directory)
    data.log()
    _ = data.titles, data.clicked_titles, data.vocabulary
    return data


def read_all(directory: Path) -> None:
    """Whatever a training reads of it; that takes a second."""
    data = read_log(directory)
    options = BatchOptions(batch_size=8, negatives=2, logq=0.5, length_buckets=(3,))
    with data.explained():
        for _ in ClickBatches(data, ("train",), options).epoch(seed=1):
            pass


def contents(path: Path, random: Random, number: int) -> list[bytes]:
    raw = path.read_bytes()
    if path.suffix == ".json":
        return [*odd_json(json.loads(raw), random, number), *mangled(raw, random)]
    found = list(mangled(raw, random))
    lines = raw.split(b"\n")
    for odd in (b"\xff\xfe", b"-1", b"9" * 400, b"a\tb\tc\td", b"title\t1e9\t2", b"\x00" * 50):
        changed = [*lines]
        changed[random.randrange(len(lines))] = odd
        found.append(b"\n".join(changed))
    return found


FILES = (
    "feature_spec.json", "record_counts.json", "vocabulary.txt", "titles.tsv",
    "clicked_titles.tsv.gz",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_beside_the_records_is_one_line(data, name):
    for content in contents(data / name, Random(name), 30):
        (data / name).write_bytes(content)
        seal(data)  # as if somebody had written it so
        read_or_refused(lambda: read_log(data))


def test_any_flipped_bit_beside_the_records_is_told(data):
    random = Random(0)
    for name in FILES:
        whole = (data / name).read_bytes()
        raw = bytearray(whole)
        raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
        (data / name).write_bytes(raw)
        with pytest.raises(UserError, match=f"{name} is damaged or was changed"):
            Preprocessed(data)
        (data / name).write_bytes(whole)


def odd_record(record: bytes, random: Random) -> bytes:
    """A record whose checksum is right and in which one list is another."""
    example = Example.FromString(record)
    name = random.choice(sorted(FEATURES))
    values = getattr(example.features.feature[name], f"{FEATURES[name].kind}_list").value
    kind = random.choice(["shorter", "longer", "none", "far", "negative", "other"])
    if kind == "shorter":
        del values[len(values) // 2 :]
    elif kind == "longer":
        values.extend(list(values) or [b"" if FEATURES[name].kind == "bytes" else 1])
    elif kind == "none":
        del values[:]
    elif kind == "other":
        example.features.feature[name].bytes_list.value[:] = [b"\xff\xfe"]
    elif FEATURES[name].kind == "bytes":
        values[:] = [b"\xff\xfe" * 9]
    else:
        values[:] = [(10**9 if kind == "far" else -3)] * max(len(values), 1)
    return example.SerializeToString()


def records_of(path: Path) -> list[bytes]:
    raw = gzip.decompress(path.read_bytes())
    return [raw[start:stop] for start, stop in frames(raw)]


def damaged_records(data: Path, seed: int, number: int) -> None:
    shard = next(data.glob("train-*"))
    random, records = Random(seed), records_of(shard)
    refused = 0
    for _ in range(number):
        changed = [*records]
        place = random.randrange(len(records))
        changed[place] = odd_record(records[place], random)
        write_records(shard, changed)
        refused += not read_or_refused(lambda: read_all(data))
    assert refused > number / 3  # others change what a record says and not whether it fits


def test_records_whose_counts_do_not_fit_are_one_line(data):
    damaged_records(data, seed=0, number=9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_records_whose_counts_do_not_fit_are_one_line(data, seed):
    damaged_records(data, seed, number=200)


def test_a_record_whose_counts_do_not_fit_is_named(data):
    shard = next(data.glob("train-*"))
    records = records_of(shard)
    example = Example.FromString(records[2])
    example.features.feature["title_word_ngrams"].int64_list.value[0] += 1
    records[2] = example.SerializeToString()
    write_records(shard, records)
    with pytest.raises(UserError, match=r"train-.*gz: record 3 is no record of preprocess"):
        read_all(data)


@pytest.fixture
def run(good, tmp_path) -> Path:
    return finished_run(tmp_path / "run", good, CONFIG)


def test_any_flipped_bit_in_a_file_of_a_run_is_told(run):
    random = Random(0)
    for path in sorted(run.iterdir()):
        if not path.is_file() or path.name in ("MODEL_CARD.md", "versions.json"):
            continue
        whole = path.read_bytes()
        for _ in range(3):
            raw = bytearray(whole)
            raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
            path.write_bytes(raw)
            with pytest.raises(UserError, match=r"is damaged|was changed|does not exist"):
                SemanticRanker.load(run)
        path.write_bytes(whole)
    SemanticRanker.load(run)


@pytest.mark.parametrize("name", ["ranking.json", "feature_spec.json", "titles.tsv", "config.yaml"])
def test_a_damaged_file_of_a_run_is_one_line(run, name):
    random = Random(name)
    found = contents(run / name, random, 12)
    if name == "config.yaml":
        found = list(odd_json(yaml.safe_load((run / name).read_text()), random, 25))  # JSON is YAML
    for content in found:
        (run / name).write_bytes(content)
        mark_finished(run)  # as if a training had written it so
        if name == "config.yaml":
            read_or_refused(lambda: load_config(run / name))
        else:
            read_or_refused(lambda: SemanticRanker.load(run))

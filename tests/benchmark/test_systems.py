"""The systems of a benchmark: names, seeds, parameters and jobs."""

import pytest
import yaml
from pydantic import Field

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.benchmark.systems import choose_systems, shipped_configs
from dssm_tf.common import versions as versions_module
from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import PositiveInt, Seed
from dssm_tf.common.versions import digest, versions
from dssm_tf.systems import BASELINES


def job_digest(system, seed=0):
    return digest(system.job(seed, "map"))


CONFIG = {"tower": {"name": "dssm", "widths": [4]}, "training": {"epochs": 2}}


class Random(BM25):
    """A baseline with a seed."""

    name = "random"
    topics: PositiveInt = Field(default=10, description="Number of topics.")
    seed: Seed = Field(default=0, description="Seed of everything.")


class Weighted(Random):
    """A baseline that inherits parameters."""

    name = "weighted"
    weight: float = Field(default=0.5, description="Weight of something.")


@pytest.fixture(autouse=True)
def random_baseline(monkeypatch):
    monkeypatch.setitem(BASELINES, "random", Random)
    monkeypatch.setitem(BASELINES, "weighted", Weighted)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(CONFIG), "utf-8")
    return str(path)


def names(*arguments, **options):
    return [system.name for system in choose_systems(*arguments, **options)]


def test_groups_contain_every_baseline_and_every_shipped_configuration():
    assert names(["baselines"]) == list(BASELINES)
    assert names(["towers"]) == shipped_configs()
    assert names(["all"]) == ["popularity", *BASELINES, *shipped_configs()]
    assert names(["lstm", "bm25", "lstm"]) == ["lstm", "bm25"]  # as named, once
    assert {"dssm", "lstm"} <= set(shipped_configs())
    assert shipped_configs()[0] == "maxsim"  # the recommended one


def test_only_random_systems_have_seeds(config):
    rows = choose_systems(["bm25", "random", "weighted", f"mine={config}"])
    assert {row.name: row.seeded for row in rows} == {
        "bm25": False,
        "random": True,
        "weighted": True,
        "mine": True,
    }
    digests = {job_digest(rows[1], seed) for seed in (0, 1)}
    assert len(digests) == 2


def test_a_baseline_that_contains_another_has_its_seed_and_parameters():
    (row, swept) = choose_systems(["dse+tfidf"], sweeps=["dse+tfidf.size=32"])
    assert row.seeded
    assert swept.parameters == {"size": 32}


def test_a_configuration_can_be_a_new_row_or_replace_a_shipped_one(config):
    assert names(["bm25", f"mine={config}"]) == ["bm25", "mine"]
    (system,) = choose_systems(["lstm", f"lstm={config}"])
    assert yaml.safe_load(system.base)["tower"]["name"] == "dssm"
    assert names([config]) == ["mine"]


def test_the_papers_configurations_are_rows_and_can_be_swept_under_a_short_name():
    rows = choose_systems(["paper/lstm-32", "p16=paper/lstm-96"], ["p16.negatives.recorded=2,8"])
    assert [(row.name, row.negatives) for row in rows] == [
        ("paper/lstm-32", 4),
        ("p16", 4),
        ("p16.negatives.recorded=2", 4),
        ("p16.negatives.recorded=8", 8),
    ]


def test_overrides_change_every_configuration_and_its_job(config):
    (plain,) = choose_systems([f"mine={config}"])
    (short,) = choose_systems([f"mine={config}"], overrides=["training.epochs=1"])
    assert yaml.safe_load(short.base)["training"]["epochs"] == 1
    digests = [job_digest(system) for system in (plain, short)]
    assert digests[0] != digests[1]


@pytest.mark.parametrize("package", ["dssm-tf", "keras", "numpy", "apache-beam"])
def test_a_resumed_benchmark_never_mixes_versions(config, monkeypatch, package):
    rows = choose_systems(["bm25", f"mine={config}"])
    before = [job_digest(row) for row in rows]
    assert [job_digest(row) for row in rows] == before
    monkeypatch.setattr(versions_module, "versions", lambda: {**versions(), package: "0.0"})
    after = [job_digest(row) for row in rows]
    assert not set(before) & set(after)


def test_a_sweep_adds_one_row_per_value(config):
    rows = choose_systems(
        ["bm25", f"mine={config}"],
        ["mine.tower.widths=[4],[8,4]", "random.topics=5,50"],
    )
    assert [row.name for row in rows] == [
        "bm25",
        "mine",
        "mine.tower.widths=[4]",
        "mine.tower.widths=[8,4]",
        "random.topics=5",
        "random.topics=50",
    ]
    assert yaml.safe_load(rows[3].base)["tower"]["widths"] == [8, 4]
    assert rows[5].parameters == {"topics": 50}
    assert rows[5].sweep == ("topics", 50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (["bm52"],),
            r"no system 'bm52'; expected a configuration file or one of bm25, .*mean 'bm25'\?",
        ),
        (
            (["bm25", "mine=nowhere"],),
            "no system 'nowhere'; expected a configuration file or one of",
        ),
        (
            (["bm25"], ["bm25.c=1"]),
            r"bm25 has no parameter 'c'; it has k1, b\.$",
        ),
        (
            (["bm25"], ["bm25.k=1"]),
            r"bm25 has no parameter 'k'; it has k1, b\. Did you mean 'k1'\?",
        ),
        ((["bm25"], ["weighted.cells=2"]), "weighted has no parameter 'cells'"),
        (
            (["bm25"], ["random.topics=0,1"]),
            "random: topics is 0; it should be greater than or equal to 1",
        ),
        ((["bm25"], ["bm25.k1"]), "SYSTEM.KEY=V1,V2"),
        ((["bm25"], ["bm25=1"]), "SYSTEM.KEY=V1,V2"),
        ((["bm25"], ["nobody.k1=1"]), "SYSTEM one of bm25"),
        ((["bm25"], ["lstm.tower.sells=1"]), "tower.sells is not a key"),
        ((["lstm"], [], ["gamma"]), "KEY=VALUE"),
    ],
)
def test_unknown_systems_and_parameters_are_refused_before_any_fit(arguments, message):
    with pytest.raises(UserError, match=message):
        choose_systems(*arguments)

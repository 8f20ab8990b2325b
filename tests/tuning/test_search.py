"""The settings of a search, and the errors that are reported before any training."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from dssm_tf.common.errors import UserError
from dssm_tf.tuning.search import Search, format_settings, parse_space
from tests.conftest import CHECKOUT


def search(folder, *grid, **options) -> Search:
    return Search(str(folder / "mine.yaml"), grid, **options)


def test_a_grid_has_every_combination_and_the_last_key_varies_fastest(folder):
    grid = search(folder, "loss.gamma=5,10", "tower.widths=[4],[4, 2]")
    assert [format_settings(setting) for setting in grid.settings] == [
        ["loss.gamma=5", "tower.widths=[4]"],
        ["loss.gamma=5", "tower.widths=[4, 2]"],
        ["loss.gamma=10", "tower.widths=[4]"],
        ["loss.gamma=10", "tower.widths=[4, 2]"],
    ]
    assert grid.trial_config(grid.settings[3]).tower.widths == (4, 2)


def test_a_number_from_a_range_is_rounded_to_three_digits(folder):
    random_search = search(
        folder, "optimizer.learning_rate=log:0.001:0.1", "loss.gamma=5,9", random=5
    )
    setting = {"optimizer.learning_rate": 0.012345, "loss.gamma": "9"}
    assert random_search.trial_config(setting).optimizer.learning_rate == 0.0123
    # `check` tries the bounds of each range and the values of each list.
    assert [format_settings(sample) for sample in random_search.settings] == [
        ["optimizer.learning_rate=0.001", "loss.gamma=5"],
        ["optimizer.learning_rate=0.1", "loss.gamma=5"],
        ["optimizer.learning_rate=0.001", "loss.gamma=5"],
        ["optimizer.learning_rate=0.001", "loss.gamma=9"],
    ]


def test_trials_run_without_refit_and_the_monitored_metric_compares_them(folder):
    grid = search(
        folder, "loss.gamma=5", overrides=["training.monitor=ndcg@1", "training.epochs=7"]
    )
    (setting,) = grid.settings
    trial = grid.trial_config(setting).training
    assert (trial.refit, trial.monitor, trial.epochs) == (False, "ndcg@1", 7)
    assert grid.build_config().training.refit is True
    assert grid.metric == "ndcg@1"
    by_loss = search(folder, "loss.gamma=5", overrides=["training.monitor=val_loss"])
    assert by_loss.metric == "ndcg@10"
    assert search(folder, "loss.gamma=5").metric == "ndcg@10"


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        (
            ["gama=5"],
            {},
            "--grid, at gama=5: --set gama=5: gama is not a key; allowed here: tower, ",
        ),
        (
            ["loss.gamma=5,-1"],
            {},
            "at loss.gamma=-1: --set loss.gamma=-1: loss.gamma: input should be greater than 0",
        ),
        (
            ["loss.gamma=-1:5"],
            {"tpe": 3},
            "at loss.gamma=-1: --set loss.gamma=-1: loss.gamma: input should be",
        ),
        (["loss.gamma=5:20"], {}, "add --random N or --tpe N"),
        (["loss.gamma=20:5"], {"random": 1}, "--grid 'loss.gamma=20:5': "),
        (["loss.gamma=log:0:5"], {"random": 1}, "expected KEY=V1,V2,..., KEY=LOW:HIGH or"),
        (["loss.gamma=5:20,30"], {"random": 1}, "a list cannot contain a range"),
        (["loss.gamma"], {}, "--grid 'loss.gamma': "),
        (["loss.gamma=5", "loss.gamma=6"], {}, "the key is given twice"),
        (["loss.gamma=5"], {"overrides": ["loss.gamma=6"]}, "because --set gives its value"),
        (["training.seed=1,2"], {"seeds": 2}, "because --seeds changes it"),
        (["training.refit=true,false"], {}, "training.refit cannot be tried"),
        (["validation.queries=5,10"], {}, "validation cannot be tried"),
        (["training.folds=null,5"], {}, "trials would not be comparable"),
        (["loss.gamma=5"], {"overrides": ["judgments.file=no.tsv"]}, "there is no file no.tsv."),
    ],
)
def test_keys_and_values_are_checked_before_any_training(folder, grid, options, message):
    with pytest.raises(UserError) as error:
        search(folder, *grid, **options).check()
    assert message in str(error.value)


def test_a_range_is_not_read_as_a_yaml_number_in_base_60():
    assert parse_space(["loss.gamma=5:20"])["loss.gamma"].high == 20


def test_a_range_is_of_integers_if_both_bounds_are():
    distributions = [parse_space([f"x={bounds}"])["x"] for bounds in ("1:4", "1:4.5", "0.5:4")]
    assert distributions == [
        IntDistribution(1, 4),
        FloatDistribution(1, 4.5),
        FloatDistribution(0.5, 4),
    ]


def test_the_tuning_commands_of_the_docs_are_valid():
    pages = ((CHECKOUT / "docs" / name).read_text("utf-8") for name in ("tuning.md", "training.md"))
    guide = "\n".join(pages).replace("\\\n", " ")
    commands = [
        shlex.split(line) for line in guide.splitlines() if line.startswith("    dssm tune ")
    ]
    assert any("paper/lstm-96" in words for words in commands)
    for words in commands:
        pairs = list(pairwise(words))
        grid = [value for word, value in pairs if word == "--grid"]
        numbers = {word[2:]: int(value) for word, value in pairs if word in ("--random", "--tpe")}
        overrides = [value for word, value in pairs if word == "--set"]
        config = next(value for word, value in pairs if word == "--config")
        Search(config, grid, overrides=overrides, **numbers).check()


def test_pruning_is_refused_with_folds_which_have_no_metric_before_the_last_epoch(folder):
    with pytest.raises(UserError, match=r"--prune compares metrics after each epoch.*folds=null"):
        search(folder, "loss.gamma=5,10", overrides=["training.folds=2"], prune=True).check()


def test_numbers_inside_a_range_and_zero_have_no_warning(folder):
    ranged = search(folder, "loss.gamma=log:1.0:100.0", "tower.dropout=0,0.5", random=3)
    # The logarithm of 95 is at .989 of the range, that of 10 in the middle.
    assert len(ranged.edge_warnings({"loss.gamma": 95.0, "tower.dropout": "0"})) == 1
    assert ranged.edge_warnings({"loss.gamma": 10.0, "tower.dropout": "0"}) == []
    (line,) = ranged.edge_warnings({"loss.gamma": 10.0, "tower.dropout": "0.5"})
    assert line.startswith("WARNING: tower.dropout=0.5 is at the edge")

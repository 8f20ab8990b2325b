"""Which trials a request plans, and what is refused before any is trained."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.losses import LOSSES
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.tune import tune
from tests.tuning.requests import request


def test_trials_hold_the_settings_as_the_configuration_reads_them(folder):
    plan = make_plan(
        request(folder, "optimizer.learning_rate=1e-3,0.01", overrides=["training.epochs=7"])
    )
    assert [dict(trial.settings) for trial in plan.trials] == [
        {"optimizer.learning_rate": 0.001},
        {"optimizer.learning_rate": 0.01},
    ]
    assert [trial.config.optimizer.learning_rate for trial in plan.trials] == [0.001, 0.01]
    assert {trial.config.training.epochs for trial in plan.trials} == {7}


def test_trials_run_without_refit_and_the_plan_remembers_it(folder):
    plan = make_plan(request(folder, "loss.gamma=5,10"))
    assert plan.refit is True
    assert {trial.config.training.refit for trial in plan.trials} == {False}
    for choice, kept in (("false", False), ("continue", "continue")):
        overrides = [f"training.refit={choice}"]
        assert make_plan(request(folder, "loss.gamma=5", overrides=overrides)).refit == kept


def test_the_metric_also_chooses_the_epoch_unless_the_user_says_otherwise(folder):
    plan = make_plan(request(folder, "loss.gamma=5", metric="ndcg@1"))
    assert (plan.metric, plan.trials[0].config.training.monitor) == ("ndcg@1", "ndcg@1")
    own = request(folder, "loss.gamma=5", metric="ndcg@1", overrides=["training.monitor=loss"])
    assert make_plan(own).trials[0].config.training.monitor == "loss"
    assert make_plan(request(folder, "loss.gamma=5")).metric == "ndcg@10"


def test_equal_settings_are_one_trial(folder):
    plan = make_plan(request(folder, "loss.gamma=5,10,5.0"))
    assert [trial.settings["loss.gamma"] for trial in plan.trials] == [5, 10]


def test_random_trials_are_as_many_as_asked_for_or_all_there_are(folder):
    plan = make_plan(request(folder, "loss.gamma=5:6", random=9))
    assert sorted(trial.settings["loss.gamma"] for trial in plan.trials) == [5, 6]
    plan = make_plan(request(folder, "loss.gamma=5:50", random=9, seed=3))
    assert len({trial.settings["loss.gamma"] for trial in plan.trials}) == 9
    again = make_plan(request(folder, "loss.gamma=5:50", random=20, seed=3))
    assert again.trials[:9] == plan.trials


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        (["gama=5"], {}, "at gama=5: "),
        (["gama=5"], {}, "gama is not a key; allowed here: tower, "),
        (["loss.gamma=5,-1"], {}, "at loss.gamma=-1: "),
        (["loss.gamma=5,-1"], {}, "loss.gamma: input should be greater than 0, or input"),
        (["tower.widths=[6.5]"], {}, "tower.widths.0: "),
        (["loss.gamma=5:20"], {}, "add --random N, or list the values"),
        (["loss.gamma=5"], {"seed": 1}, "--seed is of random draws"),
        (["loss.gamma=5"], {"random": 0}, "from 1 to 1,000"),
        (["loss.gamma=5"], {"metric": "mrr"}, "choose from ndcg@1, ndcg@3, ndcg@10, loss"),
        (["loss.gamma=5"], {"overrides": ["loss.gamma=6"]}, "loss.gamma is in --grid and in --set"),
        (["training.refit=true,false"], {}, "no validation records are left"),
        (["validation.queries=5,10"], {}, "it says what the trials are compared on"),
        (
            ["training.batch_size=8,16"],
            {"metric": "loss"},
            "their losses cannot be compared",
        ),
        ([f"training.seed={','.join(map(str, range(1001)))}"], {}, "1,001 settings are more"),
        ([], {}, "nothing to tune"),
        (
            ["loss.gamma=5"],
            {"overrides": ["judgments.file=nowhere.tsv"]},
            "judgments.file: there is no file nowhere.tsv.",
        ),
    ],
)
def test_what_cannot_be_tried_is_an_error_before_anything_is_trained(
    folder, grid, options, message
):
    with pytest.raises(UserError) as error:
        make_plan(request(folder, *grid, **options))
    assert message in str(error.value)


def test_different_losses_are_not_compared(folder, monkeypatch):
    monkeypatch.setitem(LOSSES, "other", LOSSES["click_softmax"])
    with pytest.raises(UserError, match=r"the trials differ in loss\.name"):
        make_plan(request(folder, "loss.name=click_softmax,other", metric="loss"))


def test_losses_of_other_margins_are_not_compared(folder):
    hinge = ["loss={name: hinge}"]
    with pytest.raises(UserError, match=r"the trials differ in loss\.name or margin"):
        make_plan(request(folder, "loss.margin=0.01,0.2", metric="loss", overrides=hinge))
    assert len(make_plan(request(folder, "loss.margin=0.01,0.2", overrides=hinge)).trials) == 2


def test_trials_with_and_without_folds_are_not_compared(folder):
    with pytest.raises(UserError, match=r"--grid training\.folds: it says what the trials are"):
        make_plan(request(folder, "training.folds=null,5"))


def test_losses_over_the_same_titles_are_compared(folder):
    plan = make_plan(request(folder, "loss.gamma=5,10", metric="loss"))
    assert plan.metric == "loss"
    recorded = ["negatives.in_batch=false", "negatives.recorded=2"]
    sizes = request(folder, "training.batch_size=8,16", metric="loss", overrides=recorded)
    assert len(make_plan(sizes).trials) == 2


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("optimizer.name=adam,bogus", "bogus"),
        ("negatives.recorded=2,9", "negatives.recorded: 9 asked for"),
        ("negatives.in_batch=true,false", "the click needs rivals"),
    ],
)
def test_what_training_would_refuse_is_refused_before_the_first_trial(folder, grid, message):
    out = folder / "refused"
    with pytest.raises(UserError) as error:
        tune(make_plan(request(folder, grid)), folder / "data", out)
    assert message in str(error.value)
    assert not out.exists()

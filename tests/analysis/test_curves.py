"""`dssm curves`: one line a run, from histories as `dssm train` writes them."""

import json

import pytest

from dssm_tf.analysis.curves import curves
from dssm_tf.common.errors import UserError


@pytest.fixture
def runs(tmp_path):
    for name, losses in {"rnn": [2.0, 1.0, 0.5], "lstm": [1.8, 0.6]}.items():
        (tmp_path / name).mkdir()
        history = [{"loss": loss, "val_loss": 2 * loss} for loss in losses]
        (tmp_path / name / "history.json").write_text(json.dumps(history))
    return tmp_path


def drawn(monkeypatch):
    """The lines that are drawn, by their legend, and the kind of their axis."""
    from matplotlib.axes import Axes

    lines, scales = {}, []
    plot = Axes.plot
    scale = Axes.set_yscale

    def recorded(axis, x, y, **options):
        lines[options["label"]] = list(zip(x, y, strict=True))
        return plot(axis, x, y, **options)

    def scaled(axis, kind, *rest, **options):
        scales.append(kind)
        return scale(axis, kind, *rest, **options)

    monkeypatch.setattr(Axes, "plot", recorded)
    monkeypatch.setattr(Axes, "set_yscale", scaled)
    return lines, scales


def test_each_run_is_a_line_over_its_epochs_on_a_logarithmic_axis(runs, monkeypatch):
    lines, scales = drawn(monkeypatch)
    curves({"rnn": runs / "rnn", "LSTM-RNN": runs / "lstm"}, "loss", runs / "curves.png")
    assert lines == {"rnn": [(1, 2.0), (2, 1.0), (3, 0.5)], "LSTM-RNN": [(1, 1.8), (2, 0.6)]}
    assert scales == ["log"]
    assert (runs / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_logarithmic_axis_has_plain_labels(runs, monkeypatch):
    from matplotlib.figure import Figure

    labels = []
    save = Figure.savefig

    def saved(figure, *rest, **options):
        save(figure, *rest, **options)
        labels.extend(label.get_text() for label in figure.axes[0].get_yticklabels(which="both"))

    monkeypatch.setattr(Figure, "savefig", saved)
    curves({"rnn": runs / "rnn"}, "loss", runs / "curves.png")
    assert {"0.5", "1", "2"} <= set(labels)  # losses from 0.5 to 2
    assert not any("10^" in label or "e" in label for label in labels)


def test_a_metric_the_history_lacks_is_named_with_those_it_has(runs):
    with pytest.raises(UserError, match=r"no metric 'ndcg@10'; it has loss, val_loss"):
        curves({"rnn": runs / "rnn"}, "ndcg@10", runs / "curves.png")
    assert not (runs / "curves.png").exists()


def test_an_unfinished_run_is_explained(runs):
    with pytest.raises(UserError, match=r"history.json cannot be read .* `dssm train` finished"):
        curves({"missing": runs / "missing"}, "loss", runs / "curves.png")

"""`dssm skip-thought` and the baseline that ranks with what it wrote."""

import io

import numpy as np
import pytest
from rich.console import Console

from dssm_tf.baselines.skip_thought.published_weights import load_vectors
from dssm_tf.baselines.skip_thought.training import TrainingOptions
from dssm_tf.cli import main
from dssm_tf.commands import skip_thought as skip_thought_command
from dssm_tf.commands.evaluate import evaluate_command
from dssm_tf.commands.skip_thought import encode_command, train_command
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import Judgment, write_judgments

TEXT = "The red kettle boils. A blue rug lies there.\nOak tables are heavy. Red rugs fade.\n"
SIZES = {"units": 6, "word_units": 5, "max_steps": 2, "epochs": 1}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """An encoder of the smallest kind, made by the command, and what it printed."""
    folder = tmp_path_factory.mktemp("skip_thought")
    (folder / "text.txt").write_text(TEXT, "utf-8")
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    train_command(folder / "text.txt", folder / "weights", console=console, kind="bi", **SIZES)
    return folder / "weights", shown.getvalue()


def test_training_writes_the_published_layout_and_says_how_to_rank_with_it(weights):
    directory, shown = weights
    names = ["bi_skip.npz", "bi_skip.npz.json", "btable.npy", "dictionary.txt",
             "skip_thought.sha256"]  # fmt: skip
    assert sorted(path.name for path in directory.iterdir()) == names
    assert "bi-skip pass 1: 2 steps" not in shown  # four sentences are one batch, so one step
    assert "bi-skip pass 1: 1 steps, from " in shown
    assert f"skip_thought={directory}" in shown
    assert load_vectors(directory)(["red kettle"]).shape == (1, 6)


def test_of_a_table_with_titles_and_texts_the_texts_are_read(tmp_path):
    """Titles are no contiguous text."""
    table = tmp_path / "pages.tsv"
    table.write_text("doc_id\ttitle\ttext\n1\tTea. Pots\tA kettle boils. It sings.\n", "utf-8")
    train_command(table, tmp_path / "weights", console=Console(file=io.StringIO()), **SIZES)
    known = (tmp_path / "weights" / "dictionary.txt").read_text("utf-8").split()
    assert {"kettle", "sings"} <= set(known)
    assert "pots" not in known


def test_encoding_writes_a_row_a_line(weights, tmp_path):
    (tmp_path / "texts.txt").write_text("red kettle\n\nblue rug\n", "utf-8")
    out = tmp_path / "vectors.npy"
    encode_command(weights[0], tmp_path / "texts.txt", out, console=Console(file=io.StringIO()))
    vectors = np.load(out)
    assert (vectors == load_vectors(weights[0])(["red kettle", "", "blue rug"])).all()
    with pytest.raises(UserError, match=r"expected a name that ends in \.npy"):
        encode_command(weights[0], tmp_path / "texts.txt", tmp_path / "vectors.csv")


def test_evaluate_ranks_with_the_weights_it_is_given(weights, tmp_path):
    titles = ["Red Kettle", "Blue Rug"]
    judgments = [
        Judgment(f"q{q}", query, f"d{d}", title, float(d == q))
        for q, query in enumerate(["red kettle", "blue rug"])
        for d, title in enumerate(titles)
    ]
    write_judgments(tmp_path / "judgments.tsv", judgments)
    evaluation = evaluate_command(
        [],
        tmp_path / "judgments.tsv",
        None,
        tmp_path / "out",
        ["bm25", f"skip_thought={weights[0]}"],
        console=Console(file=io.StringIO()),
    )
    # The query is its title's own words, so the cosine is 1 and the title comes first.
    assert evaluation.values["skip_thought"]["ndcg@1"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "0"], "units is 0; expected at least 1"),
        (["--kind", "bi", "--units", "7"], "give an even number"),
        (["--column", "text"], "read as a text a line"),
    ],
)
def test_bad_settings_are_one_line_and_leave_nothing(tmp_path, capsys, arguments, message):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    out = tmp_path / "out"
    command = ["skip-thought", "train", "--text", str(tmp_path / "text.txt"), "--out", str(out)]
    assert main([*command, *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dssm skip-thought: ")
    assert message in line
    assert not out.exists()


def test_the_baseline_names_a_directory_without_weights(tmp_path, capsys):
    write_judgments(tmp_path / "j.tsv", [Judgment("q", "a", "d", "a", 1.0)])
    command = ["evaluate", "--judgments", str(tmp_path / "j.tsv"), "--out", str(tmp_path / "out")]
    assert main([*command, "--baselines", f"skip_thought={tmp_path}"]) == 1
    assert "holds no uni_skip.npz and no bi_skip.npz" in capsys.readouterr().err


def test_the_command_line_has_the_defaults_of_the_options_and_passes_all_on(monkeypatch):
    taken = []
    monkeypatch.setattr(
        skip_thought_command, "train_command", lambda *a, encoding, **b: taken.append(b)
    )
    base = ["skip-thought", "train", "--text", "text.txt", "--out", "weights"]
    main(base)
    assert TrainingOptions(**taken[0]) == TrainingOptions()
    main([*base, "--repeat", "--predicted", "70", "--vocabulary", "90", "--learning-rate", "0.1"])
    changed = {name: taken[1][name] for name in taken[1] if taken[1][name] != taken[0][name]}
    assert changed == {"repeat": True, "predicted": 70, "vocabulary": 90, "learning_rate": 0.1}
    assert set(taken[0]) | {"word_units", "clip_norm", "reset"} == set(vars(TrainingOptions()))

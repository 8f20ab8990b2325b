"""Preparing the inputs of a benchmark, and the errors for unusable inputs."""

import random

import pytest

from dssm_tf.benchmark import prepare as prepare_module
from dssm_tf.benchmark.prepare import Sources, prepare
from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import is_held_out
from dssm_tf.text.typos import with_typo

COLORS, THINGS = ("red", "green", "blue", "black"), ("hat", "tie", "box", "shoe", "coat")
TITLES = [f"{color} {thing}" for color in COLORS for thing in THINGS]
LOG = "query\ttitle\tclicks\ttimestamp\n" + "".join(
    f"{title.split()[1]} {title.split()[0]}\t{title}\t{1 + time % 2}\t{time}\n"
    for time, title in enumerate(TITLES)
)
CORPUS = "doc_id\ttitle\n" + "".join(f"d{n:02d}\t{title}\n" for n, title in enumerate(TITLES))
HEAD = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
JUDGMENTS = HEAD + "q1\that red\td00\tred hat\t2\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The folder of the input files. A fast replacement of preprocess records its arguments."""

    def ensure_data(inputs):
        output, corpus = inputs.data(), inputs.folder / "corpus.tsv"
        output.mkdir(exist_ok=True)
        (output / "log").write_text(str(inputs.folder / "log.tsv"))
        (output / "corpus").write_text(str(corpus) if corpus.exists() else "")

    monkeypatch.setattr(prepare_module, "ensure_data", ensure_data)
    loaded = "dssm_tf.data.preprocessed.Preprocessed"
    monkeypatch.setattr(f"{loaded}.__init__", lambda self, directory: None)
    monkeypatch.setattr(f"{loaded}.log", lambda self: [("hat", "red hat", 1.0)])
    for name, text in (("log.tsv", LOG), ("corpus.tsv", CORPUS), ("judgments.tsv", JUDGMENTS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def sources(files, **changes):
    standard = {"clicks": [str(files / "log.tsv")], "judgments": files / "judgments.tsv",
                "corpus": files / "corpus.tsv"}  # fmt: skip
    return Sources(**(standard | changes))


def test_inputs_are_prepared_once(files):
    inputs = prepare(sources(files), files / "out")
    assert inputs.task().queries == ("hat red",)
    assert len(inputs.titles()) == 20
    assert inputs.clicks() == [("hat", "red hat", 1.0)]
    (inputs.folder / "data-4" / "log").unlink()
    assert prepare(sources(files), files / "out").folder == inputs.folder
    assert not (inputs.folder / "data-4" / "log").exists()


@pytest.mark.parametrize("name", ["log.tsv", "judgments.tsv", "corpus.tsv"])
def test_changed_inputs_are_prepared_again(files, name):
    before = prepare(sources(files), files / "out").details()
    rows = {"log.tsv": "cap\tred hat\t1\t99\n", "corpus.tsv": "d99\tcap\n"}
    with (files / name).open("a") as file:
        file.write(rows.get(name, "q9\tred hat\td00\tred hat\t1\n"))
    inputs = prepare(sources(files), files / "out")
    assert inputs.details()["key"] != before["key"]
    assert "cap" in (inputs.folder / name).read_text() or len(inputs.task().queries) == 2


def test_another_fraction_of_judged_clicks_changes_the_key_of_the_inputs(files):
    def key(fraction):
        judged_by_clicks = sources(files, judgments=None, judge_later=fraction)
        return prepare(judged_by_clicks, files / "out").details()["key"]

    assert key(0.25) == key(0.25) != key(0.5)


def test_judged_queries_have_typing_errors_if_requested(files):
    (files / "judgments.tsv").write_text(JUDGMENTS.replace("hat red", "bonnet red"))
    options = [sources(files), sources(files, typos=True)]
    plain, misspelled = (prepare(option, files / f"out{option.typos}").task() for option in options)
    assert {*misspelled.queries} == {*map(with_typo, plain.queries)} != {*plain.queries}
    lines = prepare(options[1], files / "outTrue").details()["summary_lines"]
    assert "1 of 1 judged queries have a typing error" in lines


def test_a_benchmark_killed_while_preparing_starts_again(files, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "ensure_data", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(sources(files), files / "out")
    assert prepare(sources(files), files / "out").clicks()


@pytest.mark.parametrize(
    "changes",
    [
        {"judgments": None, "corpus": None, "judge_later": 0.3},
        {"judgments": None, "judge_later": 0.3},
        {"judgments": None, "corpus": None, "hold_out_queries": 0.4},
    ],
)
def test_training_rows_and_judgments_do_not_depend_on_the_order_of_the_log(files, changes):
    rows = LOG.splitlines(keepends=True)[1:]
    rows = [row.rsplit("\t", 1)[0] + f"\t{index // 7}\n" for index, row in enumerate(rows)]
    rows += [row.replace("\t1\t", "\t5\t") for row in rows[::3]]
    contents = []
    for number in range(4):
        random.Random(number).shuffle(rows)
        (files / "log.tsv").write_text(LOG.splitlines(keepends=True)[0] + "".join(rows))
        folder = prepare(sources(files, **changes), files / f"out{number}").folder
        names = ["judgments.tsv", "corpus.tsv", "log.tsv"]
        contents.append([(folder / name).read_text() for name in names])
    assert contents[1:] == contents[:1] * 3


def test_later_clicks_become_judgments_and_are_not_learned_from(files):
    inputs = prepare(sources(files, judgments=None, judge_later=0.25), files / "out")
    # The last 5 of 20 rows: the black things.
    assert set(inputs.task().queries) == {f"{thing} black" for thing in THINGS}
    assert inputs.task().ranks_corpus
    training_log = (inputs.folder / "log.tsv").read_text()
    assert "black" not in training_log
    assert training_log.count("\n") == 16
    assert (inputs.folder / "data-4" / "log").read_text().endswith("log.tsv")
    assert (inputs.folder / "data-4" / "corpus").read_text().endswith("corpus.tsv")
    without_corpus = sources(files, judgments=None, corpus=None, judge_later=0.25)
    assert sorted(prepare(without_corpus, files / "new").task().titles) == sorted(TITLES)


def test_preprocess_receives_the_titles_of_a_corpus_and_not_those_of_judgments(files):
    prepare(sources(files, corpus=None), files / "judged")
    corpus_path = files / "judged" / "work" / "inputs" / "data-4" / "corpus"
    assert corpus_path.read_text() == ""
    inputs = prepare(sources(files), files / "ranked")
    passed_corpus = (inputs.folder / "data-4" / "corpus").read_text()
    # The directory was renamed after it was written.
    assert (inputs.folder / passed_corpus.rsplit("/", 1)[1]).read_text() == CORPUS


@pytest.mark.parametrize("judged", [True, False])
def test_held_out_queries_are_judged_and_not_learned_from(files, judged):
    queries = [" ".join(reversed(title.split())) for title in TITLES]
    cells = enumerate(zip(queries, TITLES, strict=True))
    rows = [f"q{n}\t{query}\td{n:02d}\t{title}\t1\n" for n, (query, title) in cells]
    (files / "judgments.tsv").write_text(HEAD + "".join(rows))
    changes = {} if judged else {"judgments": None}
    inputs = prepare(sources(files, hold_out_queries=0.4, **changes), files / "out")
    held_out = {query for query in queries if is_held_out(query, 0.4, "benchmark")}
    assert 0 < len(held_out) < 20
    assert {*inputs.task().queries} == held_out
    training_rows = (inputs.folder / "log.tsv").read_text().splitlines()[1:]
    assert {row.split("\t")[0] for row in training_rows} == {*queries} - held_out


def test_a_query_without_words_remains_in_the_task(files):
    (files / "judgments.tsv").write_text(JUDGMENTS + "q2\t?!\td01\tred tie\t1\n")
    assert prepare(sources(files), files / "out").task().queries == ("hat red", "?!")


def test_repeated_judgments_have_their_mean_grade(files):
    (files / "judgments.tsv").write_text(JUDGMENTS + "q1\that red\td00\tred hat\t1\n")
    inputs = prepare(sources(files), files / "out")
    assert inputs.task().relevant["grade"].to_list() == [1.5]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "judgments",
            HEAD + "q1\that\td00\tred hat\t-1\n",
            "grade '-1'; expected a number from 0 to 100",
        ),
        ("judgments", HEAD, "a header and no judgment"),
        ("corpus", CORPUS + "d00\tanother\n", r"corpus.tsv:22: doc_id 'd00' is repeated"),
        ("log", LOG + "hat\n" * 180, r"180 of 200 rows are malformed, .*90.0% of the rows"),
        # Text would put these times in the wrong order.
        (
            "log",
            LOG.replace("\t19\n", "\t2024-01-31\n"),
            r"mixed: '.*' is a number, '2024-01-31' is a date",
        ),
    ],
)
def test_unusable_files_are_refused(files, name, text, message):
    (files / f"{name}.tsv").write_text(text)
    by_clicks = {"judgments": None, "judge_later": 0.25} if name == "log" else {}
    with pytest.raises(UserError, match=message):
        prepare(sources(files, **by_clicks), files / "out")
    assert not (files / "out" / "work" / "inputs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judgments": None}, "there are no judgments: give --judgments FILE, or derive them"),
        ({"judge_later": 0.2}, "cannot be combined with --judgments"),
        (
            {"judge_later": 0.2, "hold_out_queries": 0.2},
            "received --judge-later and --hold-out-queries; exp",
        ),
    ],
)
def test_contradictory_flags_are_refused(files, changes, message):
    with pytest.raises(UserError, match=message):
        prepare(sources(files, **changes), files / "out")


def test_the_sizes_of_training_log_and_judgments_are_printed_and_saved(files, capsys):
    judged_by_clicks = sources(files, judgments=None, judge_later=0.25)
    # 15 rows with 1, 2, 1, ... clicks at the times 0 to 14, and 5 at 15 to 19.
    line = "training: 15 rows with 22 clicks; test: 5 rows with 8 clicks"
    for _ in ("new", "found again"):
        assert prepare(judged_by_clicks, files / "out").details()["split"] == line
        assert line in capsys.readouterr().out


def test_files_in_another_encoding_are_read(files):
    text = LOG.replace("red hat\t1\t", "röd hat\t1000\t")
    (files / "log.tsv").write_bytes(text.encode("utf-16"))
    (files / "corpus.tsv").write_bytes(CORPUS.encode("utf-16"))
    layout = Layout("utf-16")
    inputs = prepare(sources(files, judgments=None, judge_later=0.25, layout=layout), files / "out")
    assert "röd hat\t1000\t" in (inputs.folder / "log.tsv").read_text("utf-8")

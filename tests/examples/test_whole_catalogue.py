"""The split of Home Depot's whole catalogue, on invented judgments."""

from __future__ import annotations

from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import read_corpus, read_judgments
from examples.studies.whole_catalogue import is_test, main

QUERIES = [f"query {n}" for n in range(40)]
LEARNED, TESTED = ([one for one in QUERIES if is_test(one) == tested] for tested in (False, True))


def test_no_test_query_is_learned_and_every_title_is_ranked(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    bad = TESTED[0]
    clicks = ["query\ttitle\tclicks", *(f'{query}\t3" {query}\t1' for query in QUERIES)]
    judgments = ["query_id\tquery\tdoc_id\ttitle\tgrade"]
    for number, query in enumerate(QUERIES):
        grade = 0 if query == bad else 2.5
        judgments += [f'q{number}\t{query}\td{number}\t3" {query}\t{grade}']
        judgments += [f"q{number}\t{query}\tother\tother title\t0"]
    for name, lines in (("clicks", clicks), ("judgments", judgments)):
        (data / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    main(["--data", str(data), "--out", str(out)])
    rows = (out / "clicks.tsv").read_text("utf-8").splitlines()
    assert rows[0] == clicks[0]
    assert [row.split("\t")[0] for row in rows[1:]] == LEARNED
    task = RankingTask(read_judgments(out / "judgments.tsv"), read_corpus(out / "corpus.tsv"))
    assert len(task.titles) == len(QUERIES) + 1
    assert sorted(task.queries) == sorted(set(TESTED) - {bad})
    assert not task.left_out()

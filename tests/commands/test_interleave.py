"""`dssm interleave`: the winner of logs of interleaved lists."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dssm_tf import cli
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.interleaving import compare_teams, sign_test
from dssm_tf.runtime.interleaving import team_draft
from dssm_tf.tables.interleaved_lists import read_interleaved_lists
from dssm_tf.tables.layout import Layout

HEADER = "list_id\tteam\tclicks\tsession_id\tquery\tdoc_id"


def lists(outcomes: str, session: str = "{}") -> list[str]:
    """Rows of lists with a title of `live` and one of `new`.

    Args:
        outcomes: per list the winner, `n` or `l`, `=` for a tie or `-` for no click.
        session: session id of each list; `{}` is replaced by the number of the list.
    """
    return [
        f"{session}-{number}\t{team}\t{int(outcome in team[0] + '=')}\t{session}\tq\t{team}"
        .format(number, number)  # replaces `{}` in the session id
        for number, outcome in enumerate(outcomes)
        for team in ("live", "new")
    ]  # fmt: skip


@pytest.fixture
def compare(write):
    def compare(rows: list[str], **options):
        path = write("shown.tsv", "\n".join([HEADER, *rows]) + "\n")
        return compare_teams(read_interleaved_lists([path], Layout()), **options)

    return compare


def test_a_list_is_won_by_the_team_with_more_clicked_titles(compare):
    result = compare(lists("nnnl=--"), unit="list")
    assert (result.teams, result.lists, result.clicked_lists) == (("live", "new"), 7, 5)
    assert result.wins == result.unit_wins == (1, 3)
    # (1 win + half a tie) / 5 - 1/2
    assert result.preference == pytest.approx(1.5 / 5 - 0.5)
    # 2 (1 + 4) / 2^4
    assert result.p == pytest.approx(10 / 16)
    assert result.winner is None


def test_several_clicks_on_a_title_count_once(compare):
    rows = ["1\tnew\t9\ts\tq\t1", "1\tlive\t1\ts\tq\t2", "1\tlive\t1\ts\tq\t3"]
    assert compare(rows).wins == (1, 0)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 0), (7, 3), (40, 60), (3, 3)])
def test_the_sign_test_equals_its_formula(wins, losses):
    n = wins + losses
    extreme = [math.comb(n, k) for k in range(n + 1) if abs(k - n / 2) >= abs(wins - n / 2)]
    assert sign_test(wins, losses) == pytest.approx(sum(extreme) / 2**n)


def test_the_interval_equals_that_of_resampled_sessions(compare):
    random = np.random.default_rng(5)
    outcomes = ["".join(random.choice([*"nnl=-"], random.integers(1, 5))) for _ in range(60)]
    rows = [row for s, text in enumerate(outcomes) for row in lists(text, f"s{s}")]
    result = compare(rows)
    # 4000 resamples of 60 sessions, with replacement, in float64.
    signs = {"l": 1.0, "n": -1.0, "=": 0.0}
    sums = np.array([sum(signs[o] for o in text if o != "-") for text in outcomes])
    counts = np.array([sum(o != "-" for o in text) for text in outcomes], np.float64)
    sums, counts = sums[counts > 0], counts[counts > 0]
    resampled = random.integers(0, len(sums), (4000, len(sums)))
    means = sums[resampled].sum(1) / (2 * counts[resampled].sum(1))
    assert result.unit == "session"
    assert result.units == len(sums)
    assert result.unit_wins == ((sums > 0).sum(), (sums < 0).sum())
    assert result.preference == pytest.approx(sums.sum() / (2 * counts.sum()))
    assert result.ci95 == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.01)


def test_many_lists_of_one_session_are_one_observation(compare):
    rows = lists("n" * 40, "one") + [row for n in range(3) for row in lists("l", f"s{n}")]
    assert compare(rows, unit="list").winner == "new"
    result = compare(rows)
    assert result.unit_wins == (3, 1)
    assert result.winner is None
    assert compare(rows, unit="query").units == 1


def test_simulated_users_find_the_better_ranking(write, capsys):
    relevant = {f"d{n}" for n in range(3)}
    better = [f"d{n}" for n in range(8)]
    worse = better[::-1]
    random = np.random.default_rng(0)
    rows = ["search,origin,clicks,session_id,doc"]
    for search in range(150):
        titles, teams = team_draft(better, worse, 6, seed=search)
        for doc, team in zip(titles, teams, strict=True):
            # 40 % of relevant and 10 % of other titles are clicked.
            click = int(random.random() < (0.4 if doc in relevant else 0.1))
            name = {"a": "better", "b": "worse"}[team]
            rows.append(f"{search},{name},{click},s{search // 2},{doc}")
    path = write("shown.csv", "\n".join(rows) + "\n")
    flags = ["--columns", "list_id=search,team=origin,doc_id=doc"]
    assert cli.main(["interleave", str(path), *flags]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "better is better than worse."
    assert "150 lists" in out
    assert "sign test over sessions" in out
    assert "Warning" not in out
    assert cli.main(["interleave", str(path), *flags]) == 0
    assert capsys.readouterr().out == out


def test_titles_without_a_team_do_not_count(compare):
    rows = [*lists("nl"), "0-0\t\t1\t0\tq\tad", "1-1\t\t1\t1\tq\tad"]
    assert compare(rows).wins == (1, 1)


def test_lists_that_team_draft_cannot_make_get_a_warning(compare):
    rows = [f"1\tnew\t1\ts\tq\t{n}" for n in range(3)] + lists("l")
    (warning,) = compare(rows).warnings
    assert warning.startswith("In 1 of 2 lists, one team has at least two titles more")
    unfair = [f"x{n}\tnew\t1\tx{n}\tq\td" for n in range(20)] + lists("l")
    (warning,) = compare(unfair).warnings
    assert (
        "is from live in 0 and from new in 20 lists; the coin does not seem to be fair" in warning
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no rows below the header"),
        (["1\tnew\t1\ts\tq\t1"], r"names 1 teams: 'new' \(.*shown.tsv:2\); expected two"),
        ([*lists("n"), "9\tother\t1\ts\tq\t1"], "names 3 teams: .*'other'"),
        (lists("--"), "no title of a team has a click"),
        ([*lists("n"), "0-0\tnew\t1\t0\tq\tnew"], "has doc_id 'new' twice"),
        ([*lists("n"), "0-0\tnew\t1\tz\tq\tx"], "has the session_id 'z' here and '0' above"),
        (["1\tnew\tmany\ts\tq\t1"], "shown.tsv:2: clicks is not a number"),
        ([*lists("n"), "9\tnew\t1\t\tq\t1"], "has no session_id, which --unit session needs"),
    ],
)
def test_a_wrong_log_is_an_error(compare, rows, message):
    with pytest.raises(UserError, match=message):
        compare(rows)


def test_a_log_without_the_columns_is_an_error(write, capsys):
    path = write("log.tsv", "query\ttitle\nq\tt\n")
    assert cli.main(["interleave", str(path)]) == 1
    assert "expected 'list_id', 'team', 'clicks' (missing:" in capsys.readouterr().err
    assert cli.main(["interleave"]) == 1
    assert "there is no log" in capsys.readouterr().err


def test_null_teams_and_missing_columns_are_empty(write):
    path = write("shown.jsonl", '{"list_id": 1, "team": null, "clicks": 1}\n')
    (row,) = read_interleaved_lists([path], Layout()).rows(named=True)
    assert (row["team"], row["query"], row["session_id"], row["doc_id"]) == ("", "", "", "")


def test_the_documented_example_prints_the_documented_output(
    checkout, tmp_path, monkeypatch, capsys
):
    text = (checkout / "docs" / "interleaving.md").read_text("utf-8")
    code = text.split("run by tests/commands/test_interleave.py -->\n```python\n")[1]
    monkeypatch.chdir(tmp_path)
    exec(code.split("```")[0], {})
    assert cli.main(["interleave", "shown.tsv"]) == 0
    assert f"```text\n{capsys.readouterr().out}```" in text

"""`dssm serve`, in a child process, answers as before while its served files are damaged.

If the server used memory maps, a truncated file would end its process, and that of a test with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dssm_tf.commands.index import index
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.server.asking import body_of, rest, wait_for
from tests.server.command import command
from tests.server.test_reload import write_index

pytestmark = pytest.mark.serving

SCORE = body_of("score", queries=["fox"], titles=["red fox", "green owl"])


def damages(path: Path) -> list[Callable[[], object]]:
    """Ways to damage a file; the last one removes it."""
    return [
        partial(path.chmod, 0),
        partial(os.truncate, path, path.stat().st_size // 2),
        partial(os.truncate, path, 0),
        partial(path.write_bytes, b"\xff" * 4096),  # overwritten, as by `cp`
        path.unlink,
    ]


def scores(address: str, model: str) -> list[float]:
    code, text = rest(address, f"/v1/models/{model}:predict", SCORE)
    assert code == 200, text
    return json.loads(text)["outputs"]


def results_of_search(address: str) -> list[dict]:
    code, text = rest(address, "/v1/search?query=red+fox&k=5")
    assert code == 200, text
    return json.loads(text)["results"]


def refusals(address: str, model: str) -> list[str]:
    """The error messages of the refused versions of a model."""
    status = json.loads(rest(address, f"/v1/models/{model}")[1])
    return [
        row["status"]["error_message"]
        for row in status["model_version_status"]
        if row["state"] == "END"
    ]


def check_answers_during_damage(process, directory: Path, answer: Callable[[], object]) -> None:
    """Damages each file of a directory in each way, and checks that answers do not change."""
    expected = answer()
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    assert len(paths) >= 4
    for damage_of_each_file in zip(*map(damages, paths), strict=True):
        for damage in damage_of_each_file:
            damage()
            assert answer() == expected
        process.send_signal(signal.SIGHUP)
    assert not any(path.exists() for path in paths)
    assert answer() == expected
    assert process.poll() is None


def test_answers_do_not_change_while_compact_models_and_indexes_are_damaged(
    checkout, compact, tmp_path
):
    shutil.copytree(compact, tmp_path / "pets" / "1")
    titles = [CorpusTitle("a", "red fox"), CorpusTitle("b", "green owl")]
    write_corpus(tmp_path / "corpus.tsv", titles)
    index(model=compact, corpus=tmp_path / "corpus.tsv", out=tmp_path / "index")
    with command(
        checkout, f"small={tmp_path / 'pets'}", "--index", str(tmp_path / "index"),
        "--poll-seconds", "0.05",
    ) as (process, _, address):  # fmt: skip
        check_answers_during_damage(process, tmp_path / "pets", partial(scores, address, "small"))
        check_answers_during_damage(
            process, tmp_path / "index", partial(results_of_search, address)
        )


def test_answers_do_not_change_while_a_maxsim_index_is_damaged(checkout, tmp_path):
    write_index(tmp_path / "index", ["red fox", "red box"])
    with command(checkout, "--index", str(tmp_path / "index")) as (process, _, address):
        check_answers_during_damage(
            process, tmp_path / "index", partial(results_of_search, address)
        )


@pytest.mark.slow
def test_answers_do_not_change_while_runs_and_saved_models_are_damaged(
    checkout, run, exports, tmp_path
):
    shutil.copytree(exports / "pets" / "1", tmp_path / "saved" / "1")
    shutil.copytree(run, tmp_path / "run")
    names = ("saved", "run")
    arguments = [f"{name}={tmp_path / name}" for name in names]
    with command(checkout, *arguments) as (process, _, address):
        for name in names:
            check_answers_during_damage(process, tmp_path / name, partial(scores, address, name))


def test_sighup_loads_a_new_version_and_refuses_a_broken_one(checkout, compacts, tmp_path):
    models = tmp_path / "pets"
    shutil.copytree(compacts[0], models / "1")
    with command(checkout, str(models), "--poll-seconds", "0") as (process, _, address):
        before = scores(address, "pets")
        shutil.copytree(compacts[1], models / "2")
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: scores(address, "pets") != before)
        new = scores(address, "pets")
        assert rest(address, "/v1/models/pets/versions/2")[0] == 200
        shutil.copytree(compacts[0], models / "3")
        file = next((models / "3").glob("*.npz"))
        file.write_bytes(file.read_bytes()[:-1])
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: refusals(address, "pets"))
        assert file.name in refusals(address, "pets")[0]
        assert scores(address, "pets") == new
        process.terminate()
        output = "".join(process.communicate(timeout=60))
    assert process.returncode == 0
    assert "version 3 of pets is refused: " in output

"""Which version answers, and that changing it costs nobody an answer."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.server import versions
from dssm_tf.server.service import compute
from dssm_tf.server.versions import Model, find_models, open_ranker
from serving.client import Client
from tests.server.asking import body_of, rest, states, wait_for
from tests.server.conftest import QUERIES, TITLES


class Named:
    """Answers nothing; knows which directory it is of."""

    def __init__(self, directory: Path) -> None:
        self.text = (directory / "text").read_text("utf-8")
        if self.text == "broken":
            raise ValueError("that is no model")


def write(base: Path, number: int, text: str = "fine") -> None:
    (base / str(number)).mkdir(parents=True, exist_ok=True)
    (base / str(number) / "text").write_text(text, "utf-8")


@pytest.fixture
def model(tmp_path) -> Model:
    write(tmp_path, 1)
    model = Model("named", tmp_path, load=Named)
    model.look()
    assert model.current.number == 1
    return model


def test_the_highest_number_answers_not_the_last_in_the_alphabet(model, tmp_path):
    for number in (9, 10):
        write(tmp_path, number)
    (tmp_path / ".11.incomplete").mkdir()
    (tmp_path / "notes").mkdir()
    model.look()
    assert model.current.number == 10
    # 9 was never asked: of the versions, the newest counts.
    assert model.states == {10: ""}


def test_a_broken_version_never_replaces_a_good_one(model, tmp_path, caplog):
    before = model.current
    write(tmp_path, 2, "broken")
    with caplog.at_level(logging.INFO, "dssm_tf.server"):
        for _ in range(3):
            model.look()
    assert model.current is before
    assert model.states == {2: "ValueError: that is no model", 1: ""}
    # Said once, not at each look.
    assert caplog.messages == ["named version 2 is not served: ValueError: that is no model"]


def test_a_version_that_is_still_copied_is_tried_again_when_it_has_changed(model, tmp_path):
    write(tmp_path, 2, "broken")
    model.look()
    write(tmp_path, 2, "whole now")
    model.look()
    assert (model.current.number, model.current.ranker.text) == (2, "whole now")


def test_behind_a_broken_version_the_next_older_one_answers(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 2)
    write(tmp_path, 3, "broken")
    model = Model("named", tmp_path, load=Named)
    model.look()
    assert model.current.number == 2


def test_removing_the_newest_version_goes_back_to_the_one_before(model, tmp_path):
    write(tmp_path, 2)
    model.look()
    shutil.rmtree(tmp_path / "2")
    model.look()
    assert model.current.number == 1
    # Where nothing is left, what is loaded goes on.
    shutil.rmtree(tmp_path / "1")
    model.look()
    assert model.current.number == 1
    shutil.rmtree(tmp_path)
    model.look()
    assert model.current.number == 1


def test_a_directory_that_cannot_be_read_for_a_while_stops_no_watcher(
    tmp_path, server_of, monkeypatch, caplog
):
    models = [Model(name, tmp_path / name, load=Named) for name in ("away", "other")]
    for model in models:
        write(model.directory, 1)
    listed, away = versions.versions_in, threading.Event()

    def list_versions(path):
        if away.is_set() and path == models[0].directory:
            raise OSError(116, "Stale file handle")
        return listed(path)

    monkeypatch.setattr(versions, "versions_in", list_versions)
    with server_of(*models, poll=0.02):
        away.set()
        wait_for(lambda: "cannot be looked for" in caplog.text)
        for model in models:
            write(model.directory, 2)
        wait_for(lambda: models[1].current.number == 2)
        assert models[0].current.number == 1
        away.clear()
        wait_for(lambda: models[0].current.number == 2)
    assert caplog.text.count("new versions cannot be looked for") == 1  # not at each look


@pytest.mark.serving
def test_a_new_version_takes_over_without_a_failed_request(compacts, tmp_path, server_of):
    base = tmp_path / "pets"
    shutil.copytree(compacts[0], base / "1")
    body = body_of("score", queries=QUERIES, titles=TITLES)
    with server_of(Model("pets", base), poll=0.05) as server:
        client = Client(server.grpc_address, "pets", timeout=60)
        ended, failed = threading.Event(), []
        answers: list[np.ndarray] = []

        def by_rest():
            code, told = rest(server.rest_address, "/v1/models/pets:predict", body)
            assert code == 200, told
            return np.array(json.loads(told)["outputs"], np.float32)

        def ask(call):
            while not ended.is_set():
                try:
                    answers.append(call())
                except Exception as error:
                    failed.append(error)

        asks = [by_rest, lambda: client.score(QUERIES, TITLES)]
        threads = [threading.Thread(target=ask, args=(call,)) for call in asks]
        for thread in threads:
            thread.start()
        shutil.copytree(compacts[1], base / ".2")
        (base / ".2").rename(base / "2")
        broken = shutil.copytree(compacts[1], base / ".3")
        (broken / "weights.npz").write_bytes(b"no model")
        broken.rename(base / "3")
        wait_for(lambda: set(states(server, "pets")) == {2, 3})
        before = len(answers)
        wait_for(lambda: len(answers) > before + 4)
        ended.set()
        for thread in threads:
            thread.join(60)
        assert failed == []
        (failed_state, error), answering = states(server, "pets").values()
        assert (failed_state, "damaged" in error) == ("END", True)
        assert answering == ("AVAILABLE", "")
        client.close()
    texts = {"queries": QUERIES, "titles": TITLES}
    first, second = (compute(open_ranker(one), texts)[1] for one in compacts)
    # Each answer is one version's, whole; the first came from 1 and the last from 2.
    assert not np.array_equal(first, second)
    assert all(np.array_equal(one, first) or np.array_equal(one, second) for one in answers)
    assert np.array_equal(answers[0], first)
    assert np.array_equal(answers[-1], second)


# ------------------------------------------------------------------- what a directory is


@pytest.mark.parametrize("kind", ["exports", "compacts"])
def test_a_model_is_found_from_each_level_of_its_directory(request, kind):
    found = request.getfixturevalue(kind)
    base = found / "pets" if kind == "exports" else found[0].parent
    for path in (base.parent, base):
        (model,) = find_models(path)
        assert (model.name, list(model.versions())) == ("pets", [2, 1])
    (model,) = find_models(base / "1")
    assert (model.name, model.versions()) == ("pets", {1: base / "1"})


def test_a_run_is_served_as_it_lies(run):
    (model,) = find_models(run)
    model.look()
    assert (model.name, model.current.number) == ("run", 1)


def test_a_compact_model_is_served_without_tensorflow(checkout, compact):
    code = """
import sys
from dssm_tf.server.server import Server
from dssm_tf.server.versions import find_models
from pathlib import Path
from serving.client import Client
with Server(find_models(Path(sys.argv[1])), port=0, rest_port=0) as server:
    with Client(server.grpc_address, "pets") as client:
        assert client.score("fox", ["red fox", "owl"]).shape == (2,)
sys.exit(sorted({"tensorflow", "keras", "apache_beam", "pyarrow"} & set(sys.modules)) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(compact.parent)],
        cwd=checkout, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")

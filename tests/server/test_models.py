"""Which version answers, and that changing it costs nobody an answer."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.server.models import Model, VersionState
from dssm_tf.server.sources import Source, find_models, is_run, open_servable
from serving.client import Client, RestClient
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
    model = Model("named", Source(tmp_path), load=Named)
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
    assert model.states() == {10: VersionState("AVAILABLE"), 1: VersionState("END")}


def test_a_broken_version_never_replaces_a_good_one(model, tmp_path, caplog):
    before = model.current
    write(tmp_path, 2, "broken")
    with caplog.at_level(logging.INFO, "dssm_tf.server"):
        for _ in range(3):
            model.look()
    assert model.current is before
    assert model.states()[2] == VersionState("END", "ValueError: that is no model")
    (line,) = caplog.messages  # said once, not at each look
    assert line == "named version 2 is not served; version 1 goes on: ValueError: that is no model"


def test_a_version_that_is_still_copied_is_tried_again_when_it_has_changed(model, tmp_path):
    write(tmp_path, 2, "broken")
    model.look()
    write(tmp_path, 2, "whole now")
    model.look()
    assert (model.current.number, model.current.servable.text) == (2, "whole now")


def test_behind_a_broken_version_the_next_older_one_answers(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 2)
    write(tmp_path, 3, "broken")
    model = Model("named", Source(tmp_path), load=Named)
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


@pytest.mark.serving
def test_a_new_version_takes_over_without_a_failed_request(compacts, tmp_path, server_of):
    base = tmp_path / "pets"
    shutil.copytree(compacts[0], base / "1")
    with server_of(Model("pets", Source(base)), poll=0.05) as server:
        clients = [
            Client(server.grpc_address, "pets", timeout=60),
            RestClient(server.rest_address, "pets", timeout=60),
        ]
        ended, failed = threading.Event(), []
        answers: list[np.ndarray] = []

        def ask(client):
            while not ended.is_set():
                try:
                    answers.append(client.score(QUERIES, TITLES))
                except Exception as error:
                    failed.append(error)

        threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        shutil.copytree(compacts[1], base / ".2")
        (base / ".2").rename(base / "2")
        broken = shutil.copytree(compacts[1], base / ".3")
        (broken / "weights.npz").write_bytes(b"no model")
        broken.rename(base / "3")
        wait_for(lambda: {2: "AVAILABLE", 3: "END"}.items() <= states(clients[0]).items())
        before = len(answers)
        wait_for(lambda: len(answers) > before + 4)
        ended.set()
        for thread in threads:
            thread.join(60)
        assert failed == []
        assert states(clients[1]) == {3: "END", 2: "AVAILABLE", 1: "END"}
        assert "damaged" in clients[1].status()[0].error
        for client in clients:
            client.close()
    given = {"queries": [one.encode() for one in QUERIES],
             "titles": [one.encode() for one in TITLES]}  # fmt: skip
    first, second = (open_servable(one).run("score", given)["scores"] for one in compacts)
    # Each answer is one version's, whole; the first came from 1 and the last from 2.
    assert not np.array_equal(first, second)
    assert all(np.array_equal(one, first) or np.array_equal(one, second) for one in answers)
    assert np.array_equal(answers[0], first)
    assert np.array_equal(answers[-1], second)


def states(client) -> dict[int, str]:
    return {one.version: one.state for one in client.status()}


def wait_for(condition) -> None:
    waiting = threading.Event()
    for _ in range(1200):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError("not within a minute")


# ------------------------------------------------------------------- what a directory is


def test_an_export_is_found_from_each_of_its_levels(exports):
    base = exports / "pets"
    assert find_models(exports) == {"pets": Source(base)}
    assert find_models(base) == {"pets": Source(base)}
    assert find_models(base / "1") == {"pets": Source(base / "1", 1)}
    assert list(Source(base).versions()) == [2, 1]
    assert Source(base / "1", 1).versions() == {1: base / "1"}


def test_what_is_no_model_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("x")
    for path, words in (
        (tmp_path, "is no model"),
        (tmp_path / "file", "is no model"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(UserError, match=f"{path.name} {words}; expected a directory that"):
            find_models(path)
    assert is_run(run)
    assert not is_run(tmp_path)


def test_a_model_that_answers_no_numbers_is_not_served(base, monkeypatch):
    from dssm_tf.server import sources

    class NotANumber(sources.SavedModel):
        def run(self, signature, inputs):
            found = super().run(signature, inputs)
            return {name: values * np.float32("nan") for name, values in found.items()}

    monkeypatch.setattr(sources, "SavedModel", NotANumber)
    with pytest.raises(UserError, match=r"pets/1: `\w+` answers 1 texts .* not all numbers"):
        open_servable(base / "1")


def test_a_directory_without_a_saved_model_is_one_line(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(
        UserError, match=r"1 holds no saved_model\.pb and no compact\.json; expected"
    ):
        open_servable(tmp_path / "1")

"""New versions are loaded while the server runs; broken ones are refused."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import grpc
import pytest

from dssm_tf import runtime
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime import CompactRanker
from dssm_tf.server.repository import ModelSource, Repository
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle
from tests.runtime.maxsim_models import example_model, write_compact_model
from tests.server.asking import OWN_CONNECTION, body_of, predict, request_of, rest, wait_for


def write_index(directory: Path, titles: list[str]) -> Path:
    """Writes an index of titles, whose ids are their numbers."""
    model = write_compact_model(example_model(), directory / "model", {"red shoe": -1.0})
    corpus = [CorpusTitle(str(row), title) for row, title in enumerate(titles)]
    MaxSimIndex.build(runtime.load(model), corpus).write(directory)
    return directory


@pytest.fixture
def models(compacts, tmp_path) -> Path:
    """A directory with version 1 of `pets`."""
    shutil.copytree(compacts[0], tmp_path / "pets" / "1")
    return tmp_path / "pets"


def repository_of(*paths: Path, **options) -> Repository:
    repository = Repository([ModelSource(path) for path in paths], **options)
    repository.open()
    return repository


def versions(repository: Repository) -> list[int]:
    return sorted(repository.snapshot.versions["pets"])


def test_a_new_version_is_loaded_when_its_files_are_complete(models, compacts):
    repository = repository_of(models)
    assert not repository.refresh()
    shutil.copytree(compacts[1], models / "2")
    assert not repository.refresh()  # the copy may be incomplete
    assert versions(repository) == [1]
    assert repository.refresh()
    assert versions(repository) == [2]
    model = repository.snapshot.find("pets")
    expected = CompactRanker.load(compacts[1]).score_matrix(["fox"], ["red fox"])
    assert model.ranker.score_matrix(["fox"], ["red fox"]) == expected
    # If a version is removed, the one before it is served again.
    shutil.rmtree(models / "2")
    assert repository.refresh(at_once=True)
    assert versions(repository) == [1]


def test_a_broken_version_is_refused_by_its_number_and_the_old_one_stays(models, compacts, caplog):
    repository = repository_of(models)
    shutil.copytree(compacts[1], models / "7")
    file = next(path for path in (models / "7").glob("*.npz"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert repository.refresh(at_once=True)  # the failure is reported
    assert versions(repository) == [1]
    assert "version 7 of pets is refused: " in caplog.text
    assert file.name in repository.snapshot.failures["pets"][7]
    # It is not tried again until its files change.
    caplog.clear()
    assert not repository.refresh()
    assert not caplog.messages
    file.write_bytes(content)
    repository.refresh()
    repository.refresh()
    assert versions(repository) == [7]
    assert not repository.snapshot.failures


def test_rules_by_hand_are_read_with_the_index_and_again_when_they_change(tmp_path, caplog):
    index = write_index(tmp_path / "index", ["red shoe", "red box"])
    rules = tmp_path / "rules.tsv"
    rules.write_text("pin\tred\t1\n", "utf-8")
    repository = repository_of(index=index, rules=rules)

    def ranking() -> list[str]:
        hits = repository.snapshot.index[0].search("red").rankings["semantic"]
        return [hit.doc_id for hit in hits]

    assert ranking() == ["1", "0"]
    rules.write_text("block\tred\t1\n", "utf-8")
    assert repository.refresh(at_once=True)
    assert ranking() == ["0"]
    rules.write_text("block red\n", "utf-8")
    repository.refresh(at_once=True)
    assert ranking() == ["0"]
    assert "rules.tsv" in caplog.text
    (tmp_path / "cosine").mkdir()
    with pytest.raises(UserError, match="rules are for models with the score maxsim"):
        open_index(tmp_path / "cosine", rules=rules)


def test_labels_name_older_versions(models, compacts):
    shutil.copytree(compacts[1], models / "2")
    repository = repository_of(models, labels={"stable": 1})
    assert versions(repository) == [1, 2]
    assert repository.snapshot.find("pets").version == 2
    assert repository.snapshot.find("pets", label="stable").version == 1


@pytest.mark.parametrize("content", ["missing", "damaged"])
def test_a_refused_or_incomplete_version_keeps_the_newest_one_beside_a_label(
    models, compacts, content
):
    shutil.copytree(compacts[1], models / "2")
    repository = repository_of(models, labels={"stable": 1})
    newest = repository.snapshot.find("pets").ranker
    (models / "3").mkdir()
    if content == "damaged":
        shutil.copytree(compacts[0], models / "3", dirs_exist_ok=True)
        (models / "3" / "SHA256SUMS").write_text("")
    for at_once in (False, False, True, False):
        repository.refresh(at_once)
        assert versions(repository) == [1, 2]
        assert repository.snapshot.find("pets").ranker is newest
    assert (3 in repository.snapshot.failures.get("pets", {})) == (content == "damaged")
    shutil.copytree(compacts[0], models / "3", dirs_exist_ok=True)
    repository.refresh(at_once=True)
    assert versions(repository) == [1, 3]


def test_a_model_whose_directory_is_gone_is_served_as_before(models, compacts, tmp_path, caplog):
    out, away = tmp_path / "out", tmp_path / "away"
    for name, number in (("pets", 1), ("pets", 2), ("other", 1)):
        shutil.copytree(compacts[0], out / name / str(number))
    repository = repository_of(out, labels={"stable": 1})
    served = repository.snapshot.rankers
    message = (
        "the files of pets are gone; version 2 is served as before; restart the server to stop this"
    )
    for _ in range(2):
        caplog.clear()
        shutil.move(out / "pets", away)
        for _ in range(3):
            assert not repository.refresh(at_once=True)
        assert caplog.messages == [message]
        shutil.move(away, out / "pets")
        repository.refresh()
        assert repository.snapshot.rankers.keys() == served.keys()
    # The others are still watched.
    shutil.move(out / "pets", away)
    shutil.copytree(compacts[1], out / "other" / "2")
    repository.refresh(at_once=True)
    assert repository.snapshot.rankers.keys() == {*served, ("other", 2)}


@pytest.mark.parametrize("gone", ["pets", "pets/1"])
@pytest.mark.parametrize("watched", [".", "pets", "pets/1"])
def test_the_only_model_is_served_as_before_if_its_directory_is_gone(
    compacts, tmp_path, caplog, watched, gone
):
    out = tmp_path / "out"
    shutil.copytree(compacts[0], out / "pets" / "1")
    repository = repository_of(out / watched)
    shutil.rmtree(out / gone)
    for _ in range(3):
        assert not repository.refresh()
    assert versions(repository) == [1]
    assert caplog.messages == [
        "the files of pets are gone; version 1 is served as before; restart the server to stop this"
    ]


def test_an_index_whose_directory_is_gone_is_served_as_before(tmp_path, caplog):
    index = write_index(tmp_path / "index", ["red shoe"])
    repository = repository_of(index=index)
    served = repository.snapshot.index
    shutil.move(index, tmp_path / "away")
    for _ in range(3):
        assert not repository.refresh(at_once=True)
    assert repository.snapshot.index is served
    assert caplog.messages == [
        "the files of index are gone; version 1 is served as before; "
        "restart the server to stop this"
    ]


def test_a_directory_that_is_served_by_two_names_is_watched(models, compacts, caplog):
    repository = Repository([ModelSource(models, "a"), ModelSource(models, "b")])
    repository.open()
    assert not repository.refresh()
    shutil.copytree(compacts[1], models / "2")
    assert repository.refresh(at_once=True)
    assert repository.snapshot.rankers.keys() == {("a", 2), ("b", 2)}
    assert {name: model.name for name in "ab" for model in [repository.snapshot.find(name)]} == {
        "a": "a", "b": "b"
    }  # fmt: skip
    assert not [message for message in caplog.messages if "as before" in message]


def test_a_version_may_have_leading_zeros(compacts, tmp_path):
    for name, directory in zip(("0001", "0002"), compacts, strict=True):
        shutil.copytree(directory, tmp_path / "pets" / name)
    repository = repository_of(tmp_path / "pets", labels={"stable": 1})
    assert versions(repository) == [1, 2]
    shutil.copytree(compacts[0], tmp_path / "pets" / "0010")
    assert repository.refresh(at_once=True)
    assert versions(repository) == [1, 10]


def test_an_index_that_is_overwritten_or_truncated_does_not_end_the_server(tmp_path):
    served = write_index(tmp_path / "served", ["red shoe", "red box"])
    other = write_index(tmp_path / "other", ["red lid", "red box", "shoe box"])
    repository = repository_of(index=served)
    index, model = repository.snapshot.index
    assert model.version == 1
    for path in served.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)
    assert [hit.doc_id for hit in index.search("shoe").rankings["semantic"]] == ["0"]
    repository.refresh(at_once=True)
    assert repository.snapshot.index[0] is index
    shutil.copytree(other, served, dirs_exist_ok=True)
    assert repository.refresh(at_once=True)
    assert repository.snapshot.index[1].version == 2
    titles = repository.snapshot.index[0].search("shoe").rankings["semantic"]
    assert [hit.title for hit in titles] == ["shoe box"]


def test_two_models_of_one_name_are_an_error(models):
    with pytest.raises(UserError, match="two entries have the name 'pets'"):
        repository_of(models, models / "1")


def test_no_request_is_lost_while_versions_change(models, compacts):
    repository = repository_of(models)
    body = body_of("score", queries=["fox"], titles=["red fox"])
    with Server(port=0, rest_port=0, repository=repository, poll_seconds=0.02) as server:
        stop, codes, statuses = threading.Event(), [], []

        def ask() -> None:
            while not stop.is_set():
                codes.append(rest(server.rest_address, "/v1/models/pets:predict", body)[0])

        def ask_grpc() -> None:
            request = request_of("pets", "score", queries=["fox"], titles=["red fox"])
            with grpc.insecure_channel(server.grpc_address, OWN_CONNECTION) as channel:
                while not stop.is_set():
                    statuses.append(predict(channel, request.SerializeToString()))

        threads = [threading.Thread(target=target) for target in (ask, ask_grpc)]
        for thread in threads:
            thread.start()
        for number in (2, 3):
            shutil.copytree(compacts[number % 2], models / str(number))
            wait_for(lambda number=number: server._service.snapshot.find("pets").version == number)
        shutil.copytree(compacts[0], models / "9")
        (models / "9" / "SHA256SUMS").write_text("")
        server.reload()
        wait_for(lambda: server._service.snapshot.failures)
        stop.set()
        for thread in threads:
            thread.join(60)
        status = json.loads(rest(server.rest_address, "/v1/models/pets")[1])
        metrics = rest(server.rest_address, "/metrics")[1]
    assert set(codes) == {200}
    assert set(statuses) == {("OK", "")}
    assert min(len(codes), len(statuses)) > 3
    states = [(row["version"], row["state"]) for row in status["model_version_status"]]
    assert states == [("9", "END"), ("3", "AVAILABLE")]
    assert 'dssm_model_version{model="pets"} 3.0' in metrics
    assert 'dssm_reloads_total{result="refused"} 1.0' in metrics

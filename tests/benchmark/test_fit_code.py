import ast

import pytest

import dssm_tf
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.benchmark import fit_code, systems
from dssm_tf.benchmark.fit_code import digest

RANKER = (
    '"""Ranks."""\nfrom dssm_tf.rooms import table\n\ndef score(x):\n    return table.width * x\n'
)
TABLE = "width = 3\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module `ranker` that imports another; gives a function to write files."""
    monkeypatch.setattr(dssm_tf, "__file__", str(tmp_path / "dssm_tf" / "__init__.py"))

    def write(name, text):
        path = tmp_path / "dssm_tf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        fit_code._code.cache_clear()

    write("ranker.py", RANKER)
    write("rooms/table.py", TABLE)
    write("rooms/other.py", "width = 4\n")
    write("benchmark/worker.py", "from dssm_tf.rooms import other\n")
    yield write
    fit_code._code.cache_clear()


def test_a_change_of_code_is_noticed_also_in_what_is_imported(package):
    before = digest("dssm_tf.ranker")
    package("rooms/table.py", "width = 5\n")
    assert digest("dssm_tf.ranker") != before
    package("rooms/table.py", TABLE)
    assert digest("dssm_tf.ranker") == before
    package("ranker.py", RANKER.replace("*", "+"))
    assert digest("dssm_tf.ranker") != before


def test_a_change_of_the_worker_is_noticed_and_one_of_another_system_is_not(package):
    before = digest("dssm_tf.ranker")
    package("rooms/other.py", "width = 5\n")
    assert digest("dssm_tf.ranker") == before
    package("benchmark/worker.py", "from dssm_tf.rooms import other\nPOOL = 10\n")
    assert digest("dssm_tf.ranker") != before


def test_comments_docstrings_and_layout_do_not_count(package):
    before = digest("dssm_tf.ranker")
    package(
        "ranker.py",
        RANKER.replace("Ranks.", "Scores.").replace(
            "table.width * x", "(  # why\n table.width * x)"
        ),
    )
    package("rooms/table.py", 'width = 3\n"""Of what."""\n')
    assert digest("dssm_tf.ranker") == before


def test_a_real_system_depends_on_its_module_and_on_how_texts_are_split():
    found = set()
    waiting = [BM25.__module__]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += fit_code._code(name)[1]
    assert {"dssm_tf.baselines.base", "dssm_tf.text.rules"} <= found
    assert ast.dump(ast.parse("")) not in (fit_code._code(BM25.__module__)[0], "")
    assert digest(BM25.__module__) != digest("dssm_tf.baselines.tfidf")


def test_a_tower_s_result_depends_on_the_files_that_its_configuration_names(monkeypatch):
    monkeypatch.setattr(systems, "digest", lambda *modules: " ".join(modules))
    (row,) = systems.choose_systems(["lstm"])
    version = row.specification(0, "ndcg@10")["version"]
    assert {"dssm_tf.towers.lstm", "dssm_tf.losses.click_softmax"} <= set(version.split())
    assert "dssm_tf.towers.dssm" not in version

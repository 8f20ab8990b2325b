"""Every public function takes paths as text: the signatures say so, and errors show it."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from types import FunctionType, MethodType

import pytest

import dssm_tf
from dssm_tf.common.errors import UserError
from tests.api.conftest import DSSM

PUBLIC = [
    (name, value) for name in dssm_tf.__all__ if inspect.isfunction(value := getattr(dssm_tf, name))
] + [
    (f"{name}.{key}", method)
    for name in ("ClickData", "Index", "Model")
    for key in vars(getattr(dssm_tf, name))
    if (key[0] != "_" or (name, key) == ("ClickData", "__init__"))
    and isinstance(method := getattr(getattr(dssm_tf, name), key), FunctionType | MethodType)
]


def types_in(hint) -> set[object]:
    """All types in an annotation."""
    if isinstance(hint, list):  # the arguments of a function
        return {inner for part in hint for inner in types_in(part)}
    return {hint, *(inner for part in typing.get_args(hint) for inner in types_in(part))}


@pytest.mark.parametrize(("name", "function"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_every_parameter_that_takes_a_path_takes_text(name, function):
    names = vars(inspect.getmodule(function)) | {"Tower": type, "RankingLoss": type}
    hints = {}
    for parameter, hint in function.__annotations__.items():
        if parameter != "return" and "keras" not in str(hint) and "Unpack" not in str(hint):
            known = {"TrainingLog": type, "Siamese": type, **names}
            hints[parameter] = types_in(eval(hint, known) if isinstance(hint, str) else hint)
    for parameter, types in hints.items():
        if Path in types:
            assert str in types, f"{name}({parameter})"


@pytest.fixture(scope="module")
def texts(run, data, compact, tmp_path_factory) -> dict[str, str]:
    """Files and directories as text."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "corpus.tsv").write_text("doc_id\ttitle\na\tred fox\nb\towl\n", "utf-8")
    (folder / "clicks.tsv").write_text("query\ttitle\nfox\tred fox\nowl\towl\n", "utf-8")
    (folder / "judgments.tsv").write_text(
        "query_id\tquery\tdoc_id\ttitle\tgrade\n1\tfox\ta\tred fox\t1\n", "utf-8"
    )
    tables = {name: str(folder / f"{name}.tsv") for name in ("corpus", "clicks", "judgments")}
    return tables | {
        "run": str(run), "data": str(data.path), "compact": str(compact), "folder": str(folder)
    }  # fmt: skip


@pytest.mark.long
def test_functions_of_files_run_with_text(texts, capsys):
    folder, run, corpus = texts["folder"], texts["run"], texts["corpus"]
    dssm_tf.index(model=run, corpus=corpus, out=f"{folder}/index")
    dssm_tf.search("fox", index=f"{folder}/index", format="tsv", k=1)
    assert capsys.readouterr().out.splitlines()[1].startswith("fox\tsemantic\t1\t")
    dssm_tf.embed(model=run, input=corpus, out=f"{folder}/vectors.parquet")
    dssm_tf.export_model(model=run, out=f"{folder}/export", format="compact")
    dssm_tf.split(clicks=texts["clicks"], out=f"{folder}/split", hold_out_queries=0.5)
    dssm_tf.mine(texts["data"], f"{folder}/mined.tsv", {"mine": run})
    dssm_tf.teach(data=texts["data"], model=run, out=f"{folder}/scores.tsv")
    dssm_tf.ClickData(texts["data"], DSSM)
    assert len(dssm_tf.Index.open(f"{folder}/index")) == 2
    assert len(dssm_tf.Index.build(texts["compact"], corpus)) == 2
    assert dssm_tf.load(run).search("fox", corpus=corpus, k=1).height == 1
    result = dssm_tf.evaluate({"mine": run}, texts["judgments"], corpus, metrics=["mrr@10"])
    assert 0 < result.mean("mine", "mrr@10") <= 1


def test_functions_check_text_as_paths(texts):
    existing, run = texts["folder"], texts["run"]
    calls = [
        lambda: dssm_tf.convert("wands", existing, existing),
        lambda: dssm_tf.demo(out=existing),
        lambda: dssm_tf.report(model=run, out=existing),
        lambda: dssm_tf.run_benchmark(clicks=texts["clicks"], judge_later=0.5, out=existing),
        lambda: dssm_tf.serve(index=existing, port=0, rest_port=0),
        lambda: dssm_tf.tune(data=(existing,), out=f"{existing}/tune", grid=("loss.gamma=1",)),
        lambda: dssm_tf.train(data=existing, out=f"{existing}/new"),
    ]
    for call in calls:
        with pytest.raises(UserError, match=existing):
            call()

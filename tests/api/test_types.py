"""The public interface has types: mypy accepts, strictly, a file as users write it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import dssm_tf

GOOD = """\
from pathlib import Path

import polars as pl
from typing_extensions import assert_type

import dssm_tf

log = pl.DataFrame({"query": ["fox"], "title": ["red fox"]})
model = dssm_tf.train(clicks=log, corpus="corpus.tsv", out=Path("RUN"), min_clicks=2)
assert_type(model, dssm_tf.Model)
model = dssm_tf.train(data="DATA", out="RUN", config={"tower": {"name": "dssm"}})
dssm_tf.preprocess(input=[log, "more.tsv"], output=Path("DATA"), columns={"query": "q"})
assert_type(model.search("fox", k=3), pl.DataFrame)
assert_type(model.search(["fox", "owl"]), pl.DataFrame)
assert_type(model.search(log.rename({"title": "qid"})), pl.DataFrame)
assert_type(model.rank("fox", ["red fox"], k=1), pl.DataFrame)
assert_type(model.transform(log), pl.DataFrame)
assert_type(model.path, Path | None)
model.save("MODEL")
index = dssm_tf.Index.build(dssm_tf.load(Path("MODEL")), ["red fox"])
index.save(Path("INDEX"))
assert_type(dssm_tf.Index.open("INDEX").search("fox"), pl.DataFrame)
result = dssm_tf.evaluate({"bm25": "bm25", "mine": model}, log, "corpus.tsv")
assert_type(result, dssm_tf.EvaluationResult)
assert_type(result.to_frame(), pl.DataFrame)
result.plot().savefig("means.png")
for test in result.comparisons:
    assert_type(test.p_adjusted, float)
dssm_tf.index(model="RUN", corpus=Path("corpus.tsv"), out="INDEX", clicks=("clicks.tsv",))
dssm_tf.export_model(model="RUN", out=Path("EXPORT"), format="compact")
dssm_tf.run_benchmark(clicks=("clicks.tsv",), judge_later=0.2, out="BENCH", model=(Path("RUN"),))
dssm_tf.explain(model, "fox", "red fox").sentences()
dssm_tf.search("fox", index="INDEX", tables=dssm_tf.TableFlags(columns="title=name"))
"""
WRONG = """\
import dssm_tf

dssm_tf.train(clicks="clicks.tsv", min_click=2)
dssm_tf.load(3)
dssm_tf.load("RUN").search(3)
dssm_tf.export_model(model="RUN", out="EXPORT", format="compacted")
"""


@pytest.mark.slow
def test_mypy_accepts_correct_calls_strictly_and_finds_wrong_ones(tmp_path, checkout):
    (tmp_path / "good.py").write_text(GOOD, "utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, "utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = pydantic.mypy\n", "utf-8")
    mypy = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
         f"--cache-dir={tmp_path / 'cache'}", "--no-error-summary", "--hide-error-context",
         "good.py", "wrong.py"],
        cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": str(checkout)},
    )  # fmt: skip
    # mypy would not check the package itself if it were installed.
    errors = re.findall(r"^(?:good|wrong)\.py:.*: error: .*$", mypy.stdout, re.M)
    lines = sorted({":".join(line.split(":")[:2]) for line in errors})
    assert lines == [f"wrong.py:{line}" for line in (3, 4, 5, 6)], mypy.stdout + mypy.stderr


def test_every_public_function_and_method_has_types():
    import inspect

    for name in dssm_tf.__all__:
        value = getattr(dssm_tf, name)
        functions = [value] if inspect.isfunction(value) else []
        if inspect.isclass(value):
            functions = [
                function
                for key, function in vars(value).items()
                if inspect.isfunction(function) and key[0] != "_"
            ]
        for function in functions:
            hints = function.__annotations__
            parameters = {*inspect.signature(function).parameters} - {"self", "cls"}
            assert parameters | {"return"} <= {*hints}, f"{name}: {function.__qualname__}"

"""Every writer renames: a file or directory has its name only when it is complete."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_WRITING_METHODS = {"write_text", "write_bytes", "save_weights", "savefig", "write_feather"}
_WRITING_MODES = set("wax+")


def writers(source: str) -> set[str]:
    """The functions of a module that open a file for writing by its path, without `atomic_write`.

    Archives and tables that are written into an open file have its name as their first argument.
    """
    found = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, (ast.FunctionDef, ast.Module)):
            calls = [node for node in own_nodes(function) if isinstance(node, ast.Call)]
            if any(map(is_writing, calls)):
                found.add(getattr(function, "name", "the module"))
    return found


def own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function without those of the functions in it."""
    nodes, queue = [], [*ast.iter_child_nodes(function)]
    while queue:
        node = queue.pop()
        nodes.append(node)
        if not isinstance(node, ast.FunctionDef):
            queue += ast.iter_child_nodes(node)
    return nodes


def is_writing(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _WRITING_METHODS:
        return True
    called = ast.unparse(function)
    if called in ("np.save", "np.savez", "np.savez_compressed", "tf.saved_model.save"):
        return not opened_by_caller(call.args[-1] if "saved_model" in called else call.args[0])
    if called in ("parquet.write_table", "pq.write_table"):
        return not opened_by_caller(call.args[1])
    if called == "open" or called.endswith(".open"):
        position = 1 if called == "open" else 0
        modes = [*call.args[position : position + 1]]
        modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
        return any(
            isinstance(mode, ast.Constant)
            and isinstance(mode.value, str)
            and len(mode.value) <= 3
            and not _WRITING_MODES.isdisjoint(mode.value)
            for mode in modes
        )
    return False


def opened_by_caller(target: ast.expr) -> bool:
    """Whether the target of a library's writer is an open file or a buffer and not a path."""
    return isinstance(target, ast.Name) and target.id in ("file", "content", "sink")


EXPECTED = {
    # An unfinished directory, which the command renames when all is written.
    "dssm_tf/analysis/rendering.py: write",
    "dssm_tf/api/click_data.py: save",
    "dssm_tf/common/notes.py: write_notes",
    "dssm_tf/datasets/output.py: __init__",
    "dssm_tf/export/compact.py: set_search_rules",
    "dssm_tf/export/compact.py: write_compact",
    "dssm_tf/export/saved_model.py: export_saved_model",
    "dssm_tf/export/search_engine/write.py: _write_expansions",
    "dssm_tf/export/search_engine/write.py: _write_json",
    "dssm_tf/export/search_engine/write.py: _write_table",
    "dssm_tf/export/search_engine/write.py: write_search_engine",
    "dssm_tf/reports/figures.py: save",
    "dssm_tf/retrieval/index.py: write",
    "dssm_tf/runtime/remembered_clicks.py: save",
    "dssm_tf/retrieval/maxsim_files.py: write_files",
    "dssm_tf/retrieval/maxsim_index.py: write",
    "pipelines/launcher.py: _write_rejects",
    "pipelines/report.py: write_report",
    "pipelines/shards.py: emit",
    # Renames the file itself, because Keras demands a path.
    "dssm_tf/training/run_directory.py: finish_run",
    # Appends the output of a process to a log, which nothing reads.
    "dssm_tf/benchmark/benchmark.py: fit_in_process",
    # Appends rankings to a file of an unfinished run, which the same command continues.
    "dssm_tf/datasets/engine_run.py: _read_partial",
    "dssm_tf/datasets/engine_run.py: write_engine_run",
    # Files in temporary directories of one call, and an image in memory.
    "dssm_tf/api/preprocessing.py: _files",
    "dssm_tf/reports/figures.py: _repr_png_",
    # The null device.
    "dssm_tf/common/command_runner.py: run_command",
    # Writes the documentation of this repository.
    "dssm_tf/config/reference.py: main",
}
"""The functions that open files for writing by their path."""


def test_files_are_opened_for_writing_only_in_directories_that_are_renamed():
    functions = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in ("dssm_tf", "pipelines", "serving")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in writers(path.read_text("utf-8"))
    }
    assert functions == EXPECTED, (
        "write with `atomic_write`; or in `atomic_directory`, and say so in EXPECTED"
    )


def test_writers_are_recognized():
    source = """
def write(path):
    path.{call}

def read(path):
    path.open("rb")
    np.save(file, array)

def outer(path):
    def inner():
        open(path, mode="a")
"""
    for call in ('open("wb")', 'write_text("x")', 'open(mode="x")'):
        assert writers(source.replace("{call}", call)) == {"write", "inner"}

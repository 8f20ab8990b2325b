"""TensorFlow is imported without messages and without JAX; later messages are not suppressed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOAD = "from dssm_tf.common.quiet import load_tensorflow; load_tensorflow()\n"


def stderr_of(code: str, before: str = "", **environment: str) -> str:
    command = [sys.executable, "-c", f"{before}\n{LOAD}{code}"]
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert not process.stdout
    return process.stderr


@pytest.mark.long
def test_tensorflow_writes_nothing_and_later_output_is_not_suppressed():
    # At a prompt and in a notebook TensorFlow's import sets its logger to INFO.
    before = "import sys, logging; sys.ps1 = '> '"
    use = "import tensorflow as tf; tf.constant(1.0) + 1"
    log = "logging.getLogger('tensorflow').info('Assets written')"
    stderr = stderr_of(f"{use}; {log}; import os; os.write(2, b'of C++\\n'); 1 / 0", before)
    assert stderr.startswith("of C++\n")
    assert "ZeroDivisionError: division by zero" in stderr


def test_an_import_that_fails_raises_its_error(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no such library')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])
    assert "ImportError: no such library" in stderr_of("", PYTHONPATH=path)


def test_with_debugging_load_tensorflow_does_nothing():
    code = "import sys; print('tensorflow' in sys.modules, file=sys.stderr)"
    assert stderr_of(code, DSSM_DEBUG="1") == "False\n"


@pytest.mark.parametrize(
    ("environment", "file", "imported"),
    [({}, "", "False"), ({"KERAS_BACKEND": "jax"}, "", "True"), ({}, '{"backend": "jax"}', "True")],
)
def test_jax_is_imported_with_tensorflow_only_as_the_backend_of_keras(
    tmp_path, environment, file, imported
):
    (tmp_path / "jax.py").write_text("")
    (tmp_path / "tensorflow.py").write_text(
        "try:\n    import jax\nexcept ImportError:\n    jax = None"
    )
    (tmp_path / "keras.json").write_text(file)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])
    environment = {"KERAS_BACKEND": "", "KERAS_HOME": str(tmp_path)} | environment
    code = "import sys, tensorflow; print(tensorflow.jax is not None, file=sys.stderr); import jax"
    assert stderr_of(code, PYTHONPATH=path, **environment) == f"{imported}\n"


@pytest.mark.parametrize(("arguments", "plots"), [("with_plots=False", False), ("", True)])
def test_libraries_for_plots_are_imported_with_tensorflow_unless_told_otherwise(
    tmp_path, arguments, plots
):
    (tmp_path / "matplotlib.py").write_text("")
    (tmp_path / "tensorflow.py").write_text(
        "try:\n    import matplotlib as plots\nexcept ImportError:\n    plots = None"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])
    before = "from dssm_tf.common.quiet import load_tensorflow"
    before += f"; load_tensorflow({arguments})"
    code = (
        "import sys, tensorflow; print(bool(tensorflow.plots), file=sys.stderr); import matplotlib"
    )
    assert stderr_of(code, before, PYTHONPATH=path) == f"{plots}\n"

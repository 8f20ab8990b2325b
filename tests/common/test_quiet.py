"""What TensorFlow's C++ writes as it is imported is dropped; everything else passes."""

from __future__ import annotations

import os
import subprocess
import sys

LOAD = "from dssm_tf.common.quiet import load_tensorflow; load_tensorflow()\n"


def stderr_of(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOAD + code],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    return done.stderr


def test_nothing_is_shown_while_tensorflow_is_imported_and_used():
    assert stderr_of("import tensorflow as tf; tf.constant(1.0) + 1") == ""


def test_what_comes_afterwards_passes():
    found = stderr_of("import os; os.write(2, b'of C++\\n'); 1 / 0")
    assert found.startswith("of C++\n")
    assert "ZeroDivisionError: division by zero" in found


def test_an_import_that_fails_is_not_swallowed(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no such library')")
    assert "ImportError: no such library" in stderr_of("", PYTHONPATH=path(tmp_path))


def test_with_debugging_on_tensorflow_is_left_alone():
    code = "import sys; print('tensorflow' in sys.modules, file=sys.stderr)"
    assert stderr_of(code, DSSM_DEBUG="1") == "False\n"


def path(first: object) -> str:
    return os.pathsep.join([str(first), os.environ.get("PYTHONPATH", os.getcwd())])


def test_python_s_own_logging_is_quiet_at_a_prompt_and_in_a_notebook_too():
    # There TensorFlow's import sets its logger to INFO.
    told = "import logging; logging.getLogger('tensorflow').info('Assets written')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.ps1 = '> '\n{LOAD}{told}"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")

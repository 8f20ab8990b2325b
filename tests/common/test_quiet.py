"""What TensorFlow's C++ writes as it is imported is dropped; everything else passes."""

from __future__ import annotations

import os
import subprocess
import sys

LOAD = "from dssm_tf.common.quiet import load_tensorflow; load_tensorflow()\n"


def stderr_of(code: str, before: str = "", **environment: str) -> str:
    command = [sys.executable, "-c", f"{before}\n{LOAD}{code}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert not done.stdout
    return done.stderr


def test_nothing_is_shown_while_tensorflow_is_imported_and_used():
    assert stderr_of("import tensorflow as tf; tf.constant(1.0) + 1") == ""


def test_what_comes_afterwards_passes():
    found = stderr_of("import os; os.write(2, b'of C++\\n'); 1 / 0")
    assert found.startswith("of C++\n")
    assert "ZeroDivisionError: division by zero" in found


def test_an_import_that_fails_is_not_swallowed(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no such library')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])
    assert "ImportError: no such library" in stderr_of("", PYTHONPATH=path)


def test_with_debugging_on_tensorflow_is_left_alone():
    code = "import sys; print('tensorflow' in sys.modules, file=sys.stderr)"
    assert stderr_of(code, DSSM_DEBUG="1") == "False\n"


def test_python_s_own_logging_is_quiet_at_a_prompt_and_in_a_notebook_too():
    # There TensorFlow's import sets its logger to INFO.
    told = "import logging; logging.getLogger('tensorflow').info('Assets written')"
    assert stderr_of(told, before="import sys; sys.ps1 = '> '") == ""

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


def test_nothing_is_shown_of_tensorflow_and_what_comes_afterwards_passes():
    # At a prompt and in a notebook TensorFlow's import sets its logger to INFO.
    before = "import sys, logging; sys.ps1 = '> '"
    used = "import tensorflow as tf; tf.constant(1.0) + 1"
    told = "logging.getLogger('tensorflow').info('Assets written')"
    found = stderr_of(f"{used}; {told}; import os; os.write(2, b'of C++\\n'); 1 / 0", before)
    assert found.startswith("of C++\n")
    assert "ZeroDivisionError: division by zero" in found


def test_an_import_that_fails_is_not_swallowed(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no such library')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", os.getcwd())])
    assert "ImportError: no such library" in stderr_of("", PYTHONPATH=path)


def test_with_debugging_on_tensorflow_is_left_alone():
    code = "import sys; print('tensorflow' in sys.modules, file=sys.stderr)"
    assert stderr_of(code, DSSM_DEBUG="1") == "False\n"

"""The client imports neither TensorFlow nor this package."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from serving.client import Client
with Client(sys.argv[1], "tiny") as client:
    print(*client.score("red shoes", ["red hat"]))
sys.exit(sorted({"tensorflow", "keras", "dssm_tf", "tensorflow_serving"} & set(sys.modules)) or 0)
"""


def test_a_request_imports_no_tensorflow(checkout, grpc_address):
    process = subprocess.run(
        [sys.executable, "-c", CODE, grpc_address], cwd=checkout, capture_output=True, text=True
    )
    # The inner product of (letters, words, 1): 9 * 7 + 2 * 2 + 1.
    assert (process.returncode, process.stderr, process.stdout) == (0, "", "68.0\n")

"""What asking a server does not import."""

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


def test_asking_imports_no_tensorflow(checkout, grpc_address):
    done = subprocess.run(
        [sys.executable, "-c", CODE, grpc_address], cwd=checkout, capture_output=True, text=True
    )
    # Letters by letters, words by words, and 1: 9 * 7 + 2 * 2 + 1.
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "68.0\n")

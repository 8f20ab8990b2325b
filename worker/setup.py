"""Installs the package on a Beam worker, with its dependencies except TensorFlow.

Runners build it from here (`--setup_file=./worker/setup.py`), images too (`worker/Dockerfile`).
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent

setup(
    name="dssm-tf-worker",
    version=re.search(
        r'^__version__ = "([^"]+)"$', (ROOT / "dssm_tf" / "__init__.py").read_text("utf-8"), re.M
    ).group(1),
    description="The parts of dssm-tf that run on Beam workers",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["dssm_tf", "dssm_tf.*", "pipelines", "pipelines.*"]),
    package_data={"dssm_tf": ["text/*.tsv"]},
    # As in ../setup.py, whose comments say why.
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "cyclopts>=4.25,<6",
        "google-crc32c",
        "numpy>=1.26",
        "polars>=2,<3",
        "protobuf>=4.25",
        "pyarrow",
        "pydantic>=2,<3",
    ],
    extras_require={
        "aws": ["apache-beam[aws]>=2.77,<2.78"],
        "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
        # `pipelines.embed` with a run or a SavedModel; a compact export needs none of it
        "model": ["keras>=3.12,<3.16", "pyyaml>=6", "tensorflow>=2.21,<2.22"],
    },
)

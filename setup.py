"""The package's metadata and dependencies.

Beam's workers install what worker/setup.py says; pyproject.toml configures tools.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = re.search(
    r'^__version__ = "([^"]+)"$', (ROOT / "dssm_tf" / "__init__.py").read_text("utf-8"), re.M
).group(1)

EXTRAS = {
    "serving": [
        "grpcio",
        "protobuf>=4.25",
    ],
    "serve": [
        "grpcio",
        "grpcio-health-checking",
        "httptools",  # uvicorn's faster parser
        "jinja2",
        "prometheus_client",
        "protobuf>=5.26",
        "starlette",
        "uvicorn>=0.30",
    ],
    "search": ["faiss-cpu>=1.8", "numba>=0.61"],
    "baselines": ["gensim>=4.3.3", "scikit-learn>=1.3", "tomotopy>=0.13"],
    # `dssm benchmark --encoder`; transformers 4 imports tf-keras where it finds TensorFlow.
    "encoders": ["sentence-transformers>=5", "tf-keras>=2.21,<2.22"],
    "wordllama": ["wordllama>=0.4"],  # `start.vectors=wordllama`
    # Markdown as rich has it needs a myst-parser of Python 3.11 and newer.
    "docs": [
        f"{package}; python_version >= '3.11'"
        for package in ("furo", "myst-parser>=5", "sphinx>=8.2")
    ],
    "aws": ["apache-beam[aws]>=2.77,<2.78"],
    "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
    "gpu": ["tensorflow[and-cuda]>=2.21,<2.22"],
    "tensorboard": ["tensorboard>=2.20"],  # `dssm train --tensorboard`
    "tune": ["optuna>=4.4,<5"],
    "datasets": ["ir_datasets>=0.5.6"],  # `dssm_tf.load_ir_dataset`
    "dev": [
        "boto3",
        "build",
        "flask",  # moto's server
        "flask-cors",
        "hypothesis",
        "import-linter",
        "ipykernel",  # runs the notebook of docs/ in its test
        "ir_measures",
        "jax",  # the other Keras backend the towers are tested on
        "jsonschema",
        "moto[s3]",  # an object store, for the tests
        "mypy",
        "nbclient",
        "pandas>=2.2",
        "pytest>=8.2",
        "pytest-xdist>=3.7",
        "qdrant-client",  # a recipe of docs/vector_engines.md runs in its memory
        "ruff",
        "tensorboard",
        "types-PyYAML",
    ],
}

setup(
    name="dssm-tf",
    version=VERSION,
    description="Small search models, trained on your own catalog and click log",
    long_description=(
        (ROOT / "README.md").read_text("utf-8") if (ROOT / "README.md").exists() else ""
    ),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Indexing",
    ],
    python_requires=">=3.10",
    # configs/ lies at the top of the checkout, where people look for it; an installation has it
    # inside the package, as dssm_tf/configs.
    packages=[
        *find_packages(
            include=["dssm_tf", "dssm_tf.*", "pipelines", "pipelines.*", "serving", "serving.*"]
        ),
        "dssm_tf.configs",
    ],
    package_dir={"dssm_tf.configs": "configs"},
    package_data={
        "dssm_tf": [
            "py.typed",
            "*.pyi",
            "datasets/*/*",
            "text/*.tsv",
            "export/search_engine/*.md",
            "**/*.html",
            "**/*.css",
            "**/*.js",
        ],
        "dssm_tf.configs": ["*.yaml", "**/*.yaml", "schema.json"],
        "serving": ["tfserving/*", "tfserving/**/*"],
    },
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "bm25s>=0.2",
        "cyclopts>=4.25,<6",
        "filelock",
        "google-crc32c",  # checksums of TFRecords; Beam looks for it too
        "importlib_resources",  # tensorflow-datasets imports it without asking for it
        "keras>=3.12,<3.16",  # `make test-keras` runs on the lowest; constraints.txt has the newest
        "markdown-it-py>=3",
        "matplotlib>=3.8",
        "narwhals>=2",  # results as frames of the library of the input
        "numpy>=1.26",
        "protobuf>=4.25",
        "polars>=2,<3",  # preprocess; its API changes with each major version
        "pyarrow",
        "python-dateutil",
        "pydantic>=2,<3",
        "pyyaml>=6",
        "rich>=13",
        "scipy>=1.11",
        "tabulate>=0.9",
        "tensorflow>=2.21,<2.22",
        "tensorflow-datasets>=4.9.9",
        "tensorflow-ranking==0.5.3",  # its metrics, through evaluation/tf_ranking.py
        "tensorflow-serving-api>=2.21,<2.22",  # messages of the warm-up requests
        "typing-extensions",
        "urllib3>=2",  # `dssm data run`
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["dssm = dssm_tf.cli:main"]},
)

"""`dssm-runtime`: of this package what a machine needs that only answers, with NumPy alone.

    pip install ./serving/runtime

A distribution of its own, since dssm-tf brings TensorFlow and Beam, and an extra can
add requirements but not take them away. It holds the same files under the same names as `dssm-tf`,
which has all of them: install one of the two.
"""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(
    r'^__version__ = "([^"]+)"$', (ROOT / "dssm_tf" / "__init__.py").read_text("utf-8"), re.M
).group(1)

setup(
    name="dssm-runtime",
    version=VERSION,
    description="Semantic rankers of dssm-tf without TensorFlow: NumPy alone",
    long_description=(ROOT / "docs" / "runtime.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=["dssm_tf", "dssm_tf.common", "dssm_tf.runtime", "dssm_tf.text"],
    package_dir={"dssm_tf": "../../dssm_tf"},
    package_data={"dssm_tf.text": ["*.tsv"]},
    install_requires=["numpy>=1.26"],
)

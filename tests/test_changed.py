"""Selection of the tests that `make test-changed` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changed import affected_tests

FILES = {
    "dssm_tf/__init__.py": "",
    "dssm_tf/deep/__init__.py": "from dssm_tf.deep.inner import value",
    "dssm_tf/deep/inner.py": "value = open('table.tsv')",
    "dssm_tf/lazy.py": "LAZY_IMPORTS = {'value': 'dssm_tf.deep:value'}",
    "dssm_tf/commands/show.py": "def show():\n    import dssm_tf.lazy",
    "dssm_tf/prose.py": "'''Says what dssm_tf.deep does.'''",
    "dssm_tf/cli.py": "def main(name):\n    return __import__(f'dssm_tf.commands.{name}')",
    "tests/conftest.py": "",
    "tests/deep/conftest.py": "",
    "tests/deep/test_inner.py": "from dssm_tf.deep import value",
    "tests/test_lazy.py": "from dssm_tf.lazy import LAZY_IMPORTS",
    "tests/test_prose.py": "import dssm_tf.prose",
    "tests/test_cli.py": "COMMAND = 'python -c \"from dssm_tf.cli import main\"'",
}
INNER = {"tests/deep/test_inner.py", "tests/test_lazy.py", "tests/test_cli.py"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("dssm_tf/deep/inner.py", INNER),
        ("dssm_tf/deep/table.tsv", INNER),
        ("dssm_tf/lazy.py", {"tests/test_lazy.py", "tests/test_cli.py"}),
        ("dssm_tf/prose.py", {"tests/test_prose.py"}),
        ("tests/deep/conftest.py", {"tests/deep/test_inner.py"}),
        ("tests/test_lazy.py", {"tests/test_lazy.py"}),
        ("docs/page.md", set()),
    ],
)
def test_a_change_selects_the_tests_that_use_it(tmp_path, changed, expected):
    for name, source in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert {str(path) for path in affected_tests([Path(changed)], tmp_path)} == expected


def test_a_change_of_a_baseline_selects_its_tests_and_the_contract_test(checkout):
    test_files = affected_tests([Path("dssm_tf/baselines/ulm.py")], checkout)
    assert {"test_ulm.py", "test_contract.py"} <= {path.name for path in test_files}
    assert "test_peephole_lstm.py" not in {path.name for path in test_files}

"""The package: files of the distributions, cost of imports, and installation."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import dssm_tf
from tests.script import python

NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)
PACKAGES = ("dssm_tf", "pipelines", "serving")
NOT_INSTALLED = {"serving/README.md", "serving/predict.proto", "serving/runtime/pyproject.toml"}
"""Files of the packages that only the checkout needs."""
DOCUMENTED_PACKAGES = {
    "pipelines",
    *(
        f"dssm_tf/{path.parent.name}"
        for path in Path(dssm_tf.__file__).parent.glob("*/__init__.py")
    ),
} - {"dssm_tf/api", "dssm_tf/benchmark", "dssm_tf/commands"}
"""The packages whose docstring lists what they import. The others may import nearly all."""
HEAVY = {"tensorflow", "keras", "apache_beam", "matplotlib", "tensorflow_ranking", "sklearn"}
# Functions that a Beam worker calls per row; they must not import any model code.
WORKER_FUNCTIONS = """
import sys
import dssm_tf.text.vocabulary
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
assert FOLDED.key("  Ice   CREAM?  ") == "ice cream"
assert letter_ngrams("cat") == ["#ca", "cat", "at#"]
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a command and returns its output; a failure shows its errors."""
    process = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout


@pytest.fixture(scope="module")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution, built from a copy of the checkout without network."""
    folder = tmp_path_factory.mktemp("distributions")
    source = shutil.copytree(checkout, folder / "source", ignore=NOT_SOURCE)
    # The wheel is built from the source distribution, so files missing there are missing here too.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def install(folder: Path, *requirements: str | Path) -> Path:
    """Installs requirements into an empty environment; returns its `bin` directory."""
    bin_directory = folder / "environment" / "bin"
    venv.create(bin_directory.parent, with_pip=True)
    run(bin_directory / "python", "-m", "pip", "install", "--quiet", *requirements)
    return bin_directory


def test_the_import_contract_covers_every_package(checkout):
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    contracts = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in contracts["tool"]["importlinter"]["contracts"]
        if "dssm_tf.cli" in contract.get("layers", ())
    )
    covered = {name.strip() for layer in layers for name in layer.split("|")}
    packages = {
        f"dssm_tf.{path.stem}"
        for path in (checkout / "dssm_tf").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - covered == {"dssm_tf.__init__"}  # it imports nothing
    assert covered - packages == {"pipelines"}


@pytest.mark.parametrize("package", sorted(DOCUMENTED_PACKAGES))
def test_the_docstring_of_a_package_names_every_package_that_it_imports(checkout, package):
    folder = checkout / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    imports = {
        name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dssm_tf.")
        for name in [str(node.module).split(".")[1]]
        if (checkout / "dssm_tf" / name).is_dir() and name != folder.name
    }
    sentence = str(docstring).partition("May import")[2]
    assert {name for name in imports if not re.search(rf"\b{name}\b", sentence)} == set()


def test_no_class_is_one_that_python_3_10_refuses(checkout):
    """Mypy does not report them: a named tuple with another base, and `ClassVar` without a type."""
    for package in PACKAGES:
        for path in (checkout / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef) and len(node.bases) > 1:
                    names = {base.id for base in node.bases if isinstance(base, ast.Name)}
                    assert not names & {"NamedTuple", "TypedDict"}, f"{path}: {node.name}"
                if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name):
                    assert node.annotation.id != "ClassVar", f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("file", "phrases"),
    [
        ("LICENSE", ("Version 2.0, January 2004", "END OF TERMS AND CONDITIONS")),
        ("NOTICE", ("Berant",)),
        ("dssm_tf/datasets/webquestions/ATTRIBUTION.md", ("CC BY 4.0", "Berant")),
        ("dssm_tf/datasets/cora/ATTRIBUTION.md", ("MIT license", "Planetoid")),
    ],
)
def test_the_license_and_the_attributions_of_shipped_data_are_complete(checkout, file, phrases):
    text = (checkout / file).read_text("utf-8")
    assert all(phrase in text for phrase in phrases)


def test_the_wheel_contains_every_file_of_the_packages(checkout, distributions):
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = set(wheel.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        description = wheel.read(metadata).decode("utf-8")
    expected = {
        f"{'dssm_tf/' if folder == 'configs' else ''}{path.relative_to(checkout).as_posix()}"
        for folder in (*PACKAGES, "configs")
        for path in (checkout / folder).rglob("*.*")
        if path.is_file() and path.parent.name != "__pycache__"
    } - NOT_INSTALLED
    assert {"dssm_tf/py.typed", "dssm_tf/configs/schema.json"} <= expected
    assert expected <= names, sorted(expected - names)
    assert not [name for name in names if name.startswith("tests/")]
    assert f"\nVersion: {dssm_tf.__version__}\n" in description


def test_the_source_distribution_has_the_documents_that_it_is_released_with(distributions):
    with tarfile.open(distributions["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names > {"CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "README.md", "SECURITY.md"}


def test_the_worker_functions_run_without_any_dependency(tmp_path, distributions):
    """Beam workers may have no TensorFlow."""
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        wheel.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WORKER_FUNCTIONS}"
    # -I and -S: without the installed packages, and without this checkout.
    run(sys.executable, "-I", "-S", "-c", code, cwd=tmp_path)


@pytest.mark.slow
def test_a_source_distribution_installs_and_runs_in_an_empty_environment(
    tmp_path, checkout, distributions
):
    constraints = checkout / "constraints.txt"
    bin_directory = install(tmp_path, "-c", constraints, distributions["sdist"])
    run(bin_directory / "python", "-c", WORKER_FUNCTIONS, cwd=tmp_path)
    for command, expected in (
        ([bin_directory / "dssm"], "usage: dssm"),
        ([bin_directory / "python", "-m", "pipelines.preprocess"], "--input"),
    ):
        assert expected in run(*command, "--help", cwd=tmp_path)


@pytest.mark.parametrize(
    "code", ["import dssm_tf", "from dssm_tf.cli import main; assert main(['--help']) == 0"]
)
def test_starting_prints_nothing_and_imports_few_modules(code):
    """Counts modules because times depend on the machine and its load."""
    *_, last = python(f"{code}\nimport sys; print(*sys.modules)").splitlines()
    modules = set(last.split())
    assert not {*HEAVY, "numpy", "rich"} & modules
    assert len(modules) < 300  # Python alone has about 70, NumPy alone 100 more

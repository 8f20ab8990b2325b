"""The public names of `dssm_tf`, and the modules that importing it loads."""

from __future__ import annotations

import inspect
import pkgutil
import re

import pytest

import dssm_tf
from tests.script import python


@pytest.mark.parametrize("name", [name for name in dssm_tf.__all__ if name[0] != "_"])
def test_every_public_name_exists_and_has_a_docstring(name):
    value = getattr(dssm_tf, name)
    assert inspect.getdoc(value)
    assert name in dir(dssm_tf)
    assert getattr(dssm_tf, name) is value


def test_type_checkers_read_the_same_names(checkout):
    stub = (checkout / "dssm_tf" / "__init__.pyi").read_text("utf-8")
    names = set(re.findall(r" as (\w+)", stub)) | {"__version__"}
    assert names == set(dssm_tf.__all__)


def test_no_public_name_equals_the_name_of_a_module_or_package():
    modules = {module.name for module in pkgutil.iter_modules(dssm_tf.__path__)} | {"configs"}
    assert {"benchmark", "export", "cli"} < modules
    assert modules.isdisjoint(dssm_tf.__all__)


IMPORT_ALL = """
import importlib, pkgutil, sys, types
import dssm_tf
from dssm_tf.common.quiet import load_tensorflow
load_tensorflow()
names = [module.name for module in pkgutil.walk_packages(dssm_tf.__path__, "dssm_tf.")]
for name in sorted(names, reverse=sys.argv[1] == "last name first"):
    importlib.import_module(name)
for name in dssm_tf.__all__:
    value = getattr(dssm_tf, name)
    assert not isinstance(value, types.ModuleType), name
    assert isinstance(value, str) or value.__name__ == name, name
for name in names:
    assert isinstance(eval(name), types.ModuleType), name
assert type(dssm_tf) is types.ModuleType
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "order", ["first name first", pytest.param("last name first", marks=pytest.mark.slow)]
)
def test_importing_modules_does_not_replace_public_names(order):
    python(IMPORT_ALL, order)


def test_a_module_of_a_package_can_be_imported_under_another_name():
    python("import dssm_tf.benchmark.folds as f, dssm_tf.export.signatures as s; f.grid, s.INPUTS")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        dssm_tf.lode  # noqa: B018


def test_a_wrong_path_or_configuration_is_refused_before_tensorflow_is_loaded(tmp_path):
    code = f"""
import sys, dssm_tf
for call in (lambda: dssm_tf.load({str(tmp_path)!r}), lambda: dssm_tf.ClickData("D", "lstn")):
    try:
        call()
    except dssm_tf.UserError as error:
        print(error)
assert not {{"tensorflow", "keras", "apache_beam"}} & set(sys.modules)
"""
    first, second = python(code).splitlines()
    assert first.startswith(f"{tmp_path} contains no trained model; expected ")
    assert "Did you mean 'lstm'?" in second


def test_a_compact_model_ranks_and_explains_without_tensorflow(compact):
    code = f"""
import sys, dssm_tf
model = dssm_tf.load({str(compact)!r})
best, other = model.rank("red fox", ["owl", "the red fox"])["score"]
assert best > other and model.encode_titles(["owl"]).shape == (1, 6)
assert dssm_tf.explain(model, "red fox", "the red fox").sentences()
print(sorted({{"tensorflow", "keras", "apache_beam", "scipy"}} & set(sys.modules)))
"""
    assert python(code) == "[]\n"

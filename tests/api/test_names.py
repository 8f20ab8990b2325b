"""What `import dssm_tf` offers, and what it costs."""

from __future__ import annotations

import inspect
import re

import pytest

import dssm_tf
from tests.script import python


@pytest.mark.parametrize("name", [name for name in dssm_tf.__all__ if name[0] != "_"])
def test_every_public_name_is_there_and_documented(name):
    value = getattr(dssm_tf, name)
    assert inspect.getdoc(value)
    assert name in dir(dssm_tf)
    assert getattr(dssm_tf, name) is value


def test_type_checkers_read_the_same_names(checkout):
    stub = (checkout / "dssm_tf" / "__init__.pyi").read_text("utf-8")
    names = set(re.findall(r" as (\w+)", stub)) | {"__version__"}
    assert names == set(dssm_tf.__all__)


@pytest.mark.parametrize("name", ["benchmark", "export"])
@pytest.mark.parametrize("first", ["import dssm_tf.{}.{}", "import dssm_tf; dssm_tf.{}"])
def test_a_command_is_a_call_whether_the_package_of_its_name_was_imported_or_not(name, first):
    module = {"benchmark": "fit", "export": "load"}[name]
    code = f"""
import dssm_tf
{first.format(name, module)}
from dssm_tf.{name}.{module} import __name__
import dssm_tf.{name}.{module}
assert dssm_tf.{name}.__module__ == "dssm_tf.commands.{name}", dssm_tf.{name}
from dssm_tf import {name}
assert callable({name})
"""
    python(code, PYTHONWARNINGS="error")


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
    assert first.startswith(f"{tmp_path} holds no trained model; expected ")
    assert "Did you mean 'lstm'?" in second


def test_a_compact_model_is_loaded_asked_and_explained_without_tensorflow(compact):
    code = f"""
import sys, dssm_tf
model = dssm_tf.load({str(compact)!r})
best, other = model.rank("red fox", ["owl", "the red fox"])
assert best.score > other.score and model.encode_titles(["owl"]).shape == (1, 6)
assert dssm_tf.explain(model, "red fox", "the red fox").sentences()
print(sorted({{"tensorflow", "keras", "apache_beam", "scipy"}} & set(sys.modules)))
"""
    assert python(code) == "[]\n"

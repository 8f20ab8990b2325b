"""Importing a module changes nothing else in the process."""

from __future__ import annotations

import pytest

from tests.script import python

COMMON = """
import importlib, json, pkgutil, sys

PACKAGES = ("dssm_tf", "pipelines", "serving")

def import_third_party():
    from dssm_tf.common.quiet import load_tensorflow
    from pipelines.beam_log import load_beam
    load_tensorflow()
    load_beam()

def modules():
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield module.name

def is_ours(name):
    return name.partition(".")[0] in PACKAGES
"""
THIRD_PARTY = f"""{COMMON}
import_third_party()
for name in modules():
    importlib.import_module(name)
with open(sys.argv[1], "w") as file:
    json.dump([name for name in sys.modules if not is_ours(name)], file)
"""
CHANGES = f"""{COMMON}
import logging, os, random, signal, socket, tempfile, threading, warnings
import numpy as np

def loggers():
    for name, log in list(logging.root.manager.loggerDict.items()):
        if isinstance(log, logging.Logger):
            yield name, (log.level, log.handlers[:], log.filters[:])

def state():
    return {{
        "the root logger": [
            logging.root.handlers[:], logging.root.filters[:], logging.root.level,
            logging.root.manager.disable,
        ],
        # A new logger with nothing set changes nothing.
        "loggers": dict(pair for pair in loggers() if pair[1] != (logging.NOTSET, [], [])),
        "warnings": [list(warnings.filters), warnings.showwarning],
        "signal handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "hooks": [sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook],
        "tracing": [sys.gettrace(), sys.getprofile(), threading.gettrace()],
        "streams": [sys.stdin, sys.stdout, sys.stderr],
        "sys.path": list(sys.path),
        "importers": [sys.meta_path[:], sys.path_hooks[:]],
        "the environment": dict(os.environ),
        "folders": [os.getcwd(), tempfile.tempdir],
        "the socket timeout": socket.getdefaulttimeout(),
        "random numbers": [random.getstate(), str(np.random.get_state())],
        "NumPy": [np.geterr(), np.get_printoptions()],
        "threads": threading.enumerate(),
        "matplotlib": "matplotlib" in sys.modules and dict(sys.modules["matplotlib"].rcParams),
    }}

def import_unchanged(name):
    before = state()
    importlib.import_module(name)
    after = state()
    for key, value in before.items():
        if after[key] != value:
            print(f"{{name}} changes {{key}}: {{value}} -> {{after[key]}}")

for name in (*PACKAGES, "dssm_tf.common.quiet", "pipelines.beam_log"):
    import_unchanged(name)
# Third-party packages may change the process; import them before checking the other modules.
import_third_party()
for name in json.load(open(sys.argv[1])):
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # an optional part of a package
for name in modules():
    import_unchanged(name)
assert sum(map(is_ours, sys.modules)) > 200
"""


@pytest.mark.long
def test_importing_any_module_changes_nothing_in_the_process(tmp_path):
    python(THIRD_PARTY, tmp_path / "third_party.json")
    assert python(CHANGES, tmp_path / "third_party.json") == ""

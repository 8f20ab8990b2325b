"""An engine writes byte for byte what one machine writes, from the plain command line."""

from __future__ import annotations

import pytest

from tests.engines import engines
from tests.engines.engines import NEEDS, Engine, embedded, preprocessed

ENGINES = [
    pytest.param(one, id=one.__name__, marks=[pytest.mark.engines] * bool(NEEDS[one]))
    for one in NEEDS
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tmp_path_factory):
    """Each of the engines, started once."""
    start = request.param
    engines.needed(start)
    with engines.running(start, tmp_path_factory.mktemp(start.__name__)) as started:
        yield started


def test_preprocess_writes_the_bytes_of_a_local_run(
    engine: Engine, log, preprocessed_here, tmp_path
):
    assert preprocessed(log, tmp_path / "data", *engine.flags) == preprocessed_here


def test_embed_writes_the_bytes_of_a_local_run(
    engine: Engine, model, corpus, embedded_here, tmp_path
):
    assert len(embedded_here) == 3
    assert embedded(model, corpus, tmp_path / "vectors", *engine.flags) == embedded_here

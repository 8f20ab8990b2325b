"""Every engine writes the same bytes as a local run of the same command."""

from __future__ import annotations

import pytest

from tests.engines import engines
from tests.engines.engines import INSTALLATIONS, Engine, run_embed, run_preprocess

ENGINES = [
    pytest.param(start, id=start.__name__, marks=[pytest.mark.engines] if installation else [])
    for start, installation in INSTALLATIONS.items()
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tmp_path_factory):
    """Each of the engines, started once."""
    start = request.param
    engines.skip_if_missing(start)
    with engines.running(start, tmp_path_factory.mktemp(start.__name__)) as started:
        yield started


@pytest.mark.long
def test_preprocess_writes_the_bytes_of_a_local_run(
    engine: Engine, log, local_preprocessed, tmp_path
):
    assert run_preprocess(log, tmp_path / "data", *engine.flags) == local_preprocessed


def test_embed_writes_the_bytes_of_a_local_run(
    engine: Engine, model, corpus, local_embedded, tmp_path
):
    assert len(local_embedded) == 3
    assert run_embed(model, corpus, tmp_path / "vectors", *engine.flags) == local_embedded

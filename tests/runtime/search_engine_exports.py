"""Small search engine exports of models with random weights, written without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dssm_tf.export.compact import set_search_rules_from_file
from dssm_tf.export.search_engine.write import write_search_engine
from dssm_tf.runtime.maxsim import MaxSim
from tests.runtime import maxsim_models
from tests.runtime.maxsim_models import random_model, write_compact_model

TITLES = [*maxsim_models.TITLES, "red shoe lid", "shoe box lid"]
"""They have the pairs "red shoe" and "shoe box"."""

CLICKS = {"red running shoe": -1.0, "shoe box": -2.5}
"""Log-priors of the clicked titles."""


def write_export(
    directory: Path,
    model: MaxSim | None = None,
    titles: Iterable[str] = TITLES,
    similar_words: int = 0,
    rules: str = "",
) -> Path:
    """Writes an export; its catalog is the words of some titles, whose ids are t0, t1 and so on."""
    model = model or random_model(TITLES)
    write_compact_model(model, directory / "model", CLICKS)
    if rules:
        path = directory / "rules_by_hand.tsv"
        path.write_text(rules, "utf-8")
        set_search_rules_from_file(directory / "model", path)
        path.unlink()
    titles = list(titles)
    words = {word for title in titles for word in model.vocabulary.words(title)}
    ids = {f"t{row}": title for row, title in enumerate(titles)}
    write_search_engine(directory, words, similar_words, title_of_id=ids)
    return directory

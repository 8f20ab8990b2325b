"""Small search engine exports of models with random weights, written without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dssm_tf.export.compact import set_search_rules_from_file
from dssm_tf.export.search_engine.write import write_search_engine
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_hits import Json
from tests.reference import engine_query
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


def engine_hits(
    client: SearchEngineClient,
    query: str,
    titles: Sequence[str] = TITLES,
    sources: Sequence[Json] = (),
    **options: object,
) -> list[Json]:
    """The hits of an engine, best first; hits of equal scores are in the order of the titles.

    Args:
        client: writes the query and the fields of the documents.
        query: the user's query.
        titles: the titles of the documents, whose ids are t0, t1 and so on.
        sources: other fields of each document.
        options: arguments of `SearchEngineClient.query`.
    """
    writer, dsl = DocumentWriter(client, ("title",)), client.query(query, **options)
    hits = []
    for row, title in enumerate(titles):
        source = {"dssm": writer.fields(title), **(sources[row] if sources else {})}
        score = engine_query.score(dsl, {"_id": f"t{row}", **source})
        if score is not None:
            hits.append({"_id": f"t{row}", "_score": score, "_source": source})
    return sorted(hits, key=lambda hit: -hit["_score"])

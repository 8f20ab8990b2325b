"""Export of a maxsim model for OpenSearch and Elasticsearch."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.export.compact import set_remembered_clicks, set_search_rules_from_file, write_compact
from dssm_tf.export.load import find_model, load, model_title_fields
from dssm_tf.export.search_engine.verify import verify_search_engine
from dssm_tf.export.search_engine.write import SPECIFICATION, write_search_engine
from dssm_tf.export.target import new_version
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_engine_files import MODEL
from dssm_tf.runtime.similar_words import SIMILAR_WORDS

if TYPE_CHECKING:
    from dssm_tf.model.maxsim_run import MaxSimRun


def export_search_engine(
    model: Path | str,
    out: Path | str,
    name: str | None = None,
    titles: Iterable[str] | None = None,
    similar_words: int = SIMILAR_WORDS,
    search_rules: Path | None = None,
    doc_ids: Iterable[str] | None = None,
) -> Path:
    """Writes and verifies `out/<name>/<version>/`; see `dssm_tf.runtime.search_engine_files`.

    Args:
        model: a run, or a compact model, with the score maxsim.
        out: directory of exports. Do not use a directory of SavedModels or compact models.
        name: the model's name; by default the ranker's.
        titles: the catalog, raw texts; by default the titles of the training data.
        similar_words: number of similar catalog words of each word; 0: all.
        search_rules: a file of rules by hand, see `dssm_tf.runtime.search_rules`; by default those
            of a compact model.
        doc_ids: the engine's `_id` of each of `titles`; rules can then name titles by their texts.

    Returns:
        The version's directory; its number is one above the highest existing one.

    Raises:
        UserError: the model is unusable, or the written files do not give the model's scores.
    """
    location = find_model(Path(model))
    ranker = load(model, name)
    if not isinstance(ranker, MaxSimRanker) or location is None:
        raise UserError(
            f"{model} is not a run or compact model with the score maxsim, which search engines "
            "can compute; for a model that gives one vector per text, see docs/vector_engines.md."
        )
    words, titles = None, None if titles is None else list(titles)
    if titles is not None:
        with progress_of("words of the titles", None, unit=""):
            words = {word for title in titles for word in ranker.vocabulary.words(title)}
    with new_version(out, ranker.name, SPECIFICATION) as (directory, target):
        (directory / MODEL).mkdir()
        if location.kind == "run":
            write_compact(cast("MaxSimRun", ranker), location.path, directory / MODEL)
        else:
            shutil.copytree(location.path, directory / MODEL, dirs_exist_ok=True)
            # An engine's query has no clause for them; the export says nothing about the log.
            set_remembered_clicks(directory / MODEL, None)
            ranker = ranker.with_remembered_clicks(None)
        if search_rules is not None:
            set_search_rules_from_file(directory / MODEL, search_rules)
        write_search_engine(
            directory,
            words,
            similar_words,
            model_title_fields(Path(model)),
            ranker.name,
            dict(zip(doc_ids, titles or (), strict=True)) if doc_ids is not None else {},
        )
        with progress_of("verifying the export", None, unit=""):
            verify_search_engine(directory, ranker)
    return target

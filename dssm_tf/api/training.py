"""`dssm_tf.train`: trains a model on tables or on preprocessed data, and returns it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from typing_extensions import Unpack

from dssm_tf.api.model import CORPUS, Model, write_titles
from dssm_tf.api.preprocessing import (
    PreprocessSettings,
    Tables,
    layout_of_settings,
    preprocess,
    table_list,
)
from dssm_tf.api.settings import read_config
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import quiet_output
from dssm_tf.config import DEFAULT_CONFIG, Config
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.frames import TableSource, parquet_of
from dssm_tf.tables.judgments import CorpusTitle, read_corpus
from dssm_tf.tables.read import open_table, read
from dssm_tf.training.start_vectors import check_start_vectors

if TYPE_CHECKING:
    import keras

    from dssm_tf.losses import RankingLoss
    from dssm_tf.towers.tower import Tower
    from dssm_tf.training.run_directory import Result


def train(
    *,
    clicks: Tables = (),
    corpus: Tables = (),
    data: AnyPath | None = None,
    out: AnyPath | None = None,
    config: Config | Mapping[str, Any] | AnyPath | None = None,
    overrides: Sequence[str] = (),
    judgments: TableSource | None = None,
    teacher: TableSource | None = None,
    start: AnyPath | None = None,
    tensorboard: AnyPath | None = None,
    tower: Callable[[int], Tower] | None = None,
    loss: RankingLoss | str | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    quiet: bool = False,
    **preprocessing: Unpack[PreprocessSettings],
) -> Model:
    """Trains a model and returns it.

        model = dssm_tf.train(clicks=clicks, corpus=corpus)           # from tables
        model = dssm_tf.train(data="DATA", out="RUN")                 # from preprocessed data

    The first form preprocesses the tables as `dssm preprocess` does. The second form trains on
    preprocessed data as `dssm train` does. Training uses all local GPUs, and several machines
    through TF_CONFIG. To resume an interrupted run in `out`, repeat the call; a finished run does
    not change.

    Args:
        clicks: click logs: files, globs, directories or data frames (pandas, Polars, PyArrow) with
            query, title and optionally clicks and the other columns of `dssm preprocess`.
        corpus: titles to rank, in the same forms, with doc_id, title. Without clicks, the model
            learns from these titles alone. `Model.search` searches them if they are one table with
            doc_id; otherwise it searches all titles of the data, with their indices as ids.
        data: directory of the preprocessed data. With `clicks` or `corpus`, it is written, and by
            default it is temporary. Otherwise it is read.
        out: directory of the run; by default it is temporary, see `Model.save`.
        config: a YAML file; the name of a configuration in the package, such as `dssm`; a
            dictionary; or a `dssm_tf.config.Config`. By default `maxsim`, or the configuration of
            `start`.
        overrides: settings such as `"training.epochs=5"`, as for `dssm train --set`.
        judgments: a table with query, title, grade. The model learns from it and from clicks; with
            the override `training.clicks=false`, only from it. A data frame is saved as
            `OUT.judgments.parquet`.
        teacher: a table with query, title, score, the scores of another model to learn from; see
            `dssm teach`.
        start: a finished run to start from, as for `dssm train --from`. The data must be from
            `preprocess` with `vocabulary_from=RUN`; the first form sets this.
        tensorboard: directory for the losses and validation metrics of each epoch, for TensorBoard.
        tower: a function from a vocabulary size to a custom tower, which replaces the
            configuration's. Its class extends `dssm_tf.towers.tower.Tower` and is registered
            with `keras.saving.register_keras_serializable`.
        loss: a `dssm_tf.losses.RankingLoss` for clicks, or its name, which replaces the
            configuration's; custom classes are registered as for `tower`.
        callbacks: Keras callbacks, such as `keras.callbacks.ReduceLROnPlateau`; they are called
            during training, and again during the final training on all records.
        quiet: whether to print nothing.
        **preprocessing: with `clicks` or `corpus`, the other settings of `dssm_tf.preprocess`, such
            as `min_clicks=2` or `columns={"query": "search_term"}`.

    Returns:
        The trained model. On all workers of TF_CONFIG except the first, its weights are loaded when
        it is first used.

    Raises:
        UserError: an input cannot be used, or the model does not learn, see `dssm train`.
    """
    has_tables = bool(table_list(clicks) or table_list(corpus))
    if not has_tables and data is None:
        raise UserError(
            "there is nothing to learn from; give clicks or corpus, or data, a directory that "
            "preprocess wrote."
        )
    if preprocessing and not has_tables:
        raise UserError(
            f"{min(preprocessing)} is a setting of preprocess; give clicks or corpus, or leave it "
            "out."
        )
    folder = Path(tempfile.mkdtemp(prefix="dssm-"))
    try:
        tables = {
            "judgments": _as_file(judgments, _frame_path(out, folder, "judgments")),
            "teacher": _as_file(teacher, _frame_path(out, folder, "teacher")),
        }
        resolved = resolve_settings(config, overrides, start, tables)
        if start is None:
            check_start_vectors(resolved.start.vectors)
        run = folder / "run" if out is None else Path(out)
        data_directory = folder / "data" if data is None else Path(data)
        with quiet_output(quiet):
            titles = None
            if has_tables:
                titles = _titles_with_ids(corpus, preprocessing)
                if start is not None:
                    preprocessing.setdefault("vocabulary_from", start)
                preprocess(output=data_directory, input=clicks, corpus=corpus, **preprocessing)
            result = train_run(
                resolved, data_directory, run, start=start, tower=tower, loss=loss,
                callbacks=callbacks, tensorboard=tensorboard,
            )  # fmt: skip
        if result is not None:
            titles = titles or _titles_of(data_directory)
            write_titles(run / CORPUS, titles)
        model = Model(_loader(run), run, titles, is_temporary=out is None)
        if result is not None:
            _ = model.ranker  # loads the model now, so that its errors are raised here
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finalize(model, shutil.rmtree, folder, ignore_errors=True)
    return model


def _loader(run: Path) -> Callable[[], Any]:
    from dssm_tf.export.load import load

    return lambda: load(run)


def train_run(
    config: Config,
    data: AnyPath,
    out: AnyPath,
    *,
    start: AnyPath | None = None,
    tower: Callable[[int], Tower] | None = None,
    loss: RankingLoss | str | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    tensorboard: AnyPath | None = None,
) -> Result | None:
    """Trains a run; see `train`.

    Returns:
        The result; None on the workers of TF_CONFIG other than the first.
    """
    config.check_files()
    load_tensorflow()
    from dssm_tf.config.custom_parts import with_custom_parts
    from dssm_tf.training.devices import read_cluster
    from dssm_tf.training.train import train as run_training

    config = with_custom_parts(config, tower, loss)
    result = run_training(
        config, data, out, start=start, callbacks=callbacks, tensorboard=tensorboard
    )
    return None if read_cluster().worker else result


def resolve_settings(
    config: Config | Mapping[str, Any] | AnyPath | None,
    overrides: Sequence[str],
    start: AnyPath | None,
    tables: Mapping[str, AnyPath | None],
) -> Config:
    """The configuration of a training run.

    Args:
        config: see `train`.
        overrides: see `train`.
        start: an earlier run, whose configuration is the default.
        tables: files for the sections `judgments` and `teacher`. A file replaces `file` in its
            section, and clears `sha256`.

    Raises:
        UserError: see `load_config`.
    """
    from dssm_tf.model.run_files import CONFIG

    if config is None:
        config = DEFAULT_CONFIG if start is None else Path(start) / CONFIG
    files = {name: str(file) for name, file in tables.items() if file}
    if isinstance(config, (str, Path)):
        settings = []
        for name, file in files.items():
            settings += [f"{name}.file={json.dumps(file)}", f'{name}.sha256=""']
        return read_config(config, [*settings, *overrides])
    sections = config.model_dump(mode="json") if isinstance(config, Config) else dict(config)
    for name, file in files.items():
        sections[name] = {**sections.get(name, {}), "file": file, "sha256": ""}
    return read_config(sections, overrides)


def _frame_path(out: AnyPath | None, folder: Path, name: str) -> Path:
    """The path of the file for a data frame: next to the run, because its configuration has it.

    Args:
        out: the directory of the run; None if it is temporary.
        folder: the temporary directory, used without `out`.
        name: the section of the configuration that reads the file.
    """
    return folder / f"{name}.parquet" if out is None else Path(f"{out}.{name}.parquet")


def _as_file(table: TableSource | None, path: Path) -> AnyPath | None:
    """The path of a table; a data frame is first written to `path`."""
    if table is None or isinstance(table, (str, Path)):
        return table
    with atomic_write(path, "wb") as file:
        file.write(parquet_of(table).getvalue())
    return path


def _titles_with_ids(corpus: Tables, settings: PreprocessSettings) -> list[CorpusTitle] | None:
    """The titles of a corpus if it is one file or one data frame with ids; otherwise None."""
    tables = table_list(corpus)
    if len(tables) != 1:
        return None
    (table,) = tables
    if isinstance(table, (str, Path)) and not Path(table).is_file():
        return None
    layout = layout_of_settings(settings).corpus
    with open_table(table, layout=layout) as opened:
        if opened.names and "doc_id" not in opened.names:
            return None
        has_known_columns = bool(opened.names)
    if not has_known_columns:  # the first JSON object is malformed; others may have ids
        ids = read(table, [unchanged("doc_id", required=False)], layout)["doc_id"]
        if (ids.fill_null("") == "").any():
            return None
    return read_corpus(table, layout)


def _titles_of(data: Path) -> list[CorpusTitle]:
    """The titles of preprocessed data, with their indices as ids."""
    from dssm_tf.data.preprocessed import Preprocessed

    texts = Preprocessed(data).texts("titles")
    return [CorpusTitle(str(index), title) for index, title in enumerate(texts)]

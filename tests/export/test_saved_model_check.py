"""A SavedModel that can do more than compute is refused before TensorFlow loads it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import dssm_tf
from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.export.load import load_model
from dssm_tf.export.saved_model import (
    ExportedMaxSim,
    ExportedRanker,
    export_saved_model,
    load_export,
)
from dssm_tf.export.saved_model_check import CHECKPOINT_OPERATIONS, OPERATIONS
from tests.export.conftest import WEIGHT
from tests.runs import finished_run


@pytest.fixture(scope="module")
def exported(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    run = finished_run(folder / "run", data, {"tower": {"name": "dssm", "widths": [5, 4]}}, WEIGHT)
    return export_saved_model(run, folder / "models")


def with_checksums(directory: Path) -> Path:
    (directory / CHECKSUMS).unlink(missing_ok=True)
    write_checksums(directory, files_in(directory))
    return directory


@pytest.fixture
def changed(exported, tmp_path):
    """Changes the message of an export, with fitting checksums."""

    def changed(change) -> Path:
        copy = shutil.copytree(exported, tmp_path / "1")
        saved = saved_model_pb2.SavedModel.FromString((copy / "saved_model.pb").read_bytes())
        change(saved.meta_graphs[0])
        (copy / "saved_model.pb").write_bytes(saved.SerializeToString())
        return with_checksums(copy)

    return changed


def refused(directory: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_export(directory)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_export_is_loaded(exported):
    assert load_export(exported).encode_titles(["red fox"]).shape == (1, 4)


def test_a_model_that_writes_a_file_when_it_encodes_is_refused(exported, tmp_path):
    written = tmp_path / "written"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "queries")])
    def encode_query(queries):
        tf.io.write_file(str(written), "x")
        return {"embeddings": tf.ones([tf.size(queries), 5])}

    copy = shutil.copytree(exported, tmp_path / "1")
    extra = shutil.move(copy / "assets.extra", tmp_path / "extra")
    shutil.rmtree(copy)
    module = tf.Module()
    tf.saved_model.save(module, str(copy), signatures={"encode_query": encode_query})
    shutil.move(extra, copy / "assets.extra")
    assert "it contains the operation 'WriteFile'" in refused(with_checksums(copy))
    assert not written.exists()


def test_a_model_that_writes_a_file_while_it_is_loaded_is_refused(exported, tmp_path):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1])), 0
    )
    module = tf.Module()
    module.table = table
    copy = shutil.copytree(exported, tmp_path / "1")
    extra = shutil.move(copy / "assets.extra", tmp_path / "extra")
    shutil.rmtree(copy)
    tf.saved_model.save(module, str(copy))
    shutil.move(extra, copy / "assets.extra")
    assert re.search("it has an object|the operation", refused(with_checksums(copy)))


@pytest.mark.parametrize("op", ["ReadFile", "PyFunc", "SaveV2", "RestoreV2", "__inference_score"])
def test_an_operation_that_exports_do_not_have_is_refused(changed, op):
    def change(meta):
        function = next(
            f for f in meta.graph_def.library.function if "encode_query" in f.signature.name
        )
        function.node_def.add(op=op, name="added")

    assert f"it contains the operation '{op}'" in refused(changed(change))


def test_the_function_that_writes_a_checkpoint_cannot_be_called(changed):
    def name_of_saver(meta) -> str:
        return next(
            f.signature.name
            for f in meta.graph_def.library.function
            if "traced_save" in f.signature.name
        )

    def change(meta):
        function = next(
            f for f in meta.graph_def.library.function if "encode_query" in f.signature.name
        )
        node = function.node_def.add(op="StatefulPartitionedCall", name="added")
        node.attr["f"].func.name = name_of_saver(meta)

    assert "a function calls '__inference__traced_save" in refused(changed(change))


def test_the_function_that_writes_a_checkpoint_is_no_signature(changed):
    def change(meta):
        saver = next(f.signature.name for f in meta.graph_def.library.function
                     if "traced_save" in f.signature.name)  # fmt: skip
        meta.object_graph_def.concrete_functions[saver].SetInParent()

    assert "can be called" in refused(changed(change))


def test_a_signature_of_the_function_that_writes_a_checkpoint_is_refused(changed):
    def change(meta):
        saver = next(f.signature.name for f in meta.graph_def.library.function
                     if "traced_save" in f.signature.name)  # fmt: skip
        node = next(
            node
            for node in meta.object_graph_def.nodes
            if node.WhichOneof("kind") == "bare_concrete_function"
        )
        node.bare_concrete_function.concrete_function_name = saver

    assert "it has the signature '__inference__traced_save" in refused(changed(change))


def test_every_way_to_open_an_export_checks_it_first(changed):
    def change(meta):
        meta.graph_def.node.add(op="WriteFile", name="added")

    directory = changed(change)
    for open_export in (load_export, ExportedRanker, ExportedMaxSim, dssm_tf.load, load_model):
        with pytest.raises(UserError, match="it contains the operation 'WriteFile'"):
            open_export(directory)


def test_a_model_that_tensorflow_cannot_load_is_refused(changed):
    def change(meta):
        for node in meta.object_graph_def.nodes:
            if node.WhichOneof("kind") == "bare_concrete_function":
                name = node.bare_concrete_function.concrete_function_name
                function = meta.object_graph_def.concrete_functions[name]
                function.ClearField("canonicalized_input_signature")

    assert "is not a SavedModel of this package" in refused(changed(change))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(exported, tmp_path, number):
    copy = shutil.copytree(exported, tmp_path / "1")
    prefix = str(copy / "variables" / "variables")
    reader = tf.train.load_checkpoint(prefix)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    matrix = next(value for value in values.values() if np.ndim(value) == 2)
    matrix[0, 0] = number
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[*values],
        shape_and_slices=[""] * len(values),
        tensors=[*values.values()],
    )
    assert "has a number that is not finite" in refused(with_checksums(copy))


@pytest.mark.parametrize("kind", ["resource", "asset", "function", "captured_tensor", "constant"])
def test_an_object_with_code_of_its_own_is_refused(changed, kind):
    def change(meta):
        getattr(meta.object_graph_def.nodes.add(), kind).SetInParent()

    assert f"it has an object of kind '{kind}'" in refused(changed(change))


def test_a_model_without_objects_is_refused(changed):
    message = refused(changed(lambda meta: meta.ClearField("object_graph_def")))
    assert "expected one graph with objects" in message


@pytest.mark.parametrize("name", ["saved_model.cpb", "saved_model.pbtxt"])
def test_another_form_of_the_model_beside_it_is_refused(exported, tmp_path, name):
    copy = shutil.copytree(exported, tmp_path / "1")
    (copy / name).write_bytes(b"")
    assert f"{name} is not a file of an export" in refused(with_checksums(copy))


def test_the_allowed_operations_exist_and_touch_no_file():
    assert {op for op in OPERATIONS | CHECKPOINT_OPERATIONS if not hasattr(tf.raw_ops, op)} == set()
    touches = re.compile("File|Save|Restore|Write|Checkpoint|PyFunc|Dataset|Proto|Table|Print|Recv")
    assert {op for op in OPERATIONS if touches.search(op)} == set()

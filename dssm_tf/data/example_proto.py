"""The `tf.train.Example` message without TensorFlow, for Beam workers.

Importing TensorFlow takes seconds and hundreds of megabytes on every worker; the message is
fifteen lines of protobuf. The bytes are the same: a test parses them with `tf.io`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


def _message(file: Any, name: str, fields: list[tuple[str, int, int, str | None]]) -> Any:
    message = file.message_type.add(name=name)
    for number, (field, kind, label, type_name) in enumerate(fields, start=1):
        message.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    return message


def _example_class() -> Any:
    one, many = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(
        name="dssm_tf/example.proto", package="dssm_tf.example", syntax="proto3"
    )
    _message(file, "BytesList", [("value", _FIELD.TYPE_BYTES, many, None)])
    _message(file, "FloatList", [("value", _FIELD.TYPE_FLOAT, many, None)])
    _message(file, "Int64List", [("value", _FIELD.TYPE_INT64, many, None)])
    kinds = ("bytes", "float", "int64")
    feature = _message(
        file,
        "Feature",
        [
            (f"{kind}_list", _FIELD.TYPE_MESSAGE, one, f".dssm_tf.example.{kind.title()}List")
            for kind in kinds
        ],
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = _message(file, "Features", [("feature", _FIELD.TYPE_MESSAGE, many, _ENTRY)])
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=one)
    entry.field.add(
        name="value",
        number=2,
        type=_FIELD.TYPE_MESSAGE,
        label=one,
        type_name=".dssm_tf.example.Feature",
    )
    _message(file, "Example", [("features", _FIELD.TYPE_MESSAGE, one, ".dssm_tf.example.Features")])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("dssm_tf.example.Example"))


_ENTRY = ".dssm_tf.example.Features.FeatureEntry"
Example = _example_class()

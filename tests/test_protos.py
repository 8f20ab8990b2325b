"""The generated message classes are those of the .proto files beside them."""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor

from serving import predict_pb2

OPENING = re.compile(r"\s*(message|enum|oneof) (\w+) {")
FIELD = re.compile(r"\s*(repeated |map<string, )?(?:([\w.]+)>? )?(\w+) = (\d+);")
SCALARS = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def declared(path: Path) -> set[tuple[str, str, str, str, str]]:
    """(message, label, type, name, number) of every field, and of every value of an enumeration."""
    found, inside = set(), []
    for line in path.read_text("utf-8").splitlines():
        if opening := OPENING.fullmatch(line):
            inside.append("" if opening[1] == "oneof" else opening[2])
        elif line.strip() == "}":
            inside.pop()
        elif field := FIELD.fullmatch(line):
            label, kind, name, number = (one or "" for one in field.groups())
            place = ".".join(filter(None, inside))
            found.add((place, label, kind.split(".")[-1], name, number))
    assert not inside
    return found


def compiled(file) -> set[tuple[str, str, str, str, str]]:
    """The same of a file's descriptor."""
    found = set()
    messages = list(file.message_types_by_name.values())
    enums = list(file.enum_types_by_name.values())
    for message in messages:  # which grows
        messages += [one for one in message.nested_types if not one.GetOptions().map_entry]
        enums += message.enum_types
        for field in message.fields:
            kind, label = field.message_type or field.enum_type, ""
            if field.message_type and field.message_type.GetOptions().map_entry:
                kind, label = (
                    field.message_type.fields_by_name["value"].message_type,
                    "map<string, ",
                )
            elif field.is_repeated:
                label = "repeated "
            kind = kind.name if kind else SCALARS[field.type]
            found.add((message.full_name, label, kind, field.name, str(field.number)))
    for enum in enums:
        found |= {(enum.full_name, "", "", one.name, str(one.number)) for one in enum.values}
    return {(place.removeprefix(f"{file.package}."), *rest) for place, *rest in found}


def test_generated_code_is_that_of_its_proto_file(checkout):
    file = predict_pb2.DESCRIPTOR
    path = checkout / file.name
    assert compiled(file) == declared(path)
    assert len(declared(path)) > 10
    package = f"package {file.package};"
    assert package in path.read_text("utf-8").splitlines()

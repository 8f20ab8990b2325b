"""The generated message classes are those of the .proto files beside them."""

from __future__ import annotations

import re

from google.protobuf.descriptor import FieldDescriptor

from serving import predict_pb2

SCALARS = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def declared(source: str) -> set[tuple[str, str]]:
    """The place and the line of every field, and of every value of an enumeration."""
    found, inside = set(), []
    for line in map(str.strip, source.splitlines()):
        if opening := re.fullmatch(r"(?:message|enum) (\w+) {", line):
            inside.append(opening[1])
        elif line == "}":
            inside.pop()
        elif inside and line and not line.startswith("//"):
            found.add((".".join(inside), re.sub(r"[\w.]+\.", "", line)))
    assert not inside
    return found


def kind(field) -> str:
    """The type of a field as it is declared."""
    message = field.message_type
    if message and message.GetOptions().map_entry:
        return f"map<string, {kind(message.fields_by_name['value'])}>"
    named = message or field.enum_type
    name = named.name if named else SCALARS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def compiled(file) -> set[tuple[str, str]]:
    """The same of a file's descriptor."""
    messages, found = list(file.message_types_by_name.values()), set()
    enums = list(file.enum_types_by_name.values())
    for message in messages:  # which grows
        messages += [one for one in message.nested_types if not one.GetOptions().map_entry]
        enums += message.enum_types
        for field in message.fields:
            found.add((message.full_name, f"{kind(field)} {field.name} = {field.number};"))
    for enum in enums:
        found |= {(enum.full_name, f"{one.name} = {one.number};") for one in enum.values}
    return {(place.removeprefix(f"{file.package}."), line) for place, line in found}


def test_generated_code_is_that_of_its_proto_file(checkout):
    file = predict_pb2.DESCRIPTOR
    source = (checkout / file.name).read_text("utf-8")
    assert compiled(file) == declared(source)
    assert len(declared(source)) > 10
    assert f"package {file.package};" in source.splitlines()

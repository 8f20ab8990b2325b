"""The generated message classes match the .proto files next to them."""

from __future__ import annotations

import re

from google.protobuf.descriptor import FieldDescriptor

from serving import predict_pb2

SCALARS = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def declarations_in_source(source: str) -> set[tuple[str, str]]:
    """Pairs of message and line for every field, and of enumeration and line for every value."""
    declarations, open_messages = set(), []
    for line in map(str.strip, source.splitlines()):
        if opening := re.fullmatch(r"(?:message|enum) (\w+) {", line):
            open_messages.append(opening[1])
        elif line == "}":
            open_messages.pop()
        elif open_messages and line and not line.startswith("//"):
            declarations.add((".".join(open_messages), re.sub(r"[\w.]+\.", "", line)))
    assert not open_messages
    return declarations


def type_name(field) -> str:
    """The type of a field as written in a declaration."""
    message = field.message_type
    if message and message.GetOptions().map_entry:
        return f"map<string, {type_name(message.fields_by_name['value'])}>"
    composite = message or field.enum_type
    name = composite.name if composite else SCALARS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def declarations_in_descriptor(file) -> set[tuple[str, str]]:
    """The same pairs from a file's descriptor; see `declarations_in_source`."""
    messages, declarations = list(file.message_types_by_name.values()), set()
    enums = list(file.enum_types_by_name.values())
    for message in messages:  # the list grows during the loop
        messages += [nested for nested in message.nested_types if not nested.GetOptions().map_entry]
        enums += message.enum_types
        for field in message.fields:
            declarations.add(
                (message.full_name, f"{type_name(field)} {field.name} = {field.number};")
            )
    for enum in enums:
        declarations |= {
            (enum.full_name, f"{value.name} = {value.number};") for value in enum.values
        }
    return {(name.removeprefix(f"{file.package}."), line) for name, line in declarations}


def test_generated_classes_equal_their_proto_file(checkout):
    file = predict_pb2.DESCRIPTOR
    source = (checkout / file.name).read_text("utf-8")
    assert declarations_in_descriptor(file) == declarations_in_source(source)
    assert len(declarations_in_source(source)) > 10
    assert f"package {file.package};" in source.splitlines()

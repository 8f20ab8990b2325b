"""Generates docs/configuration.md and configs/schema.json from the configuration models.

    python -m dssm_tf.config.reference

writes both into the checkout. A test checks that they are current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dssm_tf.config.model import Config
from dssm_tf.config.section import Section
from dssm_tf.config.structure import component_names, section_classes

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "configuration.md"
SCHEMA = CHECKOUT / "configs" / "schema.json"

_INTRODUCTION = """\
# Configuration

Read this when you want to change the settings of `dssm train`. `python -m dssm_tf.config.reference`
generates this page from the code.

    dssm train --config dssm --data DATA --out RUN --set tower.dropout=0.2 --set training.epochs=5

`--config` takes a YAML file, or the name of one in `configs/`: `maxsim` (the default), `dssm`,
`lstm`, `clsm`, `rnn`, `bilstm`, `lstm_plain`, or the papers' own settings such as `paper/lstm-96`.
`--set` overrides one value. To use another tower (the network that turns a text into a vector),
replace its section: `--set 'tower={name: rnn}'`. An unknown key is an error that lists the valid
ones. `RUN/config.yaml` records every value of a run. A file with `baseline:` instead of `tower:`,
such as `configs/dse.yaml`, is for `dssm benchmark`; [baselines.md](baselines.md) lists the
parameters.

For completion in an editor, put this line at the top of a YAML file (it needs a YAML language
server):

    # yaml-language-server: $schema=PATH/configs/schema.json

In Python, the `build` of a section constructs the component, such as
`load_config(find_config("lstm")).tower.build(vocabulary_size=20_000)`. Components of your own are
constructed in Python and need no YAML: [api.md](api.md#components-of-your-own).

Training stops with exit code 1 if a weight is not finite, if no click has a negative, or if each
epoch has a lower NDCG@10 than the untrained model, significantly or with a higher validation loss.
It warns if no epoch is better than the untrained model. More about the choices:
[training.md](training.md), [grades.md](grades.md), [tuning.md](tuning.md).
"""


def page() -> str:
    """The page: one table per section, one for each component of a union."""
    parts = [_INTRODUCTION, "## Top level\n", _table(Config)]
    for name, field in Config.model_fields.items():
        parts += _section(name, section_classes(field.annotation), field.description or "")
    return "\n".join(parts)


def schema() -> str:
    """The JSON Schema of a configuration file, for completion and checks in YAML editors."""
    json_schema = Config.model_json_schema()
    _require_names(json_schema)
    return json.dumps(json_schema, indent=2) + "\n"


def _section(key: str, classes: list[type[Section]], description: str) -> Iterator[str]:
    """The parts of the page about one key, and about the sections below it."""
    if not classes:
        return
    yield f"## {key}\n"
    yield f"{description}\n"
    for section in classes:
        names = component_names([section])
        if "name" in section.model_fields:
            if not names:
                continue  # `custom`, which train writes
            yield f"### {key}: {', '.join(f'`{name}`' for name in names)}\n"
            yield f"{_first_line(section)}\n"
        yield _table(section, skip=("name",))
    for section in classes:
        for name, field in section.model_fields.items():
            nested = section_classes(field.annotation)
            if nested and section is classes[0]:
                yield from _section(f"{key}.{name}", nested, field.description or "")


def _table(section: type[Section], skip: tuple[str, ...] = ()) -> str:
    """Key, value, default and description of each field."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    # The section's own fields first, then those that it inherits.
    names = dict.fromkeys([*section.__annotations__, *section.model_fields])
    for name in names:
        field = section.model_fields[name]
        if name not in skip:
            rows.append(
                f"| `{name}` | {_value(field)} | {_default(field)} | {field.description or ''} |"
            )
    if len(rows) == 2:
        return "No further keys.\n"
    return "\n".join(rows) + "\n"


def _first_line(section: type[Section]) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]


def _value(field: FieldInfo) -> str:
    """The values that a field may have, in words."""
    return _with_bounds(_type(field.annotation), field.metadata)


def _type(annotation: Any) -> str:
    """A type in words.

    >>> _type(Literal["adam", "sgd"]), _type(tuple[int, ...]), _type(int | None)
    ('`adam`, `sgd`', 'list of whole numbers', 'whole number or null')
    """
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    if annotation in names:
        return names[annotation]
    if annotation is type(None):
        return "null"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _with_bounds(_type(arguments[0]), arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if section_classes(annotation):
        return "section or null" if type(None) in arguments else "section"
    if origin in (Union, UnionType):
        return " or ".join(_type(argument) for argument in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0]).replace('number', 'numbers', 1)}"
    return "keys and values"


def _with_bounds(text: str, metadata: Sequence[Any]) -> str:
    """A type with its bounds.

    >>> from pydantic import Field
    >>> _with_bounds("number", [Field(ge=0, le=1), Field(lt=1)])
    'number, at least 0 and below 1'
    """
    bounds: dict[str, Any] = {}
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else [item]:
            for name in ("gt", "ge", "lt", "le"):
                value = getattr(part, name, None)
                if value is not None:
                    bounds[name] = value
    if "gt" in bounds:
        bounds.pop("ge", None)
    if "lt" in bounds:
        bounds.pop("le", None)
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    phrases = [f"{word} {bounds[name]:,}" for name, word in words.items() if name in bounds]
    return f"{text}, {' and '.join(phrases)}" if phrases else text


def _default(field: FieldInfo) -> str:
    """The default, as written in YAML."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Section):
        return f"`{default.name}`" if hasattr(default, "name") else "its defaults"
    if isinstance(default, str):
        return f"`{default}`" if default else "none"
    return f"`{json.dumps(default)}`"


def _require_names(schema: dict[str, Any]) -> None:
    """Requires `name` wherever it chooses among components and has no default.

    `loss` and `optimizer` have a default name. Without it, a section may fit several components,
    so their `oneOf` becomes an `anyOf`.
    """
    definitions = schema["$defs"]
    optional = [schema["properties"][key] for key in ("loss", "optimizer")]
    objects = [schema, *definitions.values()]
    for union in optional:
        union["anyOf"] = union.pop("oneOf")
    component_definitions = {
        member["$ref"].rpartition("/")[2]
        for object_schema in objects
        for union in object_schema.get("properties", {}).values()
        for member in union.get("oneOf", ())
    }
    for name in component_definitions:
        definition = definitions[name]
        definition["required"] = sorted({*definition.get("required", ()), "name"})


def main() -> None:
    """Writes the page and the schema into the checkout."""
    PAGE.write_text(page(), "utf-8")
    SCHEMA.write_text(schema(), "utf-8")
    sys.stdout.write(f"Written: {PAGE}, {SCHEMA}\n")


if __name__ == "__main__":
    main()

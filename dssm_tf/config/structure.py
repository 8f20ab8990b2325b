"""Finds the section classes in the types of the configuration's fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from dssm_tf.config.section import Section


def section_classes(annotation: Any) -> list[type[Section]]:
    """The section classes in a field's type: several for a union, none for a plain value.

    >>> from dssm_tf.config.losses import HingeConfig, SigmoidConfig
    >>> section_classes(HingeConfig | SigmoidConfig | None) == [HingeConfig, SigmoidConfig]
    True
    >>> section_classes(int)
    []
    """
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in section_classes(part)]


def component_name(section: type[Section]) -> str:
    """The `name` that chooses a class in a union; empty for a section without a name."""
    field = section.model_fields.get("name")
    return str(field.default) if field is not None else ""


def component_names(sections: Sequence[type[Section]]) -> list[str]:
    """All names that choose one of the classes in YAML, except `custom`.

    Only `train` writes `custom`. A class may have several names, as that of Keras's optimizers.
    """
    names: list[str] = []
    for section in sections:
        if "name" in section.model_fields:
            names += get_args(section.model_fields["name"].annotation)
    return [name for name in names if name != "custom"]


def locate(
    location: Sequence[int | str], root: type[Section]
) -> tuple[list[str], list[type[Section]]]:
    """The keys of a pydantic error location, and the section classes that the last key may hold.

    Pydantic inserts the names of union members between the keys; they are left out of the keys.

    >>> from dssm_tf.config.model import Config
    >>> locate(("tower", "dssm", "widths", 1), Config)[0]
    ['tower', 'widths', '1']
    """
    keys: list[str] = []
    sections: list[type[Section]] = [root]
    for step in location:
        sections_with_key = [section for section in sections if step in section.model_fields]
        if isinstance(step, int):
            keys.append(str(step))
        elif sections_with_key:
            keys.append(step)
            sections = section_classes(sections_with_key[0].model_fields[step].annotation)
        else:
            sections = [
                section for section in sections if step in component_names([section])
            ] or sections
    return keys, sections

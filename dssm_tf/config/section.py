"""The base of every configuration section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A section of the configuration: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Raises an error with the allowed keys if the input has another key, or no keys."""
        allowed = ", ".join(cls.model_fields)
        if isinstance(values, Mapping):
            unknown = [key for key in values if key not in cls.model_fields]
            if unknown:
                raise PydanticCustomError(
                    "unknown_key",
                    "{key} is not a key; allowed here: {keys}",
                    {"key": str(unknown[0]), "keys": allowed},
                )
        elif not isinstance(values, cls):
            raise PydanticCustomError(
                "not_a_section", "must be a section with keys among {keys}", {"keys": allowed}
            )
        return values


class Component(Section):
    """A section that chooses a class by `name`; its other fields are constructor arguments."""

    name: str

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments: every field but the name."""
        return self.model_dump(exclude={"name"})

    def summary(self) -> str:
        """Name and arguments in one line, such as `hinge, margin 0.2`."""
        arguments = [f"{key} {value}" for key, value in self.arguments().items()]
        return ", ".join([self.name, *arguments])


def default_name(name: str) -> BeforeValidator:
    """Allows a section to leave out its `name`: `loss: {gamma: 5}` is a `click_softmax`."""

    def add_name(value: Any) -> Any:
        return {"name": name, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(add_name)

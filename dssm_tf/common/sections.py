"""Sections of a configuration, and the tables from which a section chooses by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from itertools import pairwise
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError


def _odd(number: int) -> int:
    if number % 2 == 0:
        raise PydanticCustomError(
            "odd",
            "input should be odd, such as {below} or {above}",
            {"below": number - 1, "above": number + 1},
        )
    return number


def _increasing(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if any(one >= other for one, other in pairwise(numbers)):
        raise PydanticCustomError("increasing", "input should increase, such as [16, 32, 64]")
    return numbers


Whole = Annotated[int, Field(strict=True)]  # not `true`, which Python counts as 1
Positive = Annotated[Whole, Field(ge=1)]
Seed = Annotated[Whole, Field(ge=0, lt=1 << 31)]
Odd = Annotated[Positive, AfterValidator(_odd)]
Widths = Annotated[tuple[Positive, ...], Field(min_length=1)]
Lengths = Annotated[tuple[Positive, ...], AfterValidator(_increasing)]
Share = Annotated[float, Field(ge=0, lt=1)]
AboveZero = Annotated[float, Field(gt=0)]
BiasInitializer = Literal["zeros", "random_normal", "random_uniform", "truncated_normal"]
Initializer = Literal[
    "glorot_uniform",
    "glorot_normal",
    "he_uniform",
    "he_normal",
    "lecun_uniform",
    "lecun_normal",
    "random_uniform",
    "random_normal",
    "truncated_normal",
    "orthogonal",
]
RecurrentInitializer = Literal[Initializer, "zeros"]
SquareInitializer = Literal[RecurrentInitializer, "identity"]


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, values: Any) -> Any:
        keys = {"keys": ", ".join(cls.model_fields)}
        if isinstance(values, Mapping):
            if unknown := [key for key in values if key not in cls.model_fields]:
                raise PydanticCustomError(
                    "unknown_key",
                    "{key} is not a key; allowed here: {keys}",
                    {"key": str(unknown[0]), **keys},
                )
        elif not isinstance(values, cls):
            raise PydanticCustomError("no_section", "needs keys below it, of {keys}", keys)
        return values


class Named(Section):
    """A section that chooses a line of a table; its other keys are that line's arguments."""

    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        """All keys but the name."""
        return self.model_dump(exclude={"name"})


def defaults_of(section: type[Section]) -> Callable[[Any], Any]:
    """Gives a constructor, whose last arguments are keys of a section, the defaults of these."""

    def given(constructor: Any) -> Any:
        fields = section.model_fields
        names = [name for name in signature(constructor).parameters if name in fields]
        constructor.__defaults__ = tuple(fields[name].default for name in names)
        return constructor

    return given


class Choice:
    """A line of a table: a class, and the arguments that a configuration may give it.

    The class is imported when the first of it is made. Keras takes seconds to import, for which
    an error in a configuration need not wait.

    Args:
        place: `module:Class`.
        section: with the keys that the line shares with others.
        keys: further keys, each with type and default; the class takes these, see `defaults_of`.
    """

    def __init__(self, place: str, section: type[Named], **keys: tuple[Any, Any]) -> None:
        self.place = place
        fields: dict[str, Any] = keys
        self.section: type[Named] = create_model(section.__name__, __base__=section, **fields)

    @property
    def kind(self) -> type[Any]:
        """The class."""
        found: type[Any] = resolve_name(self.place)
        return found

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """An instance of the class."""
        return self.kind(*arguments, **options)


class Table(dict[str, Choice]):
    """What a section may name.

    Args:
        lines: name to choice.
        default: name of a section that gives none.
    """

    def __init__(self, lines: Mapping[str, Choice], default: str = "") -> None:
        super().__init__(lines)
        self.default = default

    def parse(self, value: Any) -> Named:
        """The section of the line that a plain section names.

        Raises:
            ValueError: there is no such line, or its keys are wrong.
        """
        if isinstance(value, Named):
            return value
        names = {"names": ", ".join(self)}
        if not isinstance(value, Mapping):
            raise PydanticCustomError(
                "no_section", "needs keys below it, name (one of {names}) and its keys", names
            )
        value = {"name": self.default, **value}
        if value["name"] not in list(self):  # which may be unhashable
            raise PydanticCustomError("no_line", "name must be one of {names}", names)
        return self[value["name"]].section.model_validate(value)

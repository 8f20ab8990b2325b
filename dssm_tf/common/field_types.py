"""Types of configuration fields and parameters, with their bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError


def _check_odd(number: int) -> int:
    if number % 2 == 0:
        raise PydanticCustomError(
            "odd",
            "input should be odd, such as {below} or {above}",
            {"below": number - 1, "above": number + 1},
        )
    return number


def _refuse_bool(value: Any) -> Any:
    """Without this, pydantic reads `true` as 1.0. Texts such as `1e-3`, from YAML, are numbers."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "input should be a number")
    return value


Bool = Annotated[bool, Field(strict=True)]
# Strict integers: without `strict`, pydantic reads `true` as 1.
PositiveInt = Annotated[int, Field(strict=True, ge=1)]
NonNegativeInt = Annotated[int, Field(strict=True, ge=0)]
OddInt = Annotated[PositiveInt, AfterValidator(_check_odd)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
Widths = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
Float = Annotated[float, BeforeValidator(_refuse_bool)]
Int = Annotated[int, BeforeValidator(_refuse_bool)]
"""Not strict: NumPy's integers and whole floats are integers too."""
PositiveFloat = Annotated[Float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[Float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[Float, Field(ge=0, le=1)]
"""From 0 to 1, both included. A field that excludes 1 adds `lt=1`."""

"""Fields that several protocols parse alike."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.audio.stretch import MAX_SPEED, MIN_SPEED

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]
SampleRate: TypeAlias = Annotated[int, Field(ge=8000, le=48_000)]
Speed: TypeAlias = Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
RequestId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Position: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]


class StrictMessage(BaseModel):
    """Antiphon's own messages: frozen, of exact types, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LenientMessage(BaseModel):
    """Messages in others' formats: unknown fields are ignored, and null means absent."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if value is not None}
        return values

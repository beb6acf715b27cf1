"""Fields that several protocols parse alike."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]
SampleRate: TypeAlias = Annotated[int, Field(ge=8000, le=48_000)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
RequestId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Position: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]


class StrictMessage(BaseModel):
    """Antiphon's own messages: frozen, of exact types, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

"""Defaults of drawing ids, and the wishes of a request in their place."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final, Self

from ttscommon.wire.messages import Sampling

# Of fields that a request calls otherwise.
_ASKED: Final = MappingProxyType({"penalty": "repetition_penalty"})


@dataclass(frozen=True)
class Drawing:
    """A temperature of 0 is greedy, a top_k of 0 keeps all ids, a top_p of 1 too."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0

    def wished(self, asked: Sampling) -> Self:
        """With the request's wish in place of each of these defaults that it names."""
        found = {f.name: getattr(asked, _ASKED.get(f.name, f.name), None) for f in fields(self)}
        return replace(self, **{name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True)
class PenalisedDrawing(Drawing):
    """penalty: what the logits of ids that were drawn before are divided or multiplied by."""

    penalty: float = 1.0


@dataclass(frozen=True)
class LayeredDrawing(Drawing):
    """subtalker: of the codebooks behind the first, which a network of their own predicts."""

    subtalker_temperature: float = 1.0
    subtalker_top_k: int = 0
    subtalker_top_p: float = 1.0

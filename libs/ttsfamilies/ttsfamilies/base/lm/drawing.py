"""Settings of drawing: defaults, a request's values in their place, and what a slot is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Self, get_type_hints

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import Sampling
from ttsfamilies.base.talker.base import NUMBER, REAL
from ttsfamilies.base.talker.streams import SlotWriter

# Of fields that a request calls otherwise.
_ASKED: Final = MappingProxyType({"penalty": "repetition_penalty"})


def fields_of(drawing: type[Any]) -> dict[str, Field]:
    """What `tell` writes of a slot's state: its settings, its seed and whether it is over."""
    settings = get_type_hints(drawing).items()
    return {
        **dict.fromkeys(("over", "seed"), NUMBER),
        **{name: NUMBER if kind is int else REAL for name, kind in settings},
    }


def tell(write: SlotWriter, seed: int, drawing: Any) -> None:
    """Begin to draw so: a slot's settings and seed, and that it is not over."""
    write("over", 0)
    write("seed", seed)
    for name, value in asdict(drawing).items():
        write(name, value)


@dataclass(frozen=True)
class Drawing:
    """A temperature of 0 is greedy, a top_k of 0 keeps all ids, a top_p of 1 too."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0

    def with_asked(self, asked: Sampling) -> Self:
        """With the request's value in place of each of these defaults that it names."""
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

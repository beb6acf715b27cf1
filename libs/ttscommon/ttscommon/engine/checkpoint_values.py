"""Values of a checkpoint's config that no network can have, found before one is built. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

# Beyond everything that is published, and little enough to be described without weights.
_MOST: Final = 1 << 20
_MOST_LAYERS: Final = 512


def size_problems(part: Any) -> list[str]:
    """What is wrong with the numbers of a dataclass of sizes, by their names.

    Integers are counts, but for names that end in `_id`; floats are positive and finite.
    """
    return [
        f"{field.name} is {value}, not {wanted}"
        for field in fields(part)
        if not field.name.endswith("_id")
        for value in _numbers(getattr(part, field.name))
        if (wanted := _unlike(field.name, value))
    ]


def head_problems(heads: int, kv_heads: int, head_dim: int) -> list[str]:
    """What is wrong with the heads of an attention that rotates them."""
    found = []
    if kv_heads < 1 or heads % kv_heads:
        found.append(f"{heads} heads are no multiple of {kv_heads} KV heads")
    if head_dim % 2:
        found.append(f"head_dim {head_dim} is odd, and cannot be rotated")
    return found


def scaling_problems(scaling: dict[str, Any] | None) -> list[str]:
    """Rotations other than plain ones, under either name that files have for their kind."""
    told = scaling or {}
    kinds = {str(told[key]) for key in ("rope_type", "type") if key in told}
    return [f"rope_scaling {told} is not served"] if kinds - {"default"} else []


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _unlike(name: str, value: int | float) -> str:
    """What the value ought to be, if it is not."""
    if isinstance(value, float):
        return "" if math.isfinite(value) and value > 0 else "a positive number"
    most = _MOST_LAYERS if "layers" in name else _MOST
    return "" if 1 <= value <= most else f"from 1 to {most}"

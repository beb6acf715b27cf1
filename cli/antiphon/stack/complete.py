"""The models of a stack that speak: those that have a process ready for each stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

DEFAULT: Final = "vesper"
_BOTH: Final = frozenset({"talker", "vocoder"})
_STAGES: Final = {"pair": _BOTH, "talker": frozenset({"talker"}), "vocoder": frozenset({"vocoder"})}


def speaking(ready: Collection[str], models: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Models, by the names of processes that are `ready`; none without a gateway.

    models: the checkpoints that a process works for; one without any has the default voice.
    """
    if not any(_stage(name) == "gateway" for name in ready):
        return []
    found = dict[str, set[str]]()
    for name in ready:
        for model in models.get(name, (DEFAULT,)):
            found.setdefault(model, set()).update(_STAGES.get(_stage(name), ()))
    return sorted(model for model, stages in found.items() if stages == _BOTH)


def _stage(process: str) -> str:
    return process.split("-")[0]

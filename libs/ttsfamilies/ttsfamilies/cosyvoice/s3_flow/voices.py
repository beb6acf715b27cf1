"""Recordings as streams know them: those with the same one share what it says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from weakref import WeakValueDictionary

from ttscommon.wire.fields import Arrays
from ttsfamilies.cosyvoice.s3_flow.passage import FlowPrompt


class FlowPrompts:
    """Prompts by what recordings say: each is kept while a stream has it, and the latest longer."""

    def __init__(self, make: Callable[[Arrays], FlowPrompt]) -> None:
        self._make = make
        self._known: WeakValueDictionary[bytes, FlowPrompt] = WeakValueDictionary()
        self._latest: FlowPrompt | None = None

    def of(self, conditions: Arrays) -> FlowPrompt:
        key = _digest(conditions)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(conditions)
        self._latest = found
        return found


def _digest(conditions: Arrays) -> bytes:
    told = hashlib.blake2b()
    for name in sorted(conditions):
        told.update(f"{name}{conditions[name].shape}".encode())
        told.update(conditions[name].tobytes())
    return told.digest()

"""Memory of a model: what its tensors and arrays take, and giving it back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from ttscommon.process.service import Service

# They lead to everything that is imported, or that runs in the process.
_SHARED: Final = (
    *(ModuleType, type, FrameType, BuiltinFunctionType),
    *(asyncio.AbstractEventLoop, Service),
)


def bytes_held(root: object, beyond: Iterable[object] = ()) -> int:
    """Bytes of all tensors and arrays that can be reached from `root`, each memory once, and not
    through any of `beyond`.
    """
    blocks: dict[int, int] = {}
    for found in _reached(root, {id(one) for one in beyond}):
        address, size = _block(found)
        if size:
            blocks[address] = max(size, blocks.get(address, 0))
    return sum(blocks.values())


def _reached(root: object, seen: set[int]) -> Iterator[Any]:
    """Objects below `root`, without what functions and classes share with the whole process."""
    waiting = [root]
    while waiting:
        one = waiting.pop()
        yield one
        for below in _below(one):
            if id(below) not in seen and not isinstance(below, _SHARED):
                seen.add(id(below))
                waiting.append(below)


def _below(one: Any) -> list[Any]:
    if isinstance(one, FunctionType):
        return [cell.cell_contents for cell in one.__closure__ or () if _filled(cell)]
    return gc.get_referents(one)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _block(found: Any) -> tuple[int, int]:
    """Where the memory of a tensor or array begins, and its bytes; 0 of anything else."""
    if isinstance(found, np.ndarray):
        return (0, 0) if isinstance(found.base, np.ndarray) else (found.ctypes.data, found.nbytes)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(found, torch.Tensor):
        storage = found.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    return 0, 0


def give_back_memory() -> None:
    """Free what only circles of references hold, and have the C library return what is free."""
    gc.collect()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

"""Named arrays that travel as one copy between host and device, and the buffers they travel in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device, DeviceEvent
from ttscommon.wire.fields import Array, Arrays

_ALIGNMENT: Final = 16


class Buffers:
    """Pinned buffers that wait to be used again, by their size in bytes."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._free: dict[int, list[Tensor]] = defaultdict(list)

    def take(self, size: int) -> Tensor:
        """A buffer of `size` bytes, of any content."""
        free = self._free[size]
        return free.pop() if free else self._device.pinned(size)

    def give_back(self, buffers: Sequence[Tensor]) -> None:
        """No copy reads or writes these any more."""
        for buffer in buffers:
            self._free[buffer.numel()].append(buffer)


class Inputs:
    """Arrays of fixed shapes on the device that the host fills before each launch.

    tensors: [*shape] by name, always the same ones.
    """

    def __init__(
        self, device: Device, buffers: Buffers, fields: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> None:
        """fields: shape and numpy dtype by name."""
        self._device, self._buffers, self._fields = device, buffers, dict(fields)
        self._at: dict[str, tuple[int, int]] = {}
        size = 0
        for name, (shape, dtype) in fields.items():
            length = prod(shape) * np.dtype(dtype).itemsize
            self._at[name] = size, length
            size += -(-length // _ALIGNMENT) * _ALIGNMENT
        with device.making():
            self._bytes = torch.zeros(size, dtype=torch.uint8, device=device.where)
        self.tensors = {name: self._view(name) for name in fields}

    def _view(self, name: str) -> Tensor:
        (shape, dtype), (start, length) = self._fields[name], self._at[name]
        of_type = torch.from_numpy(np.empty(0, dtype)).dtype
        return self._bytes[start : start + length].view(of_type).view(shape)

    def fill(self, arrays: Arrays) -> Tensor:
        """Submit a copy of arrays that begin as the fields do, zeros behind them.

        Returns the buffer, to be given back when the copy is done.
        """
        buffer = self._buffers.take(self._bytes.numel())
        host: Array = buffer.numpy()
        for name, (shape, dtype) in self._fields.items():
            start, length = self._at[name]
            target = host[start : start + length].view(dtype).reshape(shape)
            array = arrays[name]
            target[: len(array)] = array
            target[len(array) :] = 0
        self._device.submit(lambda: self._bytes.copy_(buffer, non_blocking=True))
        return buffer


def _numpy_type(dtype: torch.dtype) -> Any:
    return torch.empty(0, dtype=dtype).numpy().dtype


def _portable(tensor: Tensor) -> Tensor:
    """In a type that numpy has too."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


class DeviceResult:
    """What work on the device gives, rows of several tensors side by side in one of bytes.

    out: [rows, bytes] uint8, known as soon as the work was recorded or run. fields: shape of a row
    and numpy dtype by name, as the first tensors had them.
    """

    def __init__(self) -> None:
        self.out: Tensor | None = None
        self.fields: dict[str, tuple[tuple[int, ...], Any]] = {}

    def packed(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Tensors [rows, ...] side by side as `out` is to be, [rows, bytes] uint8."""
        portable = {name: _portable(tensor) for name, tensor in tensors.items()}
        for name, tensor in portable.items() if not self.fields else ():
            self.fields[name] = tuple(tensor.shape[1:]), _numpy_type(tensor.dtype)
        parts = [portable[name].reshape(len(portable[name]), -1) for name in self.fields]
        return torch.cat([part.contiguous().view(torch.uint8) for part in parts], 1)

    def unpacked(self, rows: Array) -> dict[str, Array]:
        """[rows, bytes] uint8 -> arrays [rows, ...]."""
        found, at = {}, 0
        for name, (shape, dtype) in self.fields.items():
            length = prod(shape) * dtype.itemsize
            part = rows[:, at : at + length].copy()
            found[name] = part.view(dtype).reshape(len(rows), *shape)
            at += length
        return found


class Fetch:
    """A result on its way to the host."""

    def __init__(
        self,
        device: Device,
        buffers: Buffers,
        result: DeviceResult,
        rows: int,
        held: Sequence[Tensor] = (),
    ) -> None:
        """Submits the copy of a result's first `rows` rows.

        held: buffers that the work before it reads, given back with its own.
        """
        self._buffers, self._result, self._rows = buffers, result, rows
        self._held = list(held)
        device.submit(self._copy)
        self._mark: DeviceEvent = device.mark()

    def _copy(self) -> None:
        out = self._result.out
        assert out is not None
        buffer = self._buffers.take(out.numel())
        self._there = buffer[: self._rows * out.shape[1]].view(self._rows, -1)
        self._there.copy_(out[: self._rows], non_blocking=True)
        self._held.append(buffer)

    def arrive(self) -> None:
        """Block until the result is on the host. Raises DeviceError."""
        self._mark.wait()

    def wait(self) -> dict[str, Array]:
        """The tensors' rows, of one's own. Raises DeviceError."""
        self.arrive()
        arrays = self._result.unpacked(self._there.numpy())
        self._buffers.give_back(self._held)
        return arrays

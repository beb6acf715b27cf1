"""Decoder states of many streams on a device, a row each."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ttscommon.engine.slots import NoSlot


class StateSlots:
    """`rows` rows of state, and one more that padding reads and writes.

    tensors: [rows + 1, *shape] by name; they stay where they are.
    """

    def __init__(self, blank: Mapping[str, Tensor], rows: int, where: torch.device) -> None:
        """blank: the state of a stream of which nothing was decoded, [*shape] by name."""
        self.padding = rows
        self._blank = {name: tensor.to(where) for name, tensor in blank.items()}
        self.tensors = {
            name: tensor.new_zeros(rows + 1, *tensor.shape) for name, tensor in self._blank.items()
        }
        self._free = list(range(rows - 1, -1, -1))

    def take(self) -> int:
        """A row of any content; raises NoSlot."""
        if not self._free:
            raise NoSlot("the codec holds as many streams as it has room for")
        return self._free.pop()

    def give_back(self, row: int) -> None:
        """No launch writes this row any more."""
        if row in self._free:
            raise AssertionError(f"row {row} was given back twice")
        self._free.append(row)

    def read(self, slots: Tensor, fresh: Tensor) -> dict[str, Tensor]:
        """States of these rows, [rows, *shape]; blank ones where `fresh` [rows] bool."""
        return {
            name: torch.where(_beside(fresh, tensor), self._blank[name], tensor[slots])
            for name, tensor in self.tensors.items()
        }

    def write(self, slots: Tensor, states: Mapping[str, Tensor]) -> None:
        """The inverse of `read`."""
        for name, tensor in self.tensors.items():
            tensor.index_copy_(0, slots, states[name])


def _beside(flags: Tensor, tensor: Tensor) -> Tensor:
    """[rows] -> [rows, 1, ...] with as many dimensions as `tensor`."""
    return flags.view(-1, *[1] * (tensor.dim() - 1))

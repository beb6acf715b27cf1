"""Several streams through one network as one batch, wherever their shapes are the same.

What a stream needs of a network it asks for in the middle of its own work, and goes on with the
answer. Nothing is padded: of the other rows only their number can be told from a row's rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a network is to make of one stream's tensors; it takes and gives one dimension more."""

    net: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        """The same for all that can be one batch."""
        return (self.net, *(part.shape for part in self.inputs))


Asking: TypeAlias = Generator[Asked, Tensor, T]


def together(streams: Sequence[Asking[T]]) -> list[T]:
    """What each stream's work returns."""
    found: dict[int, T] = {}
    asked = dict[int, Asked]()
    for i in range(len(streams)):
        _go_on(streams, i, None, asked, found)
    while asked:
        waiting, asked = asked, {}
        for i, answer in _answers(waiting).items():
            _go_on(streams, i, answer, asked, found)
    return [found[i] for i in range(len(streams))]


def _go_on(
    streams: Sequence[Asking[T]],
    i: int,
    answer: Tensor | None,
    asked: dict[int, Asked],
    found: dict[int, T],
) -> None:
    """Let a stream work until it asks again or is done."""
    try:
        asked[i] = next(streams[i]) if answer is None else streams[i].send(answer)
    except StopIteration as end:
        found[i] = end.value


def _answers(asked: Mapping[int, Asked]) -> dict[int, Tensor]:
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, one in asked.items():
        alike.setdefault(one.alike, []).append(i)
    found: dict[int, Tensor] = {}
    for every in alike.values():
        inputs = zip(*(asked[i].inputs for i in every), strict=True)
        rows = asked[every[0]].net(*(torch.stack(parts) for parts in inputs))
        found |= dict(zip(every, rows, strict=True))
    return found

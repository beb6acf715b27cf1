"""What a stream carries from one call to the next, and how it passes through the network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, dense_attention, tail_after


@dataclass(frozen=True)
class State:
    """State of a batch of streams; every tensor's first dimension is the batch.

    position: [batch] int64, frames decoded so far.
    keys, values: [batch, layers, sliding_window - 1, kv_heads, head_dim], of the last frames.
    tails: [batch, channels, steps] each, inputs of the convolutions in the order of
    `CodecDecoder.convolutions`.
    """

    position: Tensor
    keys: Tensor
    values: Tensor
    tails: tuple[Tensor, ...]

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.position, self.keys, self.values, *self.tails)

    @classmethod
    def of(cls, tensors: list[Tensor]) -> State:
        """The inverse of `tensors`."""
        position, keys, values, *tails = tensors
        return cls(position, keys, values, tuple(tails))

    @property
    def bytes_a_stream(self) -> int:
        return sum(tensor[0].nbytes for tensor in self.tensors())


def stack(states: list[State]) -> State:
    """Streams side by side in one batch."""
    columns = zip(*(state.tensors() for state in states), strict=True)
    return State.of([torch.cat(column) for column in columns])


def unstack(batch: State) -> list[State]:
    """The inverse of `stack`, for streams of one each."""
    columns = [tensor.split(1) for tensor in batch.tensors()]
    return [State.of(list(row)) for row in zip(*columns, strict=True)]


class Tails:
    """Hands every convolution its old tail and keeps the new ones.

    lengths: [batch] int64, real steps of the present input; grows with each upsampling.
    """

    def __init__(self, tails: tuple[Tensor, ...], lengths: Tensor) -> None:
        self._old = iter(tails)
        self._new: list[Tensor] = []
        self._lengths = lengths

    def through(self, convolution: CausalConv1d | CausalUpsample1d, x: Tensor) -> Tensor:
        """[batch, inputs, steps] -> what the convolution makes of it behind its tail."""
        x, tail = convolution.step(x, self._lengths, next(self._old))
        self._new.append(tail)
        if isinstance(convolution, CausalUpsample1d):
            self._lengths = self._lengths * convolution.rate
        return x

    def done(self) -> tuple[Tensor, ...]:
        return tuple(self._new)


class Window:
    """Sliding-window attention of all layers over carried keys and values and the new ones."""

    def __init__(self, state: State, lengths: Tensor, frames: int) -> None:
        self._state, self._lengths = state, lengths
        self._size = state.keys.shape[2]
        self._visible = _visible(state.position, self._size, frames)
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[batch, frames, heads, head_dim] each -> the same; layers come in order."""
        k = torch.cat((self._state.keys[:, layer], k), 1)
        v = torch.cat((self._state.values[:, layer], v), 1)
        self._keys.append(self._tail(k))
        self._values.append(self._tail(v))
        return dense_attention(q, k, v, self._visible)

    def done(self) -> tuple[Tensor, Tensor]:
        """New keys and values of all layers."""
        return torch.stack(self._keys, 1), torch.stack(self._values, 1)

    def _tail(self, x: Tensor) -> Tensor:
        kept = tail_after(x.flatten(2), self._lengths, self._size)
        return kept.unflatten(2, x.shape[2:])


def _visible(position: Tensor, size: int, frames: int) -> Tensor:
    """[batch, frames, size + frames] bool: not later, not older than the window, not before 0."""
    query = torch.arange(frames, device=position.device)[:, None]
    key = torch.arange(size + frames, device=position.device) - size
    near = (key <= query) & (query - key <= size)
    return near & (position[:, None, None] + key >= 0)

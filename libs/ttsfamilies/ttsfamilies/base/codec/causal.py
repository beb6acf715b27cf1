"""State that a stream of a causal network carries, and its way through the layers.

For Mimi and its like: quantized vectors, a transformer with a window, causal convolutions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ttscommon.engine.nn import (
    CausalConv1d,
    CausalUpsample1d,
    Decoder,
    dense_attention,
    tail_after,
)
from ttscommon.engine.nn.weights import Source, same

_USAGE_FLOOR = 1e-5


@dataclass(frozen=True)
class CausalState:
    """State of a batch of streams; every tensor's first dimension is the batch.

    position: [batch] int64, steps of the transformer so far.
    keys, values: [batch, layers, window - 1, kv_heads, head_dim], of its last steps.
    tails: [batch, channels, steps] each, inputs of the convolutions in their order.
    """

    position: Tensor
    keys: Tensor
    values: Tensor
    tails: tuple[Tensor, ...]

    def named(self) -> dict[str, Tensor]:
        """All tensors, by their places."""
        tensors = (self.position, self.keys, self.values, *self.tails)
        return {str(place): tensor for place, tensor in enumerate(tensors)}

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> CausalState:
        """The inverse of `named`."""
        position, keys, values, *tails = named.values()
        return cls(position, keys, values, tuple(tails))


def convolved_state(
    convolutions: Iterable[CausalConv1d | CausalUpsample1d], batch: int, like: Tensor
) -> CausalState:
    """Streams of which nothing was decoded yet, of a network without attention, beside `like`."""
    return CausalState(
        torch.zeros(batch, dtype=torch.int64, device=like.device),
        like.new_zeros(batch, 0),
        like.new_zeros(batch, 0),
        tuple(like.new_zeros(batch, conv.in_channels, conv.tail_size) for conv in convolutions),
    )


class CausalStack(nn.Module):
    """Convolutions with tails, and a `transformer` whose steps attend to the last `window`."""

    transformer: Decoder
    window: int

    @abstractmethod
    def convolutions(self) -> Iterable[CausalConv1d | CausalUpsample1d]:
        """In the order in which sound passes them; pointwise ones carry nothing."""

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""
        c, like = self.transformer.config, next(self.parameters())
        shape = (batch, c.layers, self.window - 1, c.kv_heads, c.head_dim)
        found = convolved_state(self.convolutions(), batch, like)
        return replace(found, keys=like.new_zeros(shape), values=like.new_zeros(shape))


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


def attended(
    stack: Decoder, x: Tensor, lengths: Tensor, state: CausalState, first: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """[batch, steps, dim], of which `lengths` [batch] are real -> the same through blocks that
    attend to a window, and new keys and values of all layers.

    first: [batch], positions of the first steps, where more than distances matters.
    """
    window = SlidingWindow(state, lengths, x.shape[1])
    begin = state.position if first is None else first
    positions = begin[:, None] + torch.arange(x.shape[1], device=x.device)
    return stack(x, positions, window.attend), *window.done()


class SlidingWindow:
    """Sliding-window attention of all layers over carried keys and values and the new ones.

    lengths: [batch] int64, real ones of the `steps` new steps.
    """

    def __init__(self, state: CausalState, lengths: Tensor, steps: int) -> None:
        self._state, self._lengths = state, lengths
        self._size = state.keys.shape[2]
        self._visible = _visible(state.position, self._size, steps)
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[batch, steps, heads, head_dim] each -> the same; layers come in order."""
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


def _visible(position: Tensor, size: int, steps: int) -> Tensor:
    """[batch, steps, size + steps] bool: not later, not older than the window, not before 0."""
    query = torch.arange(steps, device=position.device)[:, None]
    key = torch.arange(size + steps, device=position.device) - size
    near = (key <= query) & (query - key <= size)
    return near & (position[:, None, None] + key >= 0)


class Quantizer(nn.Module):
    """Codes to vectors: codebook 0 and the others are summed and projected apart.

    A codebook's entry is its running sum divided by its usage, as training left them.
    """

    tables: Tensor

    def __init__(self, codebooks: int, size: int, inner: int, outer: int) -> None:
        super().__init__()
        self.size = size
        self.sums = nn.Parameter(torch.empty(codebooks, size, inner))
        self.usage = nn.Parameter(torch.empty(codebooks, size))
        self.first = nn.Conv1d(inner, outer, 1, bias=False)
        self.rest = nn.Conv1d(inner, outer, 1, bias=False)
        self.register_buffer("tables", torch.empty(0), persistent=False)

    def freeze(self) -> None:
        """Divide once and for all; to be called when the parameters are loaded."""
        divided = self.sums / self.usage.clamp(min=_USAGE_FLOOR)[..., None]
        self.tables = divided.detach().flatten(0, 1)

    def forward(self, codes: Tensor) -> Tensor:
        """[batch, frames, codebooks] int64 -> [batch, outer, frames]."""
        offsets = torch.arange(codes.shape[-1], device=codes.device) * self.size
        entries = self.tables[codes + offsets]
        rest = entries[..., 1:, :].sum(-2).transpose(1, 2)
        return self.first(entries[..., 0, :].transpose(1, 2)) + self.rest(rest)


def quantizer_sources(
    codebooks: int, first: str, rest: str, book: str = "vq.layers.*._codebook.embedding_sum"
) -> dict[str, Source]:
    """A `quantizer`, published as two: of codebook 0, and of the rest; what their names begin with.

    book: what the sums of a codebook, of which `*` is the number, are called in either.
    """
    sums = [f"{first}{book.replace('*', '0')}"]
    sums += [f"{rest}{book.replace('*', str(i))}" for i in range(codebooks - 1)]
    usage = tuple(f"{name.rpartition('.')[0]}.cluster_usage" for name in sums)
    return {
        "quantizer.sums": Source(tuple(sums), stacked=True),
        "quantizer.usage": Source(usage, stacked=True),
        "quantizer.first.weight": same(f"{first}output_proj.weight"),
        "quantizer.rest.weight": same(f"{rest}output_proj.weight"),
    }


# Convolutions that look ahead, over a sound that comes in pieces.
#
# Each layer keeps the last of its inputs and gives an output as soon as all that it depends on is
# there. So nothing is computed twice, and outputs lag behind by what the layers look ahead. What
# is beyond either end of a sound is silence to every layer.
#
# Layers are `flat` ones without padding, over [1, channels, 1, steps].


class StreamContext:
    """Hands out what the layers kept, in their order, and keeps what they need next.

    kept: by an earlier piece; None at the beginning of a sound. ends: nothing follows this piece.
    """

    def __init__(self, kept: Sequence[Tensor] | None, *, ends: bool) -> None:
        self._old = None if kept is None else iter(kept)
        self._ends = ends
        self.kept: list[Tensor] = []

    def around(self, x: Tensor, reach: int) -> Tensor:
        """x with `reach` steps more on both sides of whatever can be computed by now."""
        x = self._behind(x, reach)
        if self._ends:
            x = pad(x, (0, reach))
        self._keep(x, max(0, x.shape[-1] - 2 * reach))
        return x

    def upsampled(self, up: nn.ConvTranspose2d, x: Tensor) -> Tensor:
        """By a layer whose outputs know two inputs at the most."""
        rate, before = up.stride[1], (up.kernel_size[1] - up.stride[1]) // 2
        new = x.shape[-1]
        x = self._behind(x, 0)
        # A kept input's outputs are known but for those that wait for the one behind it.
        begin = rate if x.shape[-1] > new else before
        if self._ends:
            x = pad(x, (0, 1))
        self._keep(x, max(0, x.shape[-1] - 1))
        end = x.shape[-1] * rate - (rate - before) * self._ends
        return up(x)[..., begin:end] if begin < end else _nothing(up, x)

    def in_step(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """As much of each as there is of all; the rest is kept."""
        whole = [self._behind(part, 0) for part in parts]
        steps = min(part.shape[-1] for part in whole)
        for part in whole:
            self._keep(part, steps)
        return [part[..., :steps] for part in whole]

    def _behind(self, x: Tensor, silent: int) -> Tensor:
        if self._old is None:
            return pad(x, (silent, 0)) if silent else x
        old = next(self._old)
        return _joined(old, x) if old.shape[-1] else x

    def _keep(self, x: Tensor, begin: int) -> None:
        self.kept.append(x[..., begin:].clone(memory_format=torch.channels_last))


def _joined(*parts: Tensor) -> Tensor:
    """One behind the other, each [1, channels, 1, steps], as rows of steps: these are contiguous,
    and pictures of which the channels come last are copied number by number.
    """
    return torch.cat([part[0, :, 0].T for part in parts]).T[None, :, None]


def reach_of(conv: nn.Conv2d) -> int:
    """Steps on each side that an output depends on."""
    return conv.dilation[1] * (conv.kernel_size[1] - 1) // 2


def convolved(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Without the steps at both ends that it reaches for; none where there are no others."""
    if x.shape[-1] <= 2 * reach_of(conv):
        return _nothing(conv, x)
    return conv(x)


def _nothing(conv: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> Tensor:
    return x.new_zeros(1, conv.out_channels, 1, 0)

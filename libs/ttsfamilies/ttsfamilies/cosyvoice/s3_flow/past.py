"""State of a causal network behind its steps, and one pass of several streams through it.

A stream has one `Past` for its encoder and one for each step of its solver: the inputs that
convolutions reach back to, and the keys and values of each attention. A pass hands them out in the
order in which the network asks. A growing one has the new ones when it is done: if it fails, it has
changed nothing. What a graph records is a fixed one, see `pages.FixedPass`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn


class Pair(NamedTuple):
    """Keys and values of an attention, [rows, heads, steps, head_dim] each."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Past:
    """steps: how many there were. tails: [rows, channels, reach] each."""

    steps: int = 0
    tails: tuple[Tensor, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def nbytes(self) -> int:
        kept = (*self.tails, *(tensor for pair in self.pairs for tensor in pair))
        return sum(tensor.nbytes for tensor in kept)


NOTHING = Past()


@dataclass(frozen=True)
class Stretch:
    """New steps of one stream: `steps` of them behind `past`. chunk: steps that see each other and
    all before them, on a grid from the first step on; 0: every step sees every other.
    """

    past: Past
    steps: int
    chunk: int = 0

    def visible(self, device: torch.device) -> Tensor | None:
        """[new steps, all steps] bool; None where each new step sees all."""
        first, last = self.past.steps, self.past.steps + self.steps
        if not self.chunk or first // self.chunk == (last - 1) // self.chunk:
            return None
        at = torch.arange(first, last, device=device)
        ends = (at // self.chunk + 1) * self.chunk
        return torch.arange(last, device=device) < ends[:, None]


# Of the stream i, [rows, heads, new steps, all steps].
Bias: TypeAlias = Callable[[int, Stretch], Tensor]


class Pass(ABC):
    """Streams of some rows each, one behind the other, through a network.

    Inputs are right padded to the longest stretch; what lies behind a stretch's end is nothing that
    any real step sees.
    """

    @abstractmethod
    def begins(self, device: torch.device) -> Tensor:
        """[rows] int64: how many steps there were before each row's first."""

    @abstractmethod
    def behind(self, x: Tensor, reach: int) -> Tensor:
        """[rows, channels, steps] behind the `reach` steps before it: zeros where there were none.

        reach: of the convolution that comes next.
        """

    @abstractmethod
    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Bias | None = None) -> Tensor:
        """[rows, steps, heads, head_dim] each -> [rows, steps, heads * head_dim].

        bias: what is added to the scores, scaled.
        """


class WholePass(Pass):
    """Streams of one length, all of which is shown; nothing of them is kept.

    chunk: see Stretch.
    """

    def __init__(self, chunk: int = 0) -> None:
        self._chunk = chunk

    def begins(self, device: torch.device) -> Tensor:
        return torch.zeros(1, dtype=torch.int64, device=device)

    def behind(self, x: Tensor, reach: int) -> Tensor:
        return nn.functional.pad(x, (reach, 0))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Bias | None = None) -> Tensor:
        stretch = Stretch(NOTHING, q.shape[1], self._chunk)
        seen = stretch.visible(q.device)
        if bias is not None:
            added = bias(0, stretch)
            seen = added if seen is None else added.masked_fill(~seen, float("-inf"))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return found.transpose(1, 2).flatten(2)


class GrowingPass(Pass):
    """What each stream keeps are tensors of its own, as long as they are.

    newest_first: keys and values of a stretch stand before those of the stretches before it.
    """

    def __init__(
        self, stretches: Sequence[Stretch], rows: int = 1, *, newest_first: bool = False
    ) -> None:
        self.stretches, self._rows = stretches, rows
        self._turn = -1 if newest_first else 1
        self._tails = [iter(stretch.past.tails) for stretch in stretches]
        self._pairs = [iter(stretch.past.pairs) for stretch in stretches]
        self._new_tails: list[list[Tensor]] = [[] for _ in stretches]
        self._new_pairs: list[list[Pair]] = [[] for _ in stretches]
        self._seen: dict[int, Tensor | None] = {}

    def begins(self, device: torch.device) -> Tensor:
        before = torch.tensor([s.past.steps for s in self.stretches], device=device)
        return before.repeat_interleave(self._rows)

    def behind(self, x: Tensor, reach: int) -> Tensor:
        tails = torch.cat([self._tail(i, x, reach) for i in range(len(self.stretches))])
        whole = torch.cat((tails, x), 2)
        for i, stretch in enumerate(self.stretches):
            end = stretch.steps
            self._new_tails[i].append(self._of(i, whole)[..., end : end + reach].clone())
        return whole

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Bias | None = None) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        found = torch.zeros_like(q)
        for i, stretch in enumerate(self.stretches):
            part = self._of(i, q)[:, :, : stretch.steps]
            pair = self._joined(i, self._of(i, k), self._of(i, v))
            seen = self._mask(i, q.device)
            if bias is not None:
                added = bias(i, stretch)
                seen = added if seen is None else added.masked_fill(~seen, float("-inf"))
            self._of(i, found)[:, :, : stretch.steps] = nn.functional.scaled_dot_product_attention(
                part, pair.keys, pair.values, attn_mask=seen
            )
        return found.transpose(1, 2).flatten(2)

    def _joined(self, i: int, k: Tensor, v: Tensor) -> Pair:
        """A stream's keys and values [rows, heads, steps, head_dim] beside its earlier ones."""
        steps = self.stretches[i].steps
        pair = Pair(k[:, :, :steps], v[:, :, :steps])
        if self.stretches[i].past.steps:
            before = next(self._pairs[i])
            both = zip(before, pair, strict=True)
            pair = Pair(*(torch.cat(parts[:: self._turn], 2) for parts in both))
        self._new_pairs[i].append(Pair(*(tensor.contiguous() for tensor in pair)))
        return pair

    def done(self) -> list[Past]:
        """What each stream keeps now."""
        return [
            Past(stretch.past.steps + stretch.steps, tuple(tails), tuple(pairs))
            for stretch, tails, pairs in zip(
                self.stretches, self._new_tails, self._new_pairs, strict=True
            )
        ]

    def _of(self, i: int, x: Tensor) -> Tensor:
        return x[i * self._rows : (i + 1) * self._rows]

    def _tail(self, i: int, x: Tensor, reach: int) -> Tensor:
        if self.stretches[i].past.steps:
            return next(self._tails[i])
        return x.new_zeros(self._rows, x.shape[1], reach)

    def _mask(self, i: int, device: torch.device) -> Tensor | None:
        if i not in self._seen:
            self._seen[i] = self.stretches[i].visible(device)
        return self._seen[i]

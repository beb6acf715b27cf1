"""Keys and values that streams on a device carry, in pages, and a pass in fixed shapes over them.

A page is a chunk of mel frames, of every step of the solver. Stretches begin on the grid of chunks,
so that a page has one stream's frames, all of them or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ttscommon.engine.inflight import LaunchPath
from ttsfamilies.base.codec.base import Decoded
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet, Solving
from ttsfamilies.cosyvoice.s3_flow.passage import Passage
from ttsfamilies.cosyvoice.s3_flow.past import Bias, Pass
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, HEAD_DIM, MEL_FRAMES

PAGE: Final = CHUNK * MEL_FRAMES
"""Mel frames of a page."""


class PageSizes(NamedTuple):
    """rows: of a stream in a batch."""

    steps: int
    layers: int
    rows: int
    heads: int


class Pages:
    """`count` pages, each of as many leaves as the solver has steps, and two leaves more.

    tensor: [leaves, layers, 2, rows, heads, PAGE, HEAD_DIM], which stays where it is. blank: a leaf
    of zeros, read where there is nothing. waste: one that is written and never read.
    """

    def __init__(
        self, count: int, sizes: PageSizes, dtype: torch.dtype, where: torch.device
    ) -> None:
        self.count, self._steps = count, sizes.steps
        self.blank, self.waste = (count * sizes.steps + i for i in range(2))
        shape = (self.waste + 1, sizes.layers, 2, sizes.rows, sizes.heads, PAGE, HEAD_DIM)
        self.tensor = torch.zeros(shape, dtype=dtype, device=where)
        self._free = list(range(count - 1, -1, -1))
        self._held: dict[int, set[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    def leaves(self, pages: tuple[int, ...], step: int) -> list[int]:
        """Where these pages have what a step of the solver carries."""
        return [page * self._steps + step for page in pages]

    def take(self, stream: int, count: int) -> tuple[int, ...] | None:
        """So many pages for a stream, of any content; None where there are not so many."""
        if count > len(self._free):
            return None
        taken = tuple(self._free.pop() for _ in range(count))
        self._held.setdefault(stream, set()).update(taken)
        return taken

    def keep(self, stream: int, pages: tuple[int, ...]) -> None:
        """A stream needs these of its pages, and no others any more."""
        held = self._held.pop(stream, set())
        self._free += sorted(held.difference(pages), reverse=True)
        if pages:
            self._held[stream] = held.intersection(pages)


class FixedPass(Pass):
    """Streams of `rows` rows each, in shapes that hang on no stream: what a graph records.

    Reads `Pages` and tails, and writes both in place. told, all int64: `steps` [streams], of the
    real ones; `before` [streams], steps before them; `past` and `fresh` [streams, pages], the
    leaves where what is carried lies and will lie. tails: [streams, rows, numbers], of all
    convolutions side by side.
    """

    def __init__(
        self, told: Mapping[str, Tensor], pages: Tensor, tails: Tensor, rows: int, chunk: int
    ) -> None:
        """chunk: see Stretch."""
        self._told, self._pages, self._tails = told, pages, tails
        self._rows, self._chunk = rows, chunk
        self._layer = self._at = 0
        self._seen: Tensor | None = None

    def begins(self, device: torch.device) -> Tensor:
        return self._told["before"].repeat_interleave(self._rows)

    def behind(self, x: Tensor, reach: int) -> Tensor:
        channels = x.shape[1]
        tails = self._tails[:, :, self._at : self._at + channels * reach]
        self._at += channels * reach
        whole = torch.cat((tails.reshape(-1, channels, reach), x), 2)
        ends = self._told["steps"].repeat_interleave(self._rows)
        at = ends[:, None] + torch.arange(reach, device=x.device)
        last = whole.gather(2, at[:, None].expand(-1, channels, -1))
        tails.copy_(last.view(tails.shape))
        return whole

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Bias | None = None) -> Tensor:
        assert bias is None, "no bias hangs on fixed shapes"
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        keys, values = self._before()
        found = nn.functional.scaled_dot_product_attention(
            q, torch.cat((keys, k), 2), torch.cat((values, v), 2), attn_mask=self._mask(q)
        )
        self._write(torch.stack((k, v)))
        self._layer += 1
        return found.transpose(1, 2).flatten(2)

    def _before(self) -> Tensor:
        """Keys and values of a layer, [2, streams * rows, heads, pages * PAGE, HEAD_DIM]."""
        parts = self._pages[self._told["past"], self._layer]
        return parts.permute(2, 0, 3, 4, 1, 5, 6).flatten(4, 5).flatten(1, 2)

    def _write(self, both: Tensor) -> None:
        """New ones, [2, streams * rows, heads, steps, HEAD_DIM]."""
        kinds, _, heads, steps, size = both.shape
        parts = both.view(kinds, -1, self._rows, heads, steps // PAGE, PAGE, size)
        parts = parts.permute(1, 4, 0, 2, 3, 5, 6)
        self._pages[self._told["fresh"], self._layer] = parts

    def _mask(self, q: Tensor) -> Tensor:
        """Which steps each new one sees, [streams * rows, 1, new steps, all steps] bool."""
        if self._seen is None:
            before = self._told["before"][:, None]
            new = torch.arange(q.shape[2], device=q.device)
            old = torch.arange(self._told["past"].shape[1] * PAGE, device=q.device)
            at = before + new
            there = new < self._told["steps"].clamp(min=1)[:, None]
            seen = there[:, None].expand(-1, len(new), -1)
            if self._chunk:
                ends = (at // self._chunk + 1) * self._chunk
                seen = seen & (at[:, None] < ends[:, :, None])
            known = (old < before)[:, None].expand(-1, len(new), -1)
            whole = torch.cat((known, seen), 2)[:, None]
            self._seen = whole.repeat_interleave(self._rows, 0)
        return self._seen


# Memory for what streams carry from one stretch to the next, and steps of the solver over it.


T = TypeVar("T")


@dataclass(frozen=True)
class S3Ticket:
    """What a launch made, and how its steps were computed."""

    decoded: Sequence[Decoded]
    paths: Sequence[LaunchPath]


@dataclass
class Carrying(ABC):
    """memory: bytes that streams may carry together; frame_bytes: that each token adds. Streams are
    told apart by a number.

    recomputed: stretches that were computed from their passage's beginning for want of memory.
    paths: of the steps since they were last taken.
    """

    net: FlowNet
    memory: int
    frame_bytes: int
    recomputed: int = 0
    paths: list[LaunchPath] = field(default_factory=list)

    @property
    @abstractmethod
    def held(self) -> int:
        """Bytes that streams carry."""

    @property
    def taken(self) -> int:
        """Bytes that streams carry, or are bound to."""
        return self.held

    @property
    def room(self) -> tuple[int, int]:
        """Tokens whose state there is still memory for, and of all memory."""
        each = self.frame_bytes
        return max(0, self.memory - self.taken) // each, self.memory // each

    @abstractmethod
    def begin(self, stream: int, passage: Passage, end: int) -> tuple[Passage, tuple[int, ...]]:
        """Before a stretch up to the token `end`: the passage, without what it carries where there
        is no room for more, and the pages for what it will carry.
        """

    @abstractmethod
    def step(self, works: Sequence[Solving]) -> list[Solving]:
        """One step of each."""

    @abstractmethod
    def behind(self, stream: int, passage: Passage) -> Passage:
        """A passage whose stretch is solved, without what it carries where there is no room."""

    @abstractmethod
    def keep(self, stream: int, passage: Passage | None) -> None:
        """The stream carries this and nothing else now."""

    def expect(self, stream: int, tokens: int) -> None:  # noqa: B027
        """The stream will carry as much as so many tokens add, and then little more."""

    def run(self, work: Callable[[], T]) -> T:
        """Do this where the networks are."""
        return work()

    def record(self) -> None:  # noqa: B027
        """Make steps ready before there are any streams."""

    def took(self) -> Sequence[LaunchPath]:
        """How the latest steps were computed."""
        taken, self.paths = self.paths, []
        return taken or ("eager",)


class OwnTensors(Carrying):
    """Each stream's are its own, as long as they are; steps run operation by operation."""

    def __init__(self, net: FlowNet, memory: int, frame_bytes: int) -> None:
        super().__init__(net, memory, frame_bytes)
        self._carried = dict[int, int]()
        self._bound = dict[int, int]()

    @property
    def taken(self) -> int:
        of = self._carried.keys() | self._bound.keys()
        return sum(max(self._carried.get(key, 0), self._bound.get(key, 0)) for key in of)

    def expect(self, stream: int, tokens: int) -> None:
        self._bound[stream] = tokens * self.frame_bytes

    @property
    def held(self) -> int:
        return sum(self._carried.values())

    def begin(self, stream: int, passage: Passage, end: int) -> tuple[Passage, tuple[int, ...]]:
        return passage, ()

    def step(self, works: Sequence[Solving]) -> list[Solving]:
        return self.net.step(works)

    def behind(self, stream: int, passage: Passage) -> Passage:
        others = self.held - self._carried.get(stream, 0)
        if passage.closed or others + passage.kept.nbytes > self.memory:
            return passage.forgetful(self.net)
        return passage

    def keep(self, stream: int, passage: Passage | None) -> None:
        if passage is None:
            self._carried.pop(stream, None)
            self._bound.pop(stream, None)
        else:
            self._carried[stream] = passage.kept.nbytes

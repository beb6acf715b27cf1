"""Memory for what streams carry from one stretch to the next, and steps of the solver over it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ttscommon.engine.inflight import LaunchPath
from ttsfamilies.base.codec.base import Decoded
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet, Solving
from ttsfamilies.cosyvoice.s3_flow.passage import Passage

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
        del stream, end
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

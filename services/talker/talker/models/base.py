"""What a model family implements, and all that the engine knows of it. No torch here.

A family says what its caches look like, opens a `TalkerStream` per request, and computes steps
for a batch of them. Everything between (slots, KV blocks, batching, chunks, recovery, metrics)
is the engine's and the same for all.

The contract that recovery stands on: a stream's frames are a pure function of the request and
its text. They depend neither on the batch, nor on timing, nor on whether the earlier frames
were computed here or restored from the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ttscommon.messages import SpeechRequest, WordTime
from ttscommon.replicas import Voice

Arrays = Mapping[str, npt.NDArray[Any]]

# (layer, q, k, v), each [tokens, heads, head_dim] -> [tokens, heads, head_dim]; it also stores
# k and v. Tokens are those of all slices of the batch, one after the other.
Attend = Callable[[int, Any, Any, Any], Any]


@dataclass(frozen=True)
class CacheSpec:
    """One paged KV cache. A family may have several (say, a backbone's and a predictor's)."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.kv_heads, self.head_dim) < 1:
            raise ValueError("cache dimensions are positive")
        if self.heads % self.kv_heads:
            raise ValueError("query heads are a multiple of KV heads")


@dataclass(frozen=True)
class ModelSpec:
    """What the engine and the cluster need to know of a loaded model."""

    name: str
    family: str
    sample_rate: int
    frame_rate_hz: float
    voices: tuple[Voice, ...]
    caches: Mapping[str, CacheSpec] = field(default_factory=dict)
    max_positions: int = 1024


@dataclass(frozen=True)
class Plan:
    """The next step of a stream computes positions start .. start + count of its cache.

    `start` 0 means that nothing cached is needed any more. Positions before `start` are cached.
    """

    start: int
    count: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 1:
            raise ValueError("a plan starts at 0 or later and computes something")

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(frozen=True)
class Rendered:
    """Frames ready for the bus: arrays with one row a frame, "codes" among them."""

    arrays: Arrays
    words: tuple[WordTime, ...] = ()


class TalkerStream(ABC):
    """One request inside a family: its text, and what to compute next."""

    @property
    @abstractmethod
    def frames(self) -> int:
        """Frames known so far: restored, rendered and pending."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Frames computed and not yet rendered."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """All text is spoken; nothing will be computed any more."""

    @abstractmethod
    def feed(self, text: str, *, final: bool) -> None:
        """Take text that arrived later; after `final` there is no more."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Go on after these frames, all of the request so far; called before the first plan."""

    @abstractmethod
    def plan(self) -> Plan | None:
        """The next step, or None while text is missing or when done. Changes nothing."""

    @abstractmethod
    def evict(self) -> None:
        """The engine took the cache away: the next plan starts at 0 and rebuilds it."""


@dataclass(frozen=True)
class Slice:
    """A stream's part of a batch: its plan, and the blocks that hold positions 0 .. plan.end."""

    stream: TalkerStream
    plan: Plan
    blocks: tuple[int, ...]


class TalkerModel(ABC):
    """A loaded model. Used by one engine thread only.

    measured_round_s: seconds of a round by streams (see Pace), as far as known before any traffic.
    """

    spec: ModelSpec
    measured_round_s: Mapping[int, float] = MappingProxyType({})

    @abstractmethod
    def open(self, request: SpeechRequest) -> TalkerStream:
        """Raises BadRequest (UnknownVoice, NothingToSay, ...) for what it cannot speak."""

    @abstractmethod
    def step(self, batch: Sequence[Slice], attend: Mapping[str, Attend]) -> None:
        """Compute every slice's plan, sample, and move the streams on.

        `attend` has one function for each cache of the spec. A stream gains any number of
        pending frames: none in a partial prefill, several with speculative decoding.
        """

    @abstractmethod
    def render(self, parts: Sequence[tuple[TalkerStream, int]]) -> list[Rendered]:
        """Take each stream's oldest `count` pending frames, finished for the vocoder.

        Work outside the recurrence (residual codebooks) is done here for all of them at once.
        """


def concatenate(parts: Sequence[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Join arrays of the same names along the frames."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

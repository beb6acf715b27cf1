"""Speculative decoding: how many frames a step tries; as many as pay, by what steps gave lately.

A step of width w computes w positions a stream, the first certain, the others drafted, and gains
1 to w frames. Alone on a CPU or with few streams on a GPU the wider step costs hardly more; with
many streams it costs w times as much, and only a narrow one pays. Where a launch makes several
steps, what surrounds them is shared, and a narrow one pays sooner. Nothing of this changes what is
said, so it may follow the clock.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Final, Protocol

from ttsfamilies.base.talker.streams import Plan

_SEEN: Final = 15  # steps of a kind whose seconds count
_SEEN_GAINS: Final = 128
_FEW: Final = 8  # steps say too little about what a width gains
_PROBE_EVERY: Final = 64
_MARGIN: Final = 1.05  # a wider step has to be better by so much

# Bits of a step's streams and of its rounds.
_Kind = tuple[int, int]


class Draftable(Protocol):
    """A stream about to step. `draftable`: all that its step stands on is known.

    lacking: frames that its first chunk still lacks, 0 if that was sent. begins: what it drafts
    in its first round stands on nothing, so that gains one frame.
    """

    @property
    def draftable(self) -> bool: ...
    @property
    def lacking(self) -> int: ...
    @property
    def begins(self) -> bool: ...
    def widen(self, width: int, limit: int, rounds: int) -> None: ...


class _Lately:
    """The last so many of what was measured. Each step adds to one of them and asks all, so what
    they come to is computed once for every change.
    """

    def __init__(self, most: int, middle: Callable[[deque[float]], float]) -> None:
        self._values: deque[float] = deque(maxlen=most)
        self._middle_of = middle
        self._middle: float | None = None

    def __len__(self) -> int:
        return len(self._values)

    def append(self, value: float) -> None:
        self._values.append(value)
        self._middle = None

    @property
    def middle(self) -> float:
        """Raises StatisticsError of none."""
        if self._middle is None:
            self._middle = self._middle_of(self._values)
        return self._middle


class DraftLengths:
    """Chooses the width of each step; steps are told apart by the powers of two of their streams
    and of their rounds.
    """

    def __init__(self, most: int, gained: Callable[[int, float], object] = lambda *_: None) -> None:
        """`most`: the widest. `gained`: told (width, frames) of every stream in every step, of the
        mean of its rounds.
        """
        self._on_gained = gained
        narrower = [1 << n for n in range(most.bit_length()) if 1 << n < most]
        self.choices = (*narrower, most)
        self._seconds: dict[tuple[_Kind, int], _Lately] = defaultdict(
            lambda: _Lately(_SEEN, median)
        )
        self._gained: dict[int, _Lately] = defaultdict(lambda: _Lately(_SEEN_GAINS, fmean))
        self._steps: dict[_Kind, int] = defaultdict(int)

    def widen(
        self, chosen: Sequence[Draftable], positions: int, limit: int, rounds: int = 1
    ) -> None:
        """Have a step draft frames if that pays: `positions` in all, `limit` of them a stream's.
        rounds: most of such steps, one behind the other.

        No step with prompts in it, but those that a step may begin with: a listener waits for its
        first sound. Where one waits for its own, there are no more rounds than gain what it lacks,
        and alone it tries no more frames.
        """
        most = max(len(self.choices), rounds)
        if most == 1 or not chosen or not all(stream.draftable for stream in chosen):
            return
        lacking = max(stream.lacking for stream in chosen)
        rounds = min(rounds, lacking or rounds)
        width = min(self.choose(len(chosen), rounds), positions // len(chosen))
        if len(chosen) == 1:
            width = min(width, self._enough(lacking))
        begins = any(stream.begins for stream in chosen)
        enough = math.ceil(lacking / self._gain(width)) + begins if lacking else rounds
        rounds = max(1, min(rounds, enough, positions // (width * len(chosen))))
        for stream in chosen if width * rounds > 1 else ():
            stream.widen(width, limit, rounds)

    def _enough(self, frames: int) -> int:
        """The least width that may gain so many frames; the widest for none."""
        enough = [width for width in self.choices if width >= frames > 0]
        return enough[0] if enough else self.choices[-1]

    def account(self, plans: Sequence[Plan], gained: Sequence[int], seconds: float) -> None:
        """Take what a step gave and took."""
        widest = max(plans, key=lambda plan: plan.count)
        width, rounds = widest.width, widest.rounds
        if max(width, len(self.choices)) == 1 or not all(_may_draft(plan) for plan in plans):
            return
        self.add(len(plans), width, sum(gained) / rounds, seconds / rounds, rounds)
        for frames in gained:
            self._on_gained(width, frames / rounds)

    def choose(self, streams: int, rounds: int = 1) -> int:
        """The width at which `streams` streams gain most frames a second in so many rounds."""
        if len(self.choices) == 1:
            return self.choices[0]
        kind = _kind(streams, rounds)
        self._steps[kind] += 1
        if (kind, 1) not in self._seconds:
            return 1
        best, most = 1, self._rate(1, self._seconds[kind, 1].middle)
        for width in self.choices[1:]:
            seconds = self._expected(kind, width)
            if seconds is None or len(self._gained[width]) < _FEW:
                return width  # hardly anything is known, of smaller batches either: try it
            if (rate := self._rate(width, seconds)) > _MARGIN * most:
                best, most = width, rate
        if self._steps[kind] % _PROBE_EVERY == 0:
            return self._other(kind, best)
        return best

    def add(self, streams: int, width: int, gained: float, seconds: float, rounds: int = 1) -> None:
        """A step of `streams` streams, none of them a prompt, gained so many frames in all. It was
        one of `rounds`, and seconds are its share of them.
        """
        self._seconds[_kind(streams, rounds), width].append(seconds)
        self._gained[width].append(gained / streams)

    def _gain(self, width: int) -> float:
        """Frames that a stream gains in a step, of what is known."""
        return self._gained[width].middle if self._gained[width] else 1.0

    def _rate(self, width: int, took_s: float) -> float:
        return self._gained[width].middle / took_s if took_s else 0.0

    def _expected(self, kind: _Kind, width: int) -> float | None:
        """Seconds of a step, at least: a wider one grows with the batch no less than a plain one.

        None if no batch up to this size ever took such a step.
        """
        size, rounds = kind
        for known in range(size, -1, -1):
            if seconds := self._seconds.get(((known, rounds), width)):
                if known == size:
                    return seconds.middle
                if plain := self._seconds.get(((known, rounds), 1)):
                    return self._seconds[kind, 1].middle * seconds.middle / plain.middle
        return None

    def _other(self, kind: _Kind, best: int) -> int:
        """What is not best now, each in turn: times change with the load around."""
        others = [width for width in self.choices if width != best]
        return others[self._steps[kind] // _PROBE_EVERY % len(others)]


def _kind(streams: int, rounds: int) -> _Kind:
    return streams.bit_length(), rounds.bit_length()


def _may_draft(plan: Plan) -> bool:
    return plan.decode and not plan.certain


def plain(most: int, gained: Callable[[int, float], object]) -> DraftLengths:
    """Steps that never draft, whatever the family could."""
    del most
    return DraftLengths(1, gained)

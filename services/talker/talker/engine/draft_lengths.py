"""Speculative decoding: how many frames a step tries; as many as pay, by what steps gave lately.

A step of width w computes w positions a stream, the first certain, the others drafted, and gains
1 to w frames. Alone on a CPU or with few streams on a GPU the wider step costs hardly more; with
many streams it costs w times as much, and only a narrow one pays. Nothing of this changes what is
said, so it may follow the clock.
"""

from __future__ import annotations

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


class Draftable(Protocol):
    """A stream about to step. `draftable`: all that its step stands on is known.

    lacking: frames that its first chunk still lacks, 0 if that was sent.
    """

    @property
    def draftable(self) -> bool: ...
    @property
    def lacking(self) -> int: ...
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
    """Chooses the width of each step; steps are told apart by the power of two of their streams."""

    def __init__(self, most: int, gained: Callable[[int, float], object] = lambda *_: None) -> None:
        """`most`: the widest. `gained`: told (width, frames) of every stream in every step, of the
        mean of its rounds.
        """
        self._on_gained = gained
        narrower = [1 << n for n in range(most.bit_length()) if 1 << n < most]
        self.choices = (*narrower, most)
        self._seconds: dict[tuple[int, int], _Lately] = defaultdict(lambda: _Lately(_SEEN, median))
        self._gained: dict[int, _Lately] = defaultdict(lambda: _Lately(_SEEN_GAINS, fmean))
        self._steps: dict[int, int] = defaultdict(int)

    def widen(
        self, chosen: Sequence[Draftable], positions: int, limit: int, rounds: int = 1
    ) -> None:
        """Have a step draft frames if that pays: `positions` in all, `limit` of them a stream's.
        rounds: of such steps, one behind the other.

        No step with prompts in it: a listener waits for its first sound. A lone stream that waits
        for its own tries no more frames than it lacks.
        """
        if len(self.choices) > 1 and chosen and all(stream.draftable for stream in chosen):
            width = min(self.choose(len(chosen)), positions // len(chosen))
            if len(chosen) == 1:
                width = min(width, self._enough(chosen[0].lacking))
            rounds = max(1, min(rounds, positions // (width * len(chosen))))
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
        self.add(len(plans), width, sum(gained) / rounds, seconds / rounds)
        for frames in gained:
            self._on_gained(width, frames / rounds)

    def choose(self, streams: int) -> int:
        """The width at which `streams` streams gain most frames a second."""
        if len(self.choices) == 1:
            return self.choices[0]
        size = streams.bit_length()
        self._steps[size] += 1
        if (size, 1) not in self._seconds:
            return 1
        best, most = 1, self._rate(1, self._seconds[size, 1].middle)
        for width in self.choices[1:]:
            seconds = self._expected(size, width)
            if seconds is None or len(self._gained[width]) < _FEW:
                return width  # hardly anything is known, of smaller batches either: try it
            if (rate := self._rate(width, seconds)) > _MARGIN * most:
                best, most = width, rate
        if self._steps[size] % _PROBE_EVERY == 0:
            return self._other(size, best)
        return best

    def add(self, streams: int, width: int, gained: float, seconds: float) -> None:
        """A step of `streams` streams, none of them a prompt, gained so many frames in all."""
        self._seconds[streams.bit_length(), width].append(seconds)
        self._gained[width].append(gained / streams)

    def _rate(self, width: int, took_s: float) -> float:
        return self._gained[width].middle / took_s if took_s else 0.0

    def _expected(self, size: int, width: int) -> float | None:
        """Seconds of a step, at least: a wider one grows with the batch no less than a plain one.

        None if no batch up to this size ever took such a step.
        """
        for known in range(size, -1, -1):
            if seconds := self._seconds.get((known, width)):
                if known == size:
                    return seconds.middle
                if plain := self._seconds.get((known, 1)):
                    return self._seconds[size, 1].middle * seconds.middle / plain.middle
        return None

    def _other(self, size: int, best: int) -> int:
        """What is not best now, each in turn: times change with the load around."""
        others = [width for width in self.choices if width != best]
        return others[self._steps[size] // _PROBE_EVERY % len(others)]


def _may_draft(plan: Plan) -> bool:
    return plan.decode and not plan.certain


def plain(most: int, gained: Callable[[int, float], object]) -> DraftLengths:
    """Steps that never draft, whatever the family could."""
    del most
    return DraftLengths(1, gained)

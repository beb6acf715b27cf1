"""The smallest fleet for a load and a target, and what of it gives way first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final

import msgspec

from antiphon_bench.plan.answers import Answer, Target, simulate
from antiphon_bench.plan.errors import NoFleet
from antiphon_bench.plan.faults import Event
from antiphon_bench.plan.loads import Demand
from antiphon_bench.plan.shapes import Setup, Shape

_KINDS: Final = ("talkers", "vocoders", "gateways")
_LESS: Final = (0.5, 0.8)
_MORE: Final = (1.1, 1.25, 1.5, 2.0, 3.0)
_PLENTY: Final = 2.0

Report = Callable[[Shape, Answer, bool], object]


class Point(msgspec.Struct, frozen=True):
    """What a fleet gives at so many times the load."""

    scale: float
    answer: Answer


class GivesWay(msgspec.Struct, frozen=True):
    """What happens when more is asked for. scale: times the load at which `misses` begin; None:
    none of those tried. relief: the kinds of which twice as many would cure at least half of it.
    """

    scale: float | None
    misses: list[str]
    relief: list[str]


@dataclass(frozen=True)
class Question:
    """A load, what may happen meanwhile, and what listeners are to get all the same.

    setup: its shape says how many brokers there are and which machines; the rest is looked for.
    most: processes of a kind, at most.
    """

    setup: Setup
    demand: Demand
    target: Target = field(default_factory=Target)
    events: tuple[Event, ...] = ()
    seed: int = 0
    most: int = 512
    known: dict[tuple[Shape, float], Answer] = field(default_factory=dict, compare=False)

    def asked(self, shape: Shape, scale: float = 1.0) -> Answer:
        """What a fleet of this shape gives; it is simulated once."""
        if (shape, scale) not in self.known:
            setup = replace(self.setup, shape=shape)
            self.known[shape, scale] = simulate(
                setup, self.demand, self.events, seed=self.seed, scale=scale
            )
        return self.known[shape, scale]

    def meets(self, answer: Answer) -> bool:
        return not answer.misses(self.target)


def smallest(
    question: Question, report: Report = lambda shape, answer, met: None
) -> tuple[Shape, Answer]:
    """The fewest talkers with plenty of all else, then vocoders, then gateways; raises NoFleet.

    A stage's need hardly depends on how much more than enough another one has. What is found is
    tried once more as a whole, and grows where it misses a target.
    """
    shape = plenty(question)
    found = shape
    for kind in _KINDS:
        found = _with(found, kind, _fewest(question, found, kind, report))
    answer = question.asked(found)
    report(found, answer, question.meets(answer))
    while not question.meets(answer):
        found = _grown(question, found)
        answer = question.asked(found)
        report(found, answer, question.meets(answer))
    return found, answer


def _with(shape: Shape, kind: str, number: int) -> Shape:
    """The same with another number of one of _KINDS."""
    changed: dict[str, Any] = {kind: number}
    return replace(shape, **changed)


def plenty(question: Question) -> Shape:
    """More of everything than the load can need, from the curves alone."""
    wanted = question.demand.wanted(question.seed)
    curves, shape = question.setup.curves, question.setup.shape
    speech = curves.costs.speech
    frames = [speech.frames(one.characters) for one in wanted]
    rate = _peak_rate([one.at_s for one in wanted], question.demand.length_s)
    frames_per_s = rate * fmean(frames or [1])
    talker_s = _talker_frame_s(question.setup)
    vocoder_s = curves.vocoder.step_s(1, 16) / 16
    request_s = curves.costs.gateway.request_s
    per_gateway = rate * request_s + frames_per_s / speech.frame_rate_hz * (
        curves.costs.gateway.sound_s
    )
    return replace(
        shape,
        talkers=_bounded(frames_per_s * talker_s, question),
        vocoders=_bounded(frames_per_s * vocoder_s, question),
        gateways=_bounded(per_gateway, question),
    )


def _talker_frame_s(setup: Setup) -> float:
    """Seconds of a frame in the step of a half-full batch."""
    curve, batch = setup.curves.talker, setup.talker.limits.streams
    half = max(1, min(batch, setup.talker.slots) // 2)
    return curve.seconds(half, 0) / half + curve.render_frame_s


def _peak_rate(at_s: Sequence[float], length_s: float) -> float:
    """Requests a second in the busiest tenth of the time."""
    bins = [0] * 10
    for one in at_s:
        bins[min(9, int(10 * one / length_s))] += 1
    return max(bins) * 10 / length_s


def _bounded(busy: float, question: Question) -> int:
    return max(2, min(question.most, math.ceil(_PLENTY * busy) + 2))


def _fewest(question: Question, shape: Shape, kind: str, report: Report) -> int:
    """The smallest number of a kind that meets the targets beside the rest of `shape`."""
    low = 0
    high: int = getattr(shape, kind)
    while True:
        answer = question.asked(_with(shape, kind, high))
        met = question.meets(answer)
        report(_with(shape, kind, high), answer, met)
        if met:
            break
        if high >= question.most:
            raise NoFleet(f"not even {high} {kind} are enough: {'; '.join(_why(question, answer))}")
        low, high = high, min(question.most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        tried = _with(shape, kind, middle)
        answer = question.asked(tried)
        met = question.meets(answer)
        report(tried, answer, met)
        low, high = (low, middle) if met else (middle, high)
    return high


def _why(question: Question, answer: Answer) -> list[str]:
    return answer.misses(question.target)


def _grown(question: Question, shape: Shape) -> Shape:
    """One more of the kind that helps most."""
    larger = [_with(shape, kind, getattr(shape, kind) + 1) for kind in _KINDS]
    if max(getattr(one, kind) for one, kind in zip(larger, _KINDS, strict=True)) > question.most:
        raise NoFleet(f"no fleet of at most {question.most} of a kind meets the targets")
    return min(larger, key=lambda one: _distance(question, question.asked(one)))


def _distance(question: Question, answer: Answer) -> float:
    """How far from the targets, 0 when they are met."""
    target = question.target
    late = (answer.ttfp_p95_s or 60.0) / target.ttfp_p95_s - 1.0
    gaps = target.viable - (answer.viable_share or 0.0)
    return max(0.0, late) + max(0.0, gaps) + max(0.0, answer.refused_share - target.refused)


def under_load(question: Question, shape: Shape, answer: Answer) -> list[Point]:
    """What a fleet gives at less and at more than the load, up to the first missed target.

    `answer`: what it gives at the load itself.
    """
    points = [Point(scale, question.asked(shape, scale)) for scale in _LESS]
    points.append(Point(1.0, answer))
    for scale in _MORE:
        if not question.meets(points[-1].answer):
            break
        points.append(Point(scale, question.asked(shape, scale)))
    return points


def gives_way(question: Question, shape: Shape, points: Sequence[Point]) -> GivesWay:
    """What is short at the first of `points` that misses a target, by trying larger fleets."""
    broke = next((point for point in points if not question.meets(point.answer)), None)
    if broke is None:
        return GivesWay(None, [], [])
    before = _distance(question, broke.answer)
    relief = []
    for kind in _KINDS:
        more = _with(shape, kind, 2 * getattr(shape, kind))
        if _distance(question, question.asked(more, broke.scale)) < 0.5 * before:
            relief.append(kind)
    return GivesWay(broke.scale, broke.answer.misses(question.target), relief)

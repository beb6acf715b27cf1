"""A small deployment with round figures, for the planner's tests."""

import json
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from antiphon_bench.plan.costs import Costs, Curves, Edge, Setup, Shape, Speech
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import Wanted
from antiphon_bench.plan.workers import Worker
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttsfamilies.fake.codec import DecodeCurve
from ttsfamilies.fake.talker import StepCurve

COSTS: Final = Costs(
    source="a test",
    speech=Speech(25.0, 0.04),
    gateway=Edge(0.004, 0.0004),
    broker=Edge(0.002, 0.0002),
    talker=Edge(0.002, 0.0002),
    vocoder=Edge(0.002, 0.0002),
    hop_s=0.001,
    read_s=0.005,
)
CURVES: Final = Curves(
    StepCurve(base_s=0.004, stream_s=0.001, prefill_s=0.002),
    DecodeCurve(base_s=0.004, stream_s=0.0002, frame_s=0.0002),
    COSTS,
)
# A talker of these keeps up with three streams.
SLOW: Final = Curves(
    StepCurve(base_s=0.020, stream_s=0.004, prefill_s=0.002),
    DecodeCurve(base_s=0.010, stream_s=0.002, frame_s=0.0005),
    COSTS,
)
ONE: Final = Shape()
# From a talker's death until others have its jobs, and until another serves in its place.
TAKEOVER_S: Final = 0.2
START_S: Final = 4.6


def setup(
    shape: Shape = ONE,
    *,
    admission: Literal["on", "off"] = "on",
    curves: Curves = CURVES,
    **talker: Any,
) -> Setup:
    talking = TalkerSettings().model_copy(update=talker)
    return Setup(curves, shape, GatewaySettings(admission=admission), talking)


def every(seconds: float, requests: int, characters: int = 100) -> list[Wanted]:
    """Requests at even distances; a character lasts a frame."""
    return [Wanted(number * seconds, characters) for number in range(requests)]


def write_curves(folder: Path, **changed: Any) -> Path:
    """The three files, with `changed` fields of the costs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in (("talker", CURVES.talker), ("vocoder", CURVES.vocoder)):
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(record))
    costs = {**msgspec.to_builtins(COSTS), **changed}
    (folder / "costs.json").write_text(json.dumps(costs))
    return folder


def lose_a_talker(fleet: Fleet, place: int = 0) -> None:
    """Now. Its jobs go on elsewhere, and the start of another takes a core of its machine."""
    worker, kernel = fleet.talkers.workers[place], fleet.kernel
    node = worker.node
    worker.alive = False
    node.idle -= fleet.setup.curves.costs.talker.idle
    kernel.after(TAKEOVER_S, partial(hand_on, fleet, worker))
    took_s = START_S * node.stretch(kernel.now)
    node.computing += 1

    def started() -> None:
        node.computing -= 1
        fleet.add("talker", place)

    kernel.after(took_s, started)


def hand_on(fleet: Fleet, lost: Worker) -> None:
    """Others go on with a lost talker's jobs behind what is in the logs, those first whose
    listeners have least to play.
    """
    now = fleet.kernel.now
    orphans = [c for c in fleet.calls.values() if c.talker is lost and not c.whole]
    for call in sorted(orphans, key=lambda call: call.account.slack_s(now), reverse=True):
        fleet.talkers.waiting.appendleft(call)
        fleet.talkers.assign()

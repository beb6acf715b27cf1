"""Measures what a stack on this machine costs beside its engines' steps: `antiphon bench costs`.

Each process's processor time is divided between requests and seconds of sound, from loads of short
and of long texts. Engines count by their curves, so of talkers and vocoders the main thread does,
which is their side of the bus, and of talkers the threads that read texts. A curve is measured by
one process that does nothing else, with all of its data in caches: how much more of a processor the
same step takes beside a gateway, a broker and the other engine is `Costs.slower`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from typing import Final

import numpy as np
import psutil
from msgspec.structs import replace

from antiphon_bench.config import Closed, RunConfig, TextSet
from antiphon_bench.plan.costs import (
    Costs,
    Curves,
    Edge,
    Setup,
    Shape,
    Slower,
    Speech,
    read_engines,
)
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import ClosedLoop
from antiphon_bench.processes import stack_at
from antiphon_bench.results import RequestResult, read_lines, write_json
from antiphon_bench.run import run

ENGINES: Final = ("talker", "vocoder")
READING: Final = "reading"
# Cores that other programs take, from which on a measurement says little of engines.
MOST_OTHERS: Final = 0.25
# More listeners than two cores carry.
_CROWD: Final = 24
# Refusals say too little of what one costs.
_FEW: Final = 20
_HOPS: Final = 5
_IDLE_S: Final = 4.0
# Batches follow from how fast steps are, and how fast they are from the batches.
_ROUNDS: Final = 4


@dataclass(frozen=True)
class Work:
    """What was served, and processor seconds by process."""

    requests: int
    sound_s: float
    spent_s: Mapping[str, float]
    refused: int = 0


@dataclass(frozen=True)
class Ran:
    """A closed loop whose users do not wait until what they have got is played.

    spent: processor seconds meanwhile, see spent_s, and of the `generator`. others: cores that
    other programs took.
    """

    users: int
    for_s: float
    results: Sequence[RequestResult]
    spent: Mapping[str, float]
    took_s: float
    others: float

    @classmethod
    def of(cls, config: RunConfig, name: str, texts: TextSet, users: int, for_s: float) -> Ran:
        update = {
            "arrivals": Closed(concurrency=users, listen=name == "crowded"),
            "texts": texts,
            "warmup_s": 0.5,
            "duration_s": for_s,
            "out": config.out / name,
        }
        before, machine_s, began_s = spent_s(config.target.url), _machine_s(), time.monotonic()
        run(config.model_copy(update=update))
        spent, took_s = _since(before, config.target.url), time.monotonic() - began_s
        others = max(0.0, _machine_s() - machine_s - sum(spent.values())) / took_s
        results = read_lines(config.out / name / "requests.jsonl")
        return cls(users, for_s, results, spent, took_s, others)

    @property
    def cost_s(self) -> dict[str, float]:
        """Of each stage's engine for a second of sound: it is the busiest thread of its process."""
        sound_s = sum(one.audio_s for one in self.results)
        return {one: max(_threads(self.spent, one), default=0.0) / sound_s for one in ENGINES}

    @property
    def heard(self) -> list[RequestResult]:
        """Those that were served."""
        return [one for one in self.results if one.outcome == "ok"]

    def work(self, idle: Mapping[str, float]) -> Work:
        """What all requests cost, those outside of its window too, beyond being there, engines
        apart.
        """
        spent = without_engines(self.spent)
        spent = {n: max(0.0, s - idle.get(n, 0.0) * self.took_s) for n, s in spent.items()}
        refused = sum(one.outcome == "refused" for one in self.results)
        return Work(len(self.heard), sum(one.audio_s for one in self.heard), spent, refused)


def measure(config: RunConfig, folder: Path, speech: Speech, source: str, cores: int) -> Costs:
    """Costs of the stack at the configuration's address, whose curves are in `folder`.

    `speech`: the model's rate and chunks; how long a character lasts is measured. Takes about 45 s
    and writes `costs.json`, and `listeners.json` with what the generator itself takes. Raises
    NotHere or PlanError.
    """
    engines = read_engines(folder)
    alone = Ran.of(config, "alone", "medium", 1, 8.0)
    idle = _idle(config.target.url)
    works = [Ran.of(config, t, t, 2, 6.0).work(idle) for t in ("short", "long")]
    crowded = Ran.of(config, "crowded", "mixed", _CROWD, 10.0)
    crowd, found = crowded.work(idle), edges(works)
    for name in ("gateway", "generator"):  # where a refusal is made, and where it is heard
        found[name] = replace(found[name], refused_s=refusal_s(crowd, name, found[name]))
    for name in ("gateway", "broker", *ENGINES):
        found[name] = replace(found[name], idle=round(idle.get(name, 0.0), 5))
    heard, others = alone.heard, max(alone.others, crowded.others)
    characters = sum(len(one.text) for one in heard)
    waits = [one.server.get("talker_s", 0.0) - one.server.get("talker_engine_s", 0.0)
             for one in heard]  # fmt: skip
    each_s = round(sum(one.audio_s for one in heard) / characters, 5)
    costs = Costs(
        source=f"{source}, beside {others:.1f} cores of others" if others > MOST_OTHERS else source,
        speech=replace(speech, seconds_per_character=each_s),
        hop_s=0.0,
        read_s=round(max(0.0, median(waits) - found["talker"].request_s / 2), 6),
        gateway=found["gateway"],
        broker=found["broker"],
        talker=found["talker"],
        vocoder=found["vocoder"],
        reading=found[READING],
    )
    factors = slower(Curves(*engines, costs), alone, crowded, cores)
    curves = Curves(*engines, replace(costs, slower=factors))
    ttfp_s = median(one.ttfp_s for one in heard if one.ttfp_s is not None)
    shape = Shape(nodes=1, cores=cores, beside=alone.others)
    costs = replace(curves.costs, hop_s=_hop_s(curves, ttfp_s, characters // len(heard), shape))
    for name, record in (("costs", costs), ("listeners", found["generator"])):
        write_json(folder / f"{name}.json", record)
    return costs


def spent_s(url: str) -> dict[str, float]:
    """Processor seconds of each kind of process so far, and of this one, the `generator`. Of
    engines' processes that is the main thread, and each of the others is called KIND/THREAD.
    """
    processes = [("generator", "self"), *((s.name, str(s.process.pid)) for s in stack_at(url))]
    found: dict[str, float] = {}
    for kind, pid in processes:
        for task in Path(f"/proc/{pid}/task").iterdir():
            apart = kind in ENGINES and task.name != pid
            name = f"{kind}/{task.name}" if apart else kind
            seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
            found[name] = found.get(name, 0.0) + seconds
    return found


def _since(before: Mapping[str, float], url: str) -> dict[str, float]:
    return {name: seconds - before.get(name, 0.0) for name, seconds in spent_s(url).items()}


def _machine_s() -> float:
    """Processor seconds of the whole machine so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _threads(spent: Mapping[str, float], stage: str) -> list[float]:
    """Seconds of a stage's threads but the main ones."""
    return [seconds for name, seconds in spent.items() if name.startswith(f"{stage}/")]


def without_engines(spent: Mapping[str, float]) -> dict[str, float]:
    """By process, and `reading`: the busiest thread of an engine's process counts by its curve, and
    the others of a talker's read texts.
    """
    threads = _threads(spent, "talker")
    found = {name: seconds for name, seconds in spent.items() if "/" not in name}
    return {**found, READING: sum(threads) - max(threads, default=0.0)}


def _idle(url: str) -> dict[str, float]:
    """Cores that each process takes without any request."""
    before, began_s = spent_s(url), time.monotonic()
    time.sleep(_IDLE_S)
    spent, took_s = without_engines(_since(before, url)), time.monotonic() - began_s
    return {name: seconds / took_s for name, seconds in spent.items() if name != "generator"}


def edges(works: Sequence[Work]) -> dict[str, Edge]:
    """Each process's cost of a request and of a second of sound; neither is negative."""
    rows = np.array([[work.requests, work.sound_s] for work in works], float)
    found = {}
    for name in works[0].spent_s:
        seconds = np.array([work.spent_s[name] for work in works])
        cost = np.linalg.lstsq(rows, seconds, rcond=None)[0]
        if (cost < 0.0).any():
            # Hardly any of the one: all of it is the other.
            cost = np.where(cost < 0.0, 0.0, (seconds[:, None] / rows).mean(0))
        found[name] = Edge(*(round(each, 6) for each in cost.tolist()))
    return found


def refusal_s(crowd: Work, name: str, edge: Edge) -> float | None:
    """What a process spent on each request that was refused: all beyond what the others cost."""
    if crowd.refused < _FEW:
        return None
    served_s = crowd.requests * edge.request_s + crowd.sound_s * edge.sound_s
    return round(max(0.0, crowd.spent_s[name] - served_s) / crowd.refused, 6)


def slower(curves: Curves, alone: Ran, crowded: Ran, cores: int) -> dict[str, Slower]:
    """What has to be multiplied so that simulated engines take what real ones took. Nothing is
    found beside other programs: batches then follow from what those left, and steps share caches
    with them.
    """
    if max(alone.others, crowded.others) > MOST_OTHERS:
        return {}
    found = {stage: Slower() for stage in ENGINES}
    for _ in range(_ROUNDS):
        served = replace(curves, costs=replace(curves.costs, slower=found))
        one, many = (_simulated(served, load, cores) for load in (alone, crowded))
        found = {
            stage: Slower(
                round(found[stage].alone * alone.cost_s[stage] / one[stage], 3),
                round(found[stage].crowded * crowded.cost_s[stage] / many[stage], 3),
            )
            for stage in ENGINES
        }
    return found


def _simulated(curves: Curves, load: Ran, cores: int) -> dict[str, float]:
    """What simulated engines take for a second of sound."""
    fleet = Fleet(Setup(curves, Shape(nodes=1, cores=cores, beside=load.others)))
    users = ClosedLoop(load.users, cycle(len(one.text) for one in load.heard), load.for_s, 2.0)
    sound_s = sum(one.account.duration_s for one in fleet.run(users, load.for_s + 60.0))
    stages = zip(ENGINES, (fleet.talkers, fleet.vocoders), strict=True)
    return {name: sum(one.busy_s for one in side.workers) / sound_s for name, side in stages}


def _hop_s(curves: Curves, ttfp_s: float, characters: int, shape: Shape) -> float:
    """What a request alone took beyond all that is accounted for, divided among its hops."""
    users = ClosedLoop(1, iter([characters] * 20), 60.0, 1.0)
    heard = Fleet(Setup(curves, shape)).run(users, 120.0)
    rest_s = ttfp_s - fmean(one.ttfp_s for one in heard if one.ttfp_s is not None)
    return round(max(0.0, rest_s / _HOPS), 6)


def speech_of(voice_dir: Path) -> Speech:
    """What the planner has to know of a voice folder's model; loads it, which takes seconds."""
    from talker.loading import load_family
    from talker.settings import TalkerSettings
    from vocoder.service import load_codec
    from vocoder.settings import VocoderSettings

    talker = load_family(TalkerSettings(voice_dir=voice_dir)).spec
    codec = load_codec(VocoderSettings(voice_dir=voice_dir)).spec
    lag_s, chunks = codec.lag_samples / codec.sample_rate, asdict(talker.chunks)
    return Speech(talker.frame_rate_hz, 1.0, lag_s, talker.lag_frames, **chunks)

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
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from typing import Final

import msgspec
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
    read_talker,
    read_vocoder,
)
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.loads import ClosedLoop
from antiphon_bench.processes import stack_at
from antiphon_bench.results import RequestResult, read_lines
from antiphon_bench.run import run

ENGINES: Final = ("talker", "vocoder")
# Cores that other programs take, from which on a measurement says little of engines.
MOST_OTHERS: Final = 0.25
# More listeners than two cores carry.
_CROWD: Final = 24
# Where a refusal is made, and where it is heard.
ASKED: Final = ("gateway", "generator")
# Refusals say too little of what one costs.
_FEW: Final = 20
READING: Final = "reading"
_HOPS: Final = 5
_IDLE_S: Final = 4.0
_NS: Final = 1e-9
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
        took_s, after = time.monotonic() - began_s, spent_s(config.target.url)
        spent = {one: seconds - before.get(one, 0.0) for one, seconds in after.items()}
        others = max(0.0, _machine_s() - machine_s - sum(spent.values())) / took_s
        results = read_lines(config.out / name / "requests.jsonl")
        return cls(users, for_s, results, spent, took_s, others)

    @property
    def sound_s(self) -> float:
        return sum(one.audio_s for one in self.results)

    @property
    def cost_s(self) -> dict[str, float]:
        """Of each stage's engine for a second of sound: it is the busiest thread of its process."""
        return {
            stage: max(_threads(self.spent, stage), default=0.0) / self.sound_s for stage in ENGINES
        }

    @property
    def heard(self) -> list[RequestResult]:
        """Those that were served."""
        return [one for one in self.results if one.outcome == "ok"]

    def lengths(self) -> list[int]:
        """Characters of their texts."""
        return [len(one.text) for one in self.heard]

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
    talks, sounds = read_talker(folder / "talker.json"), read_vocoder(folder / "vocoder.json")
    alone = Ran.of(config, "alone", "medium", 1, 8.0)
    idle = _idle(config.target.url)
    works = [Ran.of(config, t, t, 2, 6.0).work(idle) for t in ("short", "long")]
    crowded = Ran.of(config, "crowded", "mixed", _CROWD, 10.0)
    found = {
        name: replace(
            edge,
            idle=round(idle.get(name, 0.0), 5),
            refused_s=refusal_s(crowded.work(idle), name, edge),
        )
        for name, edge in edges(works).items()
    }
    heard, others = alone.heard, max(alone.others, crowded.others)
    characters = sum(len(one.text) for one in heard)
    waits = [one.server.get("talker_s", 0.0) - one.server.get("talker_engine_s", 0.0)
             for one in heard]  # fmt: skip
    each_s = round(sum(one.audio_s for one in heard) / characters, 5)
    costs = Costs(
        source=f"{source}, beside {others:.1f} cores of others" if others > MOST_OTHERS else source,
        speech=replace(speech, seconds_per_character=each_s),
        gateway=found["gateway"],
        broker=found["broker"],
        talker=found["talker"],
        vocoder=found["vocoder"],
        reading=replace(found[READING], idle=0.0),
        hop_s=0.0,
        read_s=round(max(0.0, median(waits) - found["talker"].request_s / 2), 6),
    )
    curves = Curves(talks, sounds, costs)
    costs = replace(costs, slower=slower(curves, alone, crowded, cores))
    ttfp_s = median(one.ttfp_s for one in heard if one.ttfp_s is not None)
    shape = Shape(nodes=1, cores=cores, beside=alone.others)
    hop_s = _hop_s(replace(curves, costs=costs), ttfp_s, characters // len(heard), shape)
    costs = replace(costs, hop_s=hop_s)
    for name, record in (("costs", costs), ("listeners", found["generator"])):
        text = msgspec.json.format(msgspec.json.encode(record))
        (folder / f"{name}.json").write_bytes(text + b"\n")
    return costs


def spent_s(url: str) -> dict[str, float]:
    """Processor seconds of each kind of process so far, and of this one, the `generator`. Of
    engines' processes that is the main thread, and each of the others is called KIND/THREAD.
    """
    found = {"generator": sum(_task_s(task) for task in Path("/proc/self/task").iterdir())}
    for served in stack_at(url):
        pid = served.process.pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            apart = served.name in ENGINES and task.name != str(pid)
            name = f"{served.name}/{task.name}" if apart else served.name
            found[name] = found.get(name, 0.0) + _task_s(task)
    return found


def _task_s(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[0]) * _NS


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
    took_s, after = time.monotonic() - began_s, spent_s(url)
    del after["generator"]
    spent = without_engines({n: s - before.get(n, 0.0) for n, s in after.items()})
    return {name: seconds / took_s for name, seconds in spent.items()}


def edges(works: Sequence[Work]) -> dict[str, Edge]:
    """Each process's cost of a request and of a second of sound; neither is negative."""
    rows = np.array([[work.requests, work.sound_s] for work in works], float)
    found = {}
    for name in works[0].spent_s:
        seconds = np.array([work.spent_s[name] for work in works])
        request_s, sound_s = np.linalg.lstsq(rows, seconds, rcond=None)[0].tolist()
        if request_s < 0.0 or sound_s < 0.0:
            # Hardly any of the one: all of it is the other.
            request_s = 0.0 if request_s < 0.0 else float((seconds / rows[:, 0]).mean())
            sound_s = 0.0 if sound_s < 0.0 else float((seconds / rows[:, 1]).mean())
        found[name] = Edge(round(request_s, 6), round(sound_s, 6))
    return found


def refusal_s(crowd: Work, name: str, edge: Edge) -> float | None:
    """What a process spent on each request that was refused: all beyond what the others cost."""
    if name not in ASKED or crowd.refused < _FEW:
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
    """The same for simulated engines."""
    fleet = Fleet(Setup(curves, Shape(nodes=1, cores=cores, beside=load.others)))
    users = ClosedLoop(load.users, cycle(load.lengths()), load.for_s, 2.0)
    sound_s = sum(one.sound_s for one in fleet.run(users, load.for_s + 60.0))
    talkers, vocoders = fleet.talkers.workers, fleet.vocoders.workers
    return {
        "talker": sum(one.busy_s for one in talkers) / sound_s,
        "vocoder": sum(one.busy_s for one in vocoders) / sound_s,
    }


def _hop_s(curves: Curves, ttfp_s: float, characters: int, shape: Shape) -> float:
    """What a request alone took beyond all that is accounted for, divided among its hops."""
    heard = Fleet(Setup(curves, shape)).run(
        ClosedLoop(1, iter([characters] * 20), 60.0, 1.0, 1.0), 120.0
    )
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
    return Speech(
        frame_rate_hz=talker.frame_rate_hz,
        seconds_per_character=1.0,
        lag_s=codec.lag_samples / codec.sample_rate,
        lag_frames=talker.lag_frames,
        initial_s=talker.chunks.initial_s,
        regular_s=talker.chunks.regular_s,
        busy_growth=talker.chunks.busy_growth,
    )

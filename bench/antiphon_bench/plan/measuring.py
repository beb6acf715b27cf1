"""Measures what a stack on this machine costs beside its engines' steps: `antiphon bench costs`.

Each process's processor time is divided between requests and seconds of sound, from loads of short
and of long texts. Engines count by their curves, so of talkers and vocoders the main thread does,
which is their side of the bus, and of talkers the threads that read texts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Final

import msgspec
import numpy as np
import psutil

from antiphon_bench.config import Closed, RunConfig, TextSet
from antiphon_bench.plan.calls import ClosedLoop
from antiphon_bench.plan.costs import (
    Costs,
    Curves,
    Edge,
    Recovery,
    Speech,
    read_talker,
    read_vocoder,
)
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.serving import ENGINES, MOST_OTHERS, Engines, slower
from antiphon_bench.plan.shapes import Setup, Shape
from antiphon_bench.plan.starts import starts
from antiphon_bench.processes import stack_at
from antiphon_bench.results import RequestResult, read_lines
from antiphon_bench.run import run

# docs/performance.md, "Recovery": a worker's death to the next sample (0.27 s with one stream, of
# which the successor computes a part), the start of a broker, a client at another gateway (0.45 s),
# another of three brokers (0.26 s), and elections. Other processes say how long their start took.
MEASURED: Final = Recovery(
    takeover_s=0.2,
    start_s={"broker": 0.5},
    resume_s=0.4,
    reconnect_s=0.25,
    elect_s=6.0,
)
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


@dataclass(frozen=True)
class Work:
    """What was served, and processor seconds by process."""

    requests: int
    sound_s: float
    spent_s: Mapping[str, float]
    refused: int = 0


def spent_s(url: str) -> dict[str, float]:
    """Processor seconds of each kind of process so far. Of engines' processes that is the main
    thread, and each of the others is called KIND/THREAD.
    """
    found: dict[str, float] = {}
    for served in stack_at(url):
        pid = served.process.pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            apart = served.name in ENGINES and task.name != str(pid)
            name = f"{served.name}/{task.name}" if apart else served.name
            seconds = int((task / "schedstat").read_text().split()[0]) * _NS
            found[name] = found.get(name, 0.0) + seconds
    return found


def without_engines(spent: Mapping[str, float]) -> dict[str, float]:
    """By process, and `reading`: the busiest thread of an engine's process counts by its curve, and
    the others of a talker's read texts.
    """
    found = {name: seconds for name, seconds in spent.items() if "/" not in name}
    threads = [seconds for name, seconds in spent.items() if name.startswith("talker/")]
    return {**found, READING: sum(threads) - max(threads, default=0.0)}


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


def measure(config: RunConfig, folder: Path, speech: Speech, source: str, cores: int) -> Costs:
    """Costs of the stack at the configuration's address, whose curves are in `folder`.

    `speech`: the model's rate and chunks; how long a character lasts is measured. Takes about 45 s
    and writes `costs.json`, and `listeners.json` with what the generator itself takes. Raises
    NotHere or BadCurve.
    """
    alone, quiet = _served(config, "alone", "medium", 1, 8.0)
    idle = _idle(config.target.url)
    works = [_work(config, texts, 6.0, idle) for texts in ("short", "long")]
    crowd, busy = _crowd(config, idle)
    found = {
        name: msgspec.structs.replace(
            edge, idle=round(idle.get(name, 0.0), 5), refused_s=refusal_s(crowd, name, edge)
        )
        for name, edge in edges(works).items()
    }
    heard = [one for one in alone if one.outcome == "ok"]
    characters = sum(len(one.text) for one in heard)
    each_s = sum(one.audio_s for one in heard) / characters
    waits = [one.server.get("talker_s", 0.0) - one.server.get("talker_engine_s", 0.0)
             for one in heard]  # fmt: skip
    talker = found["talker"]
    others = max(quiet.others, busy.others)
    costs = Costs(
        source=f"{source}, beside {others:.1f} cores of others" if others > MOST_OTHERS else source,
        speech=msgspec.structs.replace(speech, seconds_per_character=round(each_s, 5)),
        gateway=found["gateway"],
        broker=found["broker"],
        talker=talker,
        vocoder=found["vocoder"],
        reading=msgspec.structs.replace(found[READING], idle=0.0),
        hop_s=0.0,
        read_s=round(max(0.0, median(waits) - talker.request_s / 2), 6),
        recovery=msgspec.structs.replace(
            MEASURED, start_s={**MEASURED.start_s, **starts(config.target.url)}
        ),
    )
    ttfp_s = median(one.ttfp_s for one in heard if one.ttfp_s is not None)
    talks, sounds = read_talker(folder / "talker.json"), read_vocoder(folder / "vocoder.json")
    found_slower = slower(Curves(talks, sounds, costs), quiet, busy, cores)
    costs = msgspec.structs.replace(costs, slower=found_slower)
    shape = Shape(nodes=1, cores=cores, beside=quiet.others)
    costs = _with_hops(Curves(talks, sounds, costs), ttfp_s, characters // len(heard), shape)
    _write(folder / "costs.json", costs)
    _write(folder / "listeners.json", found["generator"])
    return costs


def _results(
    config: RunConfig, name: str, texts: TextSet, users: int, for_s: float, *, listen: bool = False
) -> list[RequestResult]:
    """A closed loop whose users do not wait until what they have got is played."""
    update = {
        "arrivals": Closed(concurrency=users, listen=listen),
        "texts": texts,
        "warmup_s": 0.5,
        "duration_s": for_s,
        "out": config.out / name,
    }
    run(config.model_copy(update=update))
    return read_lines(config.out / name / "requests.jsonl")


def _served(
    config: RunConfig, name: str, texts: TextSet, users: int, for_s: float, *, listen: bool = False
) -> tuple[list[RequestResult], Engines]:
    """The same, and what it took of the engines."""
    before, own_s, busy_s = spent_s(config.target.url), _own_s(), _busy_s()
    began_s = time.monotonic()
    results = _results(config, name, texts, users, for_s, listen=listen)
    spent = {n: s - before.get(n, 0.0) for n, s in spent_s(config.target.url).items()}
    ours_s = sum(spent.values()) + _own_s() - own_s
    others = max(0.0, _busy_s() - busy_s - ours_s) / (time.monotonic() - began_s)
    sound_s = sum(one.audio_s for one in results)
    lengths = [len(one.text) for one in results if one.outcome == "ok"]
    return results, Engines.of(users, for_s, lengths, spent, sound_s, others)


def _idle(url: str) -> dict[str, float]:
    """Cores that each process takes without any request."""
    before, began_s = spent_s(url), time.monotonic()
    time.sleep(_IDLE_S)
    took_s = time.monotonic() - began_s
    spent = without_engines({n: s - before.get(n, 0.0) for n, s in spent_s(url).items()})
    return {name: seconds / took_s for name, seconds in spent.items()}


def _crowd(config: RunConfig, idle: Mapping[str, float]) -> tuple[Work, Engines]:
    """More listeners than two cores carry: what refusals cost, and what it took of the engines."""
    meter = _Meter(config.target.url, idle)
    results, busy = _served(config, "crowded", "mixed", _CROWD, 10.0, listen=True)
    return meter.work(results), busy


def _work(config: RunConfig, texts: TextSet, for_s: float, idle: Mapping[str, float]) -> Work:
    meter = _Meter(config.target.url, idle)
    return meter.work(_results(config, texts, texts, 2, for_s))


class _Meter:
    """Looks at what processes have spent when a run begins and when it has ended."""

    def __init__(self, url: str, idle: Mapping[str, float]) -> None:
        """`idle`: cores that each takes without any request."""
        self._url, self._idle = url, idle
        self._before, self._own_s, self._began_s = spent_s(url), _own_s(), time.monotonic()

    def work(self, results: Sequence[RequestResult]) -> Work:
        """What all of a run's requests cost, those outside of its window too, beyond being there,
        engines apart.
        """
        took_s, before = time.monotonic() - self._began_s, self._before
        spent = without_engines({n: s - before.get(n, 0.0) for n, s in spent_s(self._url).items()})
        spent = {n: max(0.0, s - self._idle.get(n, 0.0) * took_s) for n, s in spent.items()}
        spent["generator"] = _own_s() - self._own_s
        served = [one for one in results if one.outcome == "ok"]
        refused = sum(one.outcome == "refused" for one in results)
        return Work(len(served), sum(one.audio_s for one in served), spent, refused)


def _busy_s() -> float:
    """Processor seconds of the whole machine so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _own_s() -> float:
    """Processor seconds of this process so far."""
    counts = [task / "schedstat" for task in Path("/proc/self/task").iterdir()]
    return sum(int(count.read_text().split()[0]) for count in counts) * _NS


def _with_hops(curves: Curves, ttfp_s: float, characters: int, shape: Shape) -> Costs:
    """What a request alone took beyond all that is accounted for, divided among its hops."""
    fleet = Fleet(Setup(curves, shape))
    lengths = iter([characters] * 20)
    heard = fleet.run(ClosedLoop(1, lengths, 60.0, 1.0, 1.0), 120.0)
    rest_s = ttfp_s - fmean(one for one in heard.ttfp_s if one >= 0.0)
    return msgspec.structs.replace(curves.costs, hop_s=round(max(0.0, rest_s / _HOPS), 6))


def _write(path: Path, record: msgspec.Struct) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


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

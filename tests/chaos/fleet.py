"""`python -m tests.chaos fleet`: many realtime listeners on a small fleet that keeps losing parts.

Ten talkers, ten vocoders, four gateways and three brokers with fake engines on this machine. Every
listener asks anew when it has heard what it asked for to its end. Each minute one process of each
kind is killed. Every sample is held against the undisturbed run, and what the fleet holds is looked
at every ten seconds: the first third of the looks against the last. Out come build/fleet.json and
an exit status of 1 if anything was lost, repeated or different, or grew.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from tests.chaos.command import in_folder, markdown, options, write
from tests.chaos.faults import kill
from tests.chaos.leaks import LeakCheck
from tests.chaos.listener import TEXT, Heard, Original, Verdict, judge, listen, originals
from tests.chaos.probe import Held, Probe, log_bytes
from tests.chaos.proxy import Proxy
from tests.chaos.stack import ChaosStack, chaos_stack, running
from ttscommon.bus import Bus

_KINDS = ("talker", "vocoder", "gateway", "broker")
_LOOK_EVERY_S = 10.0
_FIRST_SEED = 5000
# 2 to 40 s of sound.
TEXTS = (TEXT[:36], TEXT[:84], TEXT, TEXT, TEXT + " " + TEXT, " ".join([TEXT] * 3))
# Half as fast again as speech; a step is cheap, as 27 processes share the machine.
TALKER_CURVE = {"base_s": 0.026, "stream_s": 0.0001, "prefill_s": 0.002}
VOCODER_CURVE = {"base_s": 0.010, "stream_s": 0.0002, "frame_s": 0.0001}
_GATEWAY = {"ANTIPHON_KEEP_LOGS_S": "30"}
# What a look may differ by from one before without having grown.
_SHARE, _ROOM = 1.15, 8.0
# What clients may resume stays for ten minutes, and brokers keep it in memory as well.
_GROWS_WITH_LOGS = ("broker_rss_mib",)


@dataclass
class Run:
    """What came of it. `sound_s`: seconds of speech that the listeners got. `waits_s`: for each
    first sound.
    """

    verdict: Verdict = field(default_factory=Verdict)
    killed: dict[str, int] = field(default_factory=dict)
    sound_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
    gaps: int = 0
    looks: list[dict[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def report(self, streams: int, took_s: float) -> dict[str, Any]:
        """As it stands in fleet.json."""
        verdict = self.verdict
        cores = [name for name in self.looks[0] if name.endswith("_cores")] if self.looks else []
        names = (
            "worst_wait_s", "worst_silence_s", "worst_underrun_s", "underruns", "lost", "repeated",
            "differing", "hung", "errors", "refused",
        )  # fmt: skip
        return {
            "streams": streams,
            "took_s": round(took_s, 1),
            "spoken": verdict.streams,
            "sound_s": round(self.sound_s, 1),
            "first_sound_s": self._first_sound(),
            "gaps": self.gaps,
            "killed": self.killed,
            **{name: round(getattr(verdict, name), 3) for name in names},
            "cores": {n: round(median(look[n] for look in self.looks), 2) for n in cores},
            "notes": verdict.notes[:20],
            "problems": self.problems,
            "flat": flat(self.looks),
            "looks": self.looks,
        }

    def _first_sound(self) -> dict[str, float]:
        """Of the requests that were not refused first."""
        if not self.waits_s:
            return {}
        p50, p95 = np.quantile(self.waits_s, (0.5, 0.95)).tolist()
        return {"p50": round(p50, 4), "p95": round(p95, 4)}


def flat(looks: Sequence[dict[str, float]]) -> dict[str, tuple[float, float, bool]]:
    """Each figure's median in the first and in the last third, and whether it stayed."""
    third = max(1, len(looks) // 3)
    found: dict[str, tuple[float, float, bool]] = {}
    for name in looks[0] if looks else ():
        if name.endswith("_cores") or name == "machine":
            continue  # what they took; others share the machine
        first = median(look[name] for look in looks[:third])
        last = median(look[name] for look in looks[-third:])
        stayed = name in _GROWS_WITH_LOGS or last <= first * _SHARE + _ROOM
        found[name] = (round(first, 2), round(last, 2), stayed)
    return found


async def run(
    folder: Path, streams: int, for_s: float, kill_every_s: float = 15.0
) -> dict[str, Any]:
    """Figures and problems; see the module."""
    curves: dict[str, Any] = {"talker_curve": TALKER_CURVE, "vocoder_curve": VOCODER_CURVE}
    sizes: dict[str, Any] = {"gateways": 4, "brokers": 3, "talkers": 10, "vocoders": 10}
    stack = chaos_stack(folder, gateway=_GATEWAY, **curves, **sizes)
    done = Run(killed=dict.fromkeys(_KINDS, 0))
    async with running(stack) as bus, Proxy(_Turning(stack)) as door, Probe(stack, bus) as probe:
        url = f"http://127.0.0.1:{door.port}"
        texts = {_FIRST_SEED + number: text for number, text in enumerate(TEXTS)}
        expected = await originals(url, bus, texts)
        print(f"{len(stack.children)} processes are up", flush=True)
        began_s = time.monotonic()
        end_s = began_s + for_s
        looking = asyncio.create_task(_look(stack, bus, probe, done, end_s))
        killing = asyncio.create_task(_kill(stack, done, end_s, kill_every_s))
        await asyncio.gather(
            *(_listen(url, number, bus, expected, done, end_s) for number in range(streams))
        )
        took_s = time.monotonic() - began_s
        looking.cancel()
        await killing
        await asyncio.gather(looking, return_exceptions=True)
        await stack.whole()
        done.problems += await LeakCheck(stack, bus).check()
    return done.report(streams, took_s)


class _Turning:
    """The living gateways, another one first each time."""

    def __init__(self, stack: ChaosStack) -> None:
        self._stack = stack
        self._turn = 0

    def __call__(self) -> Sequence[int]:
        children = [self._stack.children[name] for name in self._stack.names("gateway")]
        ports = [c.ports["http"] for c in children if c.ready.is_set() and c.pid is not None]
        self._turn += 1
        first = self._turn % max(1, len(ports))
        return ports[first:] + ports[:first]


async def _listen(
    url: str, number: int, bus: Bus, expected: dict[int, Original], done: Run, end_s: float
) -> None:
    """Hear one text after another, each to its end as it plays."""
    dice = random.Random(number)
    await asyncio.sleep(dice.uniform(0, 15))
    while time.monotonic() < end_s:
        choice = dice.randrange(len(TEXTS))
        heard = await listen(url, _FIRST_SEED + choice, TEXTS[choice])
        verdict = await judge(bus, [heard], expected)
        for note in verdict.notes:
            print(note, flush=True)
        done.verdict.add(verdict)
        if heard.arrivals and not heard.refused:
            done.waits_s.append(heard.wait_s)
        done.gaps += heard.account.underruns > 0
        done.sound_s += len(heard.samples) / (heard.sample_rate or 1)
        await asyncio.sleep(_left_to_hear_s(heard))


def _left_to_hear_s(heard: Heard) -> float:
    if not heard.arrivals:
        return 1.0
    duration_s = len(heard.samples) / (heard.sample_rate or 1)
    return max(0.0, heard.arrivals[0][0] + duration_s - time.monotonic())


async def _kill(stack: ChaosStack, done: Run, end_s: float, every_s: float) -> None:
    """A process every so often, of one kind after another."""
    dice = random.Random(17)
    next_s = time.monotonic()
    while True:
        for kind in _KINDS:
            next_s += every_s
            if next_s > end_s:
                return
            await asyncio.sleep(next_s - time.monotonic())
            await kill(kind)(stack, dice)
            done.killed[kind] += 1


async def _look(stack: ChaosStack, bus: Bus, probe: Probe, done: Run, end_s: float) -> None:
    """Every ten seconds; the broker may be electing, then this look is left out."""
    spent = _Spent(stack)
    while (now := time.monotonic()) < end_s - _LOOK_EVERY_S:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                logged = sum((await log_bytes(bus)).values())
                look = _figures(await probe.look(), logged, done.verdict.streams)
        except Exception as error:  # noqa: BLE001 -- a process may be dying at this very moment
            print(f"no look: {error!r}"[:100], flush=True)
            continue
        look.update(spent.cores())
        done.looks.append(look)
        verdict = done.verdict
        print(
            f"{end_s - now:.0f} s left: {verdict.streams} spoken, clean {verdict.clean}, underruns "
            f"{verdict.underruns}, worst {verdict.worst_underrun_s:.2f} s, killed {done.killed}, "
            f"{look}",
            flush=True,
        )


class _Spent:
    """CPU time over wall time since the last call, by kind; `machine` is everything there."""

    def __init__(self, stack: ChaosStack) -> None:
        self._stack = stack
        self._at_s = time.monotonic()
        self._before = self._now()
        psutil.cpu_percent()

    def cores(self) -> dict[str, float]:
        now, took_s = self._now(), time.monotonic() - self._at_s
        found = dict.fromkeys((f"{kind}_cores" for kind in (*_KINDS, "listeners")), 0.0)
        for (name, pid), seconds in now.items():
            spent = seconds - self._before.get((name, pid), 0.0)
            found[f"{name.split('-')[0]}_cores"] += spent / took_s
        self._before, self._at_s = now, self._at_s + took_s
        machine = psutil.cpu_percent() * (psutil.cpu_count() or 1) / 100
        return {name: round(value, 2) for name, value in {**found, "machine": machine}.items()}

    def _now(self) -> dict[tuple[str, int], float]:
        pids = [(name, child.pid) for name, child in self._stack.children.items()]
        found = {("listeners", os.getpid()): time.process_time()}
        for name, pid in pids:
            if pid is not None and psutil.pid_exists(pid):
                times = psutil.Process(pid).cpu_times()
                found[name, pid] = times.user + times.system
        return found


def _figures(held: Held, log_bytes: int, spoken: int) -> dict[str, float]:
    """Means over the processes of a kind: a killed one begins anew."""
    found: dict[str, float] = {}
    for kind in _KINDS:
        for what in ("rss_mib", "files", "threads"):
            sizes = [v for k, v in getattr(held, what).items() if k.split("-")[0] == kind]
            found[f"{kind}_{what}"] = round(sum(sizes) / max(1, len(sizes)), 1)
    for what in ("subscriptions", "consumers", "leases", "jobs"):
        found[what] = getattr(held, what)
    # Nothing that a client may resume leaves within ten minutes.
    found["log_kib_a_request"] = round(log_bytes / max(1, spoken) / 1024, 2)
    return found


def table(report: dict[str, Any]) -> str:
    """Markdown: what was held in the first and in the last third."""
    rows = [
        (name, f"{first:g}", f"{last:g}{'' if stayed else ' GREW'}")
        for name, (first, last, stayed) in report["flat"].items()
    ]
    return markdown(("figure", "first third", "last third"), rows)


def main() -> int:
    """Exit status 1 if a listener did not get all, and only once, or something grew or stayed."""
    parser = options("fleet", __doc__, out=True)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    told = parser.parse_args()
    report = in_folder(lambda folder: run(folder, told.streams, told.minutes * 60))
    write(told.out, report)
    print(table(report))
    print(json.dumps({k: v for k, v in report.items() if k not in ("looks", "flat")}, indent=1))
    bad = ("lost", "repeated", "differing", "hung", "errors", "problems")
    grew = any(not stayed for *_, stayed in report["flat"].values())
    return int(grew or any(report[name] for name in bad))

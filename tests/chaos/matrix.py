"""Runs faults against a stack again and again and adds up what the listeners heard."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.leaks import LeakCheck
from tests.chaos.listener import Heard, Original, Verdict, judge, listen, logged_codes
from tests.chaos.stack import ChaosStack, chaos_stack
from ttscommon.bus import Bus

_FIRST_SEED = 1000
_START_SPREAD_S = 0.5

Report = Callable[[str], None]


@dataclass
class Row:
    """One fault at one number of streams."""

    fault: str
    streams: int
    runs: int
    verdict: Verdict

    def fields(self) -> dict[str, Any]:
        """As it stands in chaos.json."""
        v = self.verdict
        return {
            "fault": self.fault,
            "streams": self.streams,
            "runs": self.runs,
            "spoken": v.streams,
            "worst_wait_s": round(v.worst_wait_s, 3),
            "worst_gap_s": round(v.worst_silence_s, 3),
            "worst_underrun_s": round(v.worst_underrun_s, 3),
            "underruns": v.underruns,
            "lost": v.lost,
            "repeated": v.repeated,
            "differing": v.differing,
            "hung": v.hung,
            "errors": v.errors,
            "refused": v.refused,
            "unended": v.unended,
            "notes": v.notes[:20],
        }


async def run_faults(
    names: list[str],
    *,
    streams: list[int],
    runs: int,
    folder: Path,
    engine: str = "fake",
    seed: int = 0,
    report: Report = print,
    on_line: Callable[[str, str], None] = lambda name, line: None,
) -> list[Row]:
    """Inflict each fault `runs` times at each number of streams, on one stack that suits all."""
    fault = FAULTS[names[0]]
    if any(FAULTS[name].needs != fault.needs for name in names):
        raise ValueError(f"{names} do not go with one stack")
    rows = [Row(name, count, 0, Verdict()) for name in names for count in streams]
    stack = chaos_stack(
        folder,
        on_line,
        engine=engine,
        gateways=fault.gateways,
        proxied=fault.proxied,
        brokers=fault.brokers,
        max_log_bytes=fault.max_log_bytes,
        poisonous=fault.poisonous,
        rotating=fault.rotating,
        vocoders=fault.vocoders,
    )
    async with stack:
        bus = await Bus.connect(stack.bus, "chaos")
        try:
            await _audible(stack)
            originals = await _originals(stack, bus, max(streams), fault.text)
            leaks = LeakCheck(stack, bus)
            for row in rows:
                dice = random.Random(f"{row.fault} {row.streams} {seed}")
                for number in range(runs):
                    wanted = FAULTS[row.fault]
                    verdict = await _run_once(
                        stack, bus, leaks, wanted, row.streams, originals, dice
                    )
                    row.verdict.add(verdict)
                    row.runs += 1
                    report(_progress(row, number, verdict))
        finally:
            await bus.close()
    return rows


async def run_in_parallel(
    name: str, *, streams: list[int], runs: int, folder: Path, stacks: int, seed: int, **fields: Any
) -> list[Row]:
    """`run_faults` of one fault, its runs shared by several stacks: for faults that mostly wait."""
    shares = [runs // stacks + (number < runs % stacks) for number in range(stacks)]
    parts = await asyncio.gather(
        *(
            run_faults(
                [name],
                streams=streams,
                runs=share,
                folder=folder / str(number),
                seed=seed + number,
                **fields,
            )
            for number, share in enumerate(shares)
            if share
        )
    )
    rows = parts[0]
    for others in parts[1:]:
        for row, other in zip(rows, others, strict=True):
            row.runs += other.runs
            row.verdict.add(other.verdict)
    return rows


async def _audible(stack: ChaosStack) -> None:
    """Every worker has reported itself when the first words come back."""
    async with asyncio.timeout(60):
        while (await listen(stack.url, 0, "Are you there?")).outcome != "ok":
            await asyncio.sleep(0.2)


async def _originals(stack: ChaosStack, bus: Bus, count: int, text: str) -> dict[int, Original]:
    """What every seed sounds like when nobody disturbs it, a few at a time."""
    found: dict[int, Original] = {}
    seeds = range(_FIRST_SEED, _FIRST_SEED + count)
    for start in range(0, count, 8):
        for heard in await asyncio.gather(
            *(listen(stack.url, s, text) for s in seeds[start : start + 8])
        ):
            if heard.outcome != "ok":
                raise RuntimeError(f"the undisturbed run failed: {heard.error or heard.outcome}")
            codes = await logged_codes(bus, heard.request_id)
            found[heard.seed] = Original(codes, heard.samples)
    return found


async def _run_once(
    stack: ChaosStack,
    bus: Bus,
    leaks: LeakCheck,
    fault: Fault,
    streams: int,
    originals: dict[int, Original],
    dice: random.Random,
) -> Verdict:
    """One fault while `streams` listeners listen; each speaks again until the fault is over."""
    await stack.whole()
    over = asyncio.Event()
    heard: list[Heard] = []

    async def inflict() -> None:
        await asyncio.sleep(dice.uniform(*fault.between_s))
        try:
            await fault.inflict(stack, dice)
        finally:
            over.set()

    async def keep_listening(seed: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        heard.append(await fault.listen(stack.url, seed, fault.text))
        while not over.is_set():
            heard.append(await fault.listen(stack.url, seed, fault.text))

    spread = [dice.uniform(0, _START_SPREAD_S) if streams > 1 else 0.0 for _ in range(streams)]
    await asyncio.gather(
        inflict(),
        *(keep_listening(_FIRST_SEED + n, spread[n]) for n in range(streams)),
    )
    verdict = await judge(bus, heard, originals, logged=fault.logged)
    await stack.whole()
    problems = await leaks.check()
    verdict.unended = len(problems)
    verdict.notes += problems
    return verdict


def _progress(row: Row, number: int, verdict: Verdict) -> str:
    clock = time.strftime("%H:%M:%S")
    head = f"{clock} {row.fault} x{row.streams} run {number + 1}: {verdict.streams} spoken, "
    gaps = (
        f"first sound {verdict.worst_wait_s:.2f} s, gap {verdict.worst_silence_s:.2f} s, "
        f"underrun {verdict.worst_underrun_s:.2f} s"
    )
    return "\n  ".join([head + gaps, *verdict.notes[:5]])


def table(rows: list[Row]) -> str:
    """Markdown."""
    names = [
        "fault", "streams", "runs", "spoken", "worst_wait_s", "worst_gap_s", "worst_underrun_s",
        "lost", "repeated", "differing", "hung", "errors", "refused", "unended",
    ]  # fmt: skip
    lines = ["| " + " | ".join(names) + " |", "| --- |" + " ---: |" * (len(names) - 1)]
    for row in rows:
        fields = row.fields()
        lines.append("| " + " | ".join(str(fields[name]) for name in names) + " |")
    return "\n".join(lines)

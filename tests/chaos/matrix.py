"""`python -m tests.chaos matrix`: every fault under listeners, as a table and as build/chaos.json.

The program that runs where no other is named. A stack has each fault inflicted again and again, and
what the listeners heard is added up.
"""

import argparse
import asyncio
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.command import in_folder, markdown, options, write
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.leaks import LeakCheck
from tests.chaos.listener import Heard, Original, Verdict, judge, originals
from tests.chaos.stack import ChaosStack, chaos_stack, running, unheard
from ttscommon.bus import Bus

_FIRST_SEED = 1000
_START_SPREAD_S = 0.5
_COUNTS = ("lost", "repeated", "differing", "hung", "errors", "refused", "unended")

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
            **{name: getattr(v, name) for name in _COUNTS},
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
    on_line: Callable[[str, str], None] = unheard,
) -> list[Row]:
    """Inflict each fault `runs` times at each number of streams, on one stack that suits all."""
    fault = FAULTS[names[0]]
    if any((FAULTS[name].stack, FAULTS[name].text) != (fault.stack, fault.text) for name in names):
        raise ValueError(f"{names} do not go with one stack")
    rows = [Row(name, count, 0, Verdict()) for name in names for count in streams]
    stack = chaos_stack(folder, on_line, engine=engine, **fault.stack)
    async with running(stack) as bus:
        texts = {_FIRST_SEED + number: fault.text for number in range(max(streams))}
        expected = await originals(stack.url, bus, texts, at_once=8)
        leaks = LeakCheck(stack, bus)
        for row in rows:
            dice = random.Random(f"{row.fault} {row.streams} {seed}")
            for number in range(runs):
                wanted = FAULTS[row.fault]
                verdict = await _run_once(stack, bus, leaks, wanted, row.streams, expected, dice)
                row.verdict.add(verdict)
                row.runs += 1
                report(_progress(row, number, verdict))
    return rows


async def run_in_parallel(
    name: str, *, streams: list[int], runs: int, folder: Path, stacks: int, seed: int, **fields: Any
) -> list[Row]:
    """`run_faults` of one fault, its runs shared by several stacks: for faults that mostly wait."""
    shares = [runs // stacks + (number < runs % stacks) for number in range(stacks)]

    async def part(number: int, share: int) -> list[Row]:
        own: dict[str, Any] = {"folder": folder / str(number), "seed": seed + number, **fields}
        return await run_faults([name], streams=streams, runs=share, **own)

    parts = [part(number, share) for number, share in enumerate(shares) if share]
    rows, *more = await asyncio.gather(*parts)
    for others in more:
        for row, other in zip(rows, others, strict=True):
            row.runs += other.runs
            row.verdict.add(other.verdict)
    return rows


async def _run_once(
    stack: ChaosStack,
    bus: Bus,
    leaks: LeakCheck,
    fault: Fault,
    streams: int,
    expected: dict[int, Original],
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
        inflict(), *(keep_listening(_FIRST_SEED + n, spread[n]) for n in range(streams))
    )
    verdict = await judge(bus, heard, expected, logged=fault.logged)
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
    waits = ("worst_wait_s", "worst_gap_s", "worst_underrun_s")
    names = ("fault", "streams", "runs", "spoken", *waits, *_COUNTS)
    found = [row.fields() for row in rows]
    return markdown(names, [[fields[name] for name in names] for fields in found])


def _arguments() -> argparse.Namespace:
    parser = options("matrix", __doc__)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="default: all")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--parallel", type=int, default=1, help="stacks that share the runs")
    parser.add_argument("--engine", choices=["fake", "torch"], default="fake")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/chaos.json"))
    parser.add_argument("--logs", type=Path, help="write what the processes say here")
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for name in arguments.fault or FAULTS:
        lines: list[str] = []
        try:
            rows += _inflict(name, arguments, lines)
        except Exception as error:  # noqa: BLE001 -- those behind it are measured
            traceback.print_exc()
            notes = [f"the fault was not measured: {error!r}"]
            rows.append(Row(name, max(arguments.streams), 0, Verdict(errors=1, notes=notes)))
        finally:
            if arguments.logs is not None:
                arguments.logs.mkdir(parents=True, exist_ok=True)
                path = arguments.logs / f"{name.replace(' ', '-')}.log"
                path.write_text("\n".join(lines))
        found = {"engine": arguments.engine, "rows": [row.fields() for row in rows]}
        write(arguments.out, found)
    return rows


def _inflict(name: str, arguments: argparse.Namespace, lines: list[str]) -> list[Row]:
    """One fault; `lines` gets what the processes say."""

    async def measure(folder: Path) -> list[Row]:
        return await run_in_parallel(
            name,
            streams=arguments.streams,
            runs=arguments.runs,
            folder=folder,
            stacks=arguments.parallel,
            engine=arguments.engine,
            seed=arguments.seed,
            report=partial(print, flush=True),
            on_line=lambda child, line: lines.append(f"{time.time():.3f} {child}: {line}"),
        )

    return in_folder(measure)


def main() -> int:
    """Exit status 1 if anything was lost, repeated, different, hung or refused, or not measured."""
    rows = _run(_arguments())
    print(table(rows))
    return int(not all(row.verdict.clean for row in rows))

"""`python -m tests.chaos planned`: what the planner says beside what real stacks do.

`measure` runs the default voice on this machine at several loads, five times each, and adds every
run to `real.jsonl`; it goes on where it was cut off. `draw` simulates the same and puts both side
by side, as a table.
"""

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from antiphon.stack import LocalStack, StackConfig
from antiphon_bench.config import RunConfig, Target
from antiphon_bench.costs import measure as measure_costs
from antiphon_bench.costs import speech_of
from antiphon_bench.gpu.records import Point, Records
from antiphon_bench.processes import stack_at, use
from antiphon_bench.run import run as run_load
from tests.chaos.command import options
from tests.chaos.comparison import MEASURED_S, WARMUP_S, draw, run_config, stack_keys
from tests.chaos.stack import unheard

_VOICE: Final = Path("voices/vesper")


def measure_load(key: Point, url: str, out: Path) -> Point:
    """One load against a stack that is up. others: cores that anything else took meanwhile."""
    config = run_config(key, url, out)
    with ThreadPoolExecutor(1) as aside:
        using = aside.submit(use, stack_at(url), config.warmup_s, config.duration_s)
        summary, used = run_load(config), using.result()
    ours = sum(used.cores.values()) + summary.generator.cpu_share
    ttfp = summary.quantiles.get("ttfp_s")
    return {
        "p50_s": ttfp and ttfp.p50,
        "p95_s": ttfp and ttfp.p95,
        "offered": summary.offered,
        "refused": summary.refused / max(1, summary.offered),
        "gaps": 1.0 - (summary.viable_stream_share or 0.0),
        "failed": summary.failed,
        "generator_ok": summary.generator.trustworthy,
        "others": round(max(0.0, used.machine * (os.cpu_count() or 1) - ours), 2),
    }


async def with_stack(records: Records, out: Path, minutes: float, began_s: float) -> bool:
    """Costs first, then the loads that are missing, as long as there is time."""
    async with LocalStack(StackConfig(port=0), unheard) as stack:
        url = stack.url

        def work() -> bool:
            costs(url, out)
            spent_s = time.monotonic() - began_s
            least_s = WARMUP_S + MEASURED_S + 8.0
            return records.fill(
                stack_keys(),
                lambda key: measure_load(key, url, out / "runs"),
                minutes - 3.0 / 60,
                spent_s=spent_s,
                least_s=least_s,
            )

        return await asyncio.to_thread(work)


def costs(url: str, out: Path) -> None:
    """costs.json beside the curves, once."""
    folder = out / "curves"
    if not (folder / "costs.json").exists():
        config = RunConfig(target=Target(url=url, protocol="ws"), out=out / "costs")
        source = f"vesper on {os.cpu_count()} cores, python -m tests.chaos planned"
        measure_costs(config, folder, speech_of(_VOICE), source, os.cpu_count() or 1)


def calibrate(out: Path) -> None:
    """The engines' curves, once."""
    if not (out / "curves" / "vocoder.json").exists():
        command = [sys.executable, "-m", "antiphon", "calibrate", "--out", str(out / "curves")]
        subprocess.run(command, check=True)


def measure(out: Path, minutes: float, what: str) -> bool:
    """Whether everything that was asked for is there."""
    began_s = time.monotonic()
    records = Records(out, "real")
    calibrate(out)
    if what == "curves":
        return True
    if not records.missing(stack_keys()):
        return True
    return asyncio.run(with_stack(records, out, minutes, began_s))


def main() -> int:
    """Exit status 1 while runs are missing."""
    parser = options("planned", __doc__)
    parser.add_argument("command", choices=("measure", "draw"))
    parser.add_argument("--out", type=Path, default=Path("build/planned"))
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no run that ends later")
    parser.add_argument("--what", choices=("all", "curves"), default="all")
    told = parser.parse_args()
    if told.command == "draw":
        draw(told.out)
        return 0
    return int(not measure(told.out, told.minutes, told.what))

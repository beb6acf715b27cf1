"""`python -m tests.chaos matrix`: every fault under listeners, as a table and as build/chaos.json.

The program that runs where no other is named.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.matrix import Row, run_in_parallel, table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos matrix", description=__doc__)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="default: all")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--parallel", type=int, default=1, help="stacks that share the runs")
    parser.add_argument("--engine", choices=["fake", "torch"], default="fake")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/chaos.json"))
    parser.add_argument("--logs", type=Path, help="write what the processes say here")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for name in arguments.fault or FAULTS:
        lines: list[str] = []

        def keep(child: str, line: str, lines: list[str] = lines) -> None:
            lines.append(f"{time.time():.3f} {child}: {line}")

        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            try:
                rows += await run_in_parallel(
                    name,
                    streams=arguments.streams,
                    runs=arguments.runs,
                    folder=Path(folder),
                    stacks=arguments.parallel,
                    engine=arguments.engine,
                    seed=arguments.seed,
                    report=lambda line: print(line, flush=True),
                    on_line=keep,
                )
            finally:
                if arguments.logs is not None:
                    arguments.logs.mkdir(parents=True, exist_ok=True)
                    path = arguments.logs / f"{name.replace(' ', '-')}.log"
                    path.write_text("\n".join(lines))
        _write(arguments.out, rows, arguments.engine)
    return rows


def _write(path: Path, rows: list[Row], engine: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"engine": engine, "rows": [row.fields() for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> int:
    """Exit status 1 if anything was lost, repeated, different, hung or refused."""
    arguments = _arguments()
    rows = asyncio.run(_run(arguments))
    print(table(rows))
    return int(not all(row.verdict.clean for row in rows))


if __name__ == "__main__":
    sys.exit(main())

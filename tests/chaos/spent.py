"""`python -m tests.chaos spent`: what a second of sound costs each process, in CPU time.

Fake stages whose steps take no time speak over a stack of their own, so what is measured is the
path: broker, gateway and the edges of talker and vocoder. Each process is counted whole and by its
main thread, which is its edge; the other threads are its engine. `--tree` names checkouts that are
compared in turns, each in processes of its own.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from antiphon.stack import LocalStack, StackConfig
from tests.chaos.command import OPEN_DOOR, RATE_HZ, fake, in_folder, of_checkout, options, post

_SENTENCE = "The tide comes in over the sand, and the boats turn slowly on their chains; "
_SETTLE_S = 3.0
_NO_TIME = {
    "talker": {"base_s": 0.0, "stream_s": 0.0, "prefill_s": 0.0},
    "vocoder": {"base_s": 0.0, "stream_s": 0.0, "frame_s": 0.0},
}

Figures = dict[str, float]


async def measure(folder: Path, listeners: int, repeats: int, for_s: float) -> Figures:
    """CPU milliseconds a second of sound, by process, while so many listen one text after another.

    `sound_s_per_s`: seconds of sound that came in a second; `requests_per_s` likewise.
    """
    async with LocalStack(_config(folder)) as stack:
        counts = {"bytes": 0, "requests": 0}
        text = _SENTENCE * repeats
        clients = [asyncio.create_task(_listen(stack.url, text, counts)) for _ in range(listeners)]
        await asyncio.sleep(_SETTLE_S)
        start, began = dict(counts), _spent(stack)
        await asyncio.sleep(for_s)
        end, ended = dict(counts), _spent(stack)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    sound_s = (end["bytes"] - start["bytes"]) / 2 / RATE_HZ
    found = {name: (ended[name] - began[name]) * 1000 / sound_s for name in ended}
    requests = end["requests"] - start["requests"]
    return {"sound_s_per_s": sound_s / for_s, "requests_per_s": requests / for_s, **found}


def _config(folder: Path) -> StackConfig:
    gateway = {**OPEN_DOOR, "ANTIPHON_MAX_STREAMS": "2000"}
    environ = {"gateway": gateway, **fake(folder, _NO_TIME, ANTIPHON_SLOTS="512")}
    return StackConfig(
        port=0, store=folder / "store", engine="fake", log_level="warning", environ=environ
    )


async def _listen(url: str, text: str, counts: dict[str, int]) -> None:
    """Have the text spoken for ever."""
    while True:
        reader, writer = await post(url, text)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"refused: {status!r}")
        await reader.readuntil(b"\r\n\r\n")
        while data := await reader.read(1 << 16):
            counts["bytes"] += len(data)
        counts["requests"] += 1
        writer.close()


def _spent(stack: LocalStack) -> dict[str, float]:
    """CPU seconds so far: of each process, and of its main thread as `<name>.edge`."""
    found: dict[str, float] = {}
    for name, child in stack.children.items():
        process = psutil.Process(child.pid)
        times = process.cpu_times()
        found[name] = times.user + times.system
        if not name.startswith("broker"):
            main = next(each for each in process.threads() if each.id == process.pid)
            found[f"{name}.edge"] = main.user_time + main.system_time
    return found


def compare(trees: Sequence[Path], turns: int, told: Sequence[str]) -> dict[str, Figures]:
    """Medians of `turns` measurements of each tree, taken in turn."""
    runs: dict[str, list[Figures]] = {tree.name: [] for tree in trees}
    for _ in range(turns):
        for tree in trees:
            done = subprocess.run(
                [sys.executable, __file__, *told],
                env=of_checkout(tree),
                stdout=subprocess.PIPE, check=True, cwd=tree,
            )  # fmt: skip
            runs[tree.name].append(json.loads(done.stdout.splitlines()[-1]))
            print(tree.name, runs[tree.name][-1], flush=True)
    return {
        name: {key: round(median(run[key] for run in found), 3) for key in found[0]}
        for name, found in runs.items()
    }


def main() -> None:
    parser = options("spent", __doc__)
    parser.add_argument("--listeners", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3, help="sentences a text, 4.8 s each")
    parser.add_argument("--for-s", type=float, default=15.0)
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--turns", type=int, default=2)
    wanted = parser.parse_args()
    if wanted.tree:
        told = [f"--listeners={wanted.listeners}", f"--repeats={wanted.repeats}"]
        found = compare(wanted.tree, wanted.turns, [*told, f"--for-s={wanted.for_s}"])
        print(json.dumps(found, indent=1))
        return
    given = (wanted.listeners, wanted.repeats, wanted.for_s)
    figures = in_folder(lambda folder: measure(folder, *given))
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()

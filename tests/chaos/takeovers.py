"""`python -m tests.chaos takeovers`: how often a killed vocoder's job is handed on.

The only vocoder of a stack is killed under several listeners, again and again, and comes back after
half a second. Each time no worker has room for their jobs, which must wait for it and be given to
it once. Exit status 1 if a job was taken over more often than its vocoder was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.listener import TEXT, Heard, listen
from tests.chaos.stack import ChaosStack, chaos_stack

_VOCODER = "vocoder-1"
_UNDER_WAY_S = 0.5


class Takeovers:
    """Counts them by request, as the vocoder's log tells them."""

    def __init__(self) -> None:
        self.by_request: Counter[str] = Counter()

    def on_line(self, name: str, line: str) -> None:
        if name == _VOCODER and "job.taken_over" in line:
            self.by_request[json.loads(line)["request_id"]] += 1


async def measure(folder: Path, kills: int, streams: int) -> dict[str, object]:
    """Requests by the number of their takeovers, of those that lived through one kill."""
    seen, found, outcomes = Takeovers(), Counter[int](), Counter[str]()
    worst_s = 0.0
    async with chaos_stack(folder, seen.on_line, vocoders=1) as stack:
        await listen(stack.url, 0, "Are you there?")
        for number in range(kills):
            seen.by_request.clear()
            heard = await _killed_once(stack, number, streams)
            outcomes.update(each.error or each.outcome for each in heard)
            found.update(seen.by_request.values())
            worst_s = max(worst_s, *(each.worst_silence_s for each in heard))
    return {
        "kills": kills,
        "requests_by_takeovers": dict(sorted(found.items())),
        "outcomes": dict(outcomes),
        "worst_gap_s": round(worst_s, 2),
    }


async def _killed_once(stack: ChaosStack, number: int, streams: int) -> list[Heard]:
    hearing = [
        asyncio.create_task(listen(stack.url, number * streams + n, TEXT)) for n in range(streams)
    ]
    await asyncio.sleep(_UNDER_WAY_S)
    starts = stack.children[_VOCODER].starts
    stack.children[_VOCODER].kill()
    await stack.reborn(_VOCODER, starts)
    return list(await asyncio.gather(*hearing))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos takeovers", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--streams", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="takeovers-") as folder:
        found = asyncio.run(measure(Path(folder), arguments.kills, arguments.streams))
    print(json.dumps(found))
    by_takeovers = found["requests_by_takeovers"]
    assert isinstance(by_takeovers, dict)
    return int(max(by_takeovers, default=0) > 1)


if __name__ == "__main__":
    sys.exit(main())

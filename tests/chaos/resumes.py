"""`python -m tests.chaos resumes`: many clients resume one long speech at once.

Whoever has a request's token may resume it, and the latest connection has it. What others hear
meanwhile must not suffer: their slack is measured with and without, into build/resumes.json.
"""

import asyncio
import json
import sys
from argparse import SUPPRESS
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from tests.chaos.clients import (
    TIMEOUT_S,
    Unexpected,
    ask,
    first_sound,
    open_socket,
    resume,
    until_done,
)
from tests.chaos.command import in_folder, options, write
from tests.chaos.listener import LONG_TEXT, Heard, listen
from tests.chaos.stack import SWIFT_CURVE, chaos_stack

_LISTENERS: Final = 8
# When those that listen are in the middle of their speech.
_STORM_S: Final = 1.0

Ticket = Mapping[str, str]


async def run(folder: Path, resumes: int, rounds: int) -> list[dict[str, Any]]:
    """Rows by whether there was a storm."""
    async with chaos_stack(folder, talker_curve=SWIFT_CURVE) as stack:
        ticket = await _spoken(stack.url)
        heard: dict[str, list[Heard]] = {"alone": [], "beside resumes": []}
        ends: Counter[str] = Counter()
        for _ in range(rounds):
            heard["alone"] += await _listeners(stack.url)
            others, storm = await asyncio.gather(
                _listeners(stack.url), _storm_elsewhere(stack.url, ticket, resumes)
            )
            heard["beside resumes"] += others
            ends.update(storm)
    return [_row(name, streams) for name, streams in heard.items()] + [{"resumes": dict(ends)}]


async def _spoken(url: str) -> Ticket:
    """Have the long speech spoken to its end; returns what it takes to resume it."""
    async with open_socket(url) as client:
        await ask(client, LONG_TEXT, resumable=True)
        ticket, _ = await first_sound(client)
        await until_done(client, "ok", 5 * TIMEOUT_S)
    return ticket


async def _listeners(url: str) -> list[Heard]:
    return await asyncio.gather(*(listen(url, seed) for seed in range(_LISTENERS)))


async def _storm_elsewhere(url: str, ticket: Ticket, count: int) -> dict[str, int]:
    """Resume from another process: its load must not pass for the listeners' own."""
    await asyncio.sleep(_STORM_S)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaos.resumes", "--resumes", str(count),
        "--storm", url, ticket["request_id"], ticket["token"],
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    found: dict[str, int] = json.loads(said)
    return found


async def _storm(url: str, ticket: Ticket, count: int) -> dict[str, int]:
    """How so many resumes end that are asked for at once."""
    return dict(Counter(await asyncio.gather(*(_resume(url, ticket) for _ in range(count)))))


async def _resume(url: str, ticket: Ticket) -> str:
    try:
        async with open_socket(url) as client:
            await resume(client, ticket, 0, resumable=True)
            await until_done(client, "ok")
    except (Unexpected, TimeoutError, ConnectionClosed) as error:
        return getattr(error, "code", "") or type(error).__name__
    return "heard"


def _row(name: str, streams: Sequence[Heard]) -> dict[str, Any]:
    accounts = [each.account for each in streams]
    slacks = [account.min_slack_s for account in accounts if account.min_slack_s is not None]
    return {
        "listeners": name,
        "spoken": len(streams),
        "ok": sum(each.outcome == "ok" for each in streams),
        "worst_first_sound_s": round(max(each.wait_s for each in streams), 3),
        "least_slack_s": round(min(slacks), 3),
        "median_least_slack_s": round(sorted(slacks)[len(slacks) // 2], 3),
        "underruns": sum(account.underruns for account in accounts),
    }


def main() -> int:
    """Exit status 1 if a listener ran dry beside the resumes, or a resume failed."""
    parser = options("resumes", __doc__, out=True)
    parser.add_argument("--resumes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--storm", nargs=3, help=SUPPRESS)
    told = parser.parse_args()
    if told.storm:
        url, request_id, token = told.storm
        ticket = {"request_id": request_id, "token": token}
        print(json.dumps(asyncio.run(_storm(url, ticket, told.resumes))))
        return 0
    rows = in_folder(lambda folder: run(folder, told.resumes, told.rounds))
    write(told.out, rows)
    print("\n".join(map(json.dumps, rows)))
    beside, ends = rows[1], rows[2]["resumes"]
    well = beside["ok"] == beside["spoken"] and not beside["underruns"]
    return int(not (well and set(ends) <= {"heard", "heard_elsewhere"}))


if __name__ == "__main__":
    sys.exit(main())

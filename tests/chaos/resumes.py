"""`python -m tests.chaos resumes`: many clients resume one long speech at once.

Whoever has a request's token may resume it, and the latest connection has it. What others hear
meanwhile must not suffer: their slack is measured with and without, into build/resumes.json.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from tests.chaos.clients import TIMEOUT_S, Unexpected, open_socket, send, speak, told
from tests.chaos.listener import LONG_TEXT, Heard, listen
from tests.chaos.stack import SWIFT_CURVE, chaos_stack

_LISTENERS: Final = 8
# When those that listen are in the middle of their speech.
_STORM_S: Final = 1.0

Ticket = Mapping[str, str]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos resumes", description=__doc__)
    parser.add_argument("--resumes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/resumes.json"))
    parser.add_argument("--storm", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


async def run(resumes: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Rows by whether there was a storm."""
    async with chaos_stack(folder, _unheard, talker_curve=SWIFT_CURVE) as stack:
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
    ticket: dict[str, str] = {}
    async with asyncio.timeout(5 * TIMEOUT_S), open_socket(url) as client:
        await send(client, type="session.config", voice="default", resumable=True)
        await speak(client, LONG_TEXT)
        async for frame in client:
            if isinstance(frame, bytes):
                continue
            message = told(frame)
            if message["type"] == "audio.start":
                ticket = {"request_id": message["request_id"], "token": message["resume_token"]}
            if message["type"] == "audio.done":
                return ticket
    raise Unexpected("the speech has no end")


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
        async with asyncio.timeout(TIMEOUT_S), open_socket(url) as client:
            await send(client, type="session.config", voice="default", resumable=True)
            await send(client, type="session.resume", **ticket, from_sample=0)
            async for frame in client:
                if isinstance(frame, bytes):
                    continue
                message: dict[str, Any] = json.loads(frame)
                if message["type"] == "error":
                    return str(message["error"]["code"])
                if message["type"] == "audio.done":
                    return "heard"
    except (TimeoutError, ConnectionClosed) as error:
        return type(error).__name__
    return "closed"


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


def _unheard(name: str, line: str) -> None:
    """What the processes say is of no interest here."""


def main() -> int:
    """Exit status 1 if a listener ran dry beside the resumes, or a resume failed."""
    arguments = _arguments()
    if arguments.storm:
        url, request_id, token = arguments.storm
        ticket = {"request_id": request_id, "token": token}
        print(json.dumps(asyncio.run(_storm(url, ticket, arguments.resumes))))
        return 0
    with tempfile.TemporaryDirectory(prefix="resumes-") as folder:
        rows = asyncio.run(run(arguments.resumes, arguments.rounds, Path(folder)))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(map(json.dumps, rows)))
    beside, ends = rows[1], rows[2]["resumes"]
    well = beside["ok"] == beside["spoken"] and not beside["underruns"]
    return int(not (well and set(ends) <= {"heard", "heard_elsewhere"}))


if __name__ == "__main__":
    sys.exit(main())

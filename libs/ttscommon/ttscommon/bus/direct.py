"""Direct reads of a stream: any replica answers, with or without a leader, perhaps a bit late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import msgspec
import nats.errors
from nats.aio.msg import Msg

from ttscommon.bus.link import Link

Found = list[tuple[dict[str, str], bytes]]

# An answer takes milliseconds; after the last pause the time-out ends the waiting.
_PAUSES_S: Final = (0.15, 0.3, 0.6, None)
DIRECT_BATCH: Final = 256
# The end of a batch, and no message found. Anything else, like 503 from a broker whose stream is
# not up yet, says nothing about what the stream holds.
_COMPLETE: Final = ("204", "404")


async def direct_get(link: Link, stream: str, query: dict[str, Any], timeout_s: float) -> Found:
    """Headers and data of every message a direct-get query finds; names are the broker's.

    The broker passes a question to any replica, also to one that hangs: what is not answered soon
    is asked again, and the first whole answer counts.

    Raises one of `Unreachable` if the broker does not answer in time.
    """
    data, answer = msgspec.json.encode(query), _Answer()
    await link.client.listen_for_answers()
    with ExitStack() as asked:
        async with asyncio.timeout(timeout_s):
            for pause_s in _PAUSES_S:
                inbox = asked.enter_context(link.client.answered(answer.part()))
                await link.client.publish(f"$JS.API.DIRECT.GET.{stream}", data, reply=inbox)
                await asyncio.wait({answer.whole}, timeout=pause_s)
                if answer.whole.done() or answer.begun:
                    break
            return await answer.whole


class _Answer:
    """The first whole answer of several to the same question. `begun`: some of one has come."""

    def __init__(self) -> None:
        self.whole: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.begun = False

    def part(self) -> Callable[[Msg], None]:
        """Hears one of the answers."""
        found: Found = []

        def on_message(message: Msg) -> None:
            headers = message.headers or {}
            if "Nats-Sequence" in headers:
                self.begun = True
                found.append((headers, message.data))
            elif self.whole.done():
                return
            elif headers.get("Status") in _COMPLETE:
                self.whole.set_result(found)
            else:
                self.whole.set_exception(nats.errors.Error(f"direct get: {headers}"))

        return on_message

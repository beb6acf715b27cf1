"""Direct reads of a stream: any replica answers, with or without a leader, perhaps a bit late."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import nats.errors
from nats.aio.msg import Msg

from ttscommon.bus.link import Link

DIRECT_BATCH: Final = 256
# The end of a batch, and no message found. Anything else, like 503 from a broker whose stream is
# not up yet, says nothing about what the stream holds.
_COMPLETE: Final = ("204", "404")


async def direct_get(
    link: Link, stream: str, query: dict[str, Any], timeout_s: float
) -> list[tuple[dict[str, str], bytes]]:
    """Headers and data of every message a direct-get query finds; names are the broker's.

    Raises one of `Unreachable` if the broker does not answer in time.
    """
    found: list[tuple[dict[str, str], bytes]] = []
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_message(message: Msg) -> None:
        headers = message.headers or {}
        if "Nats-Sequence" in headers:
            found.append((headers, message.data))
        elif done.done():
            return
        elif headers.get("Status") in _COMPLETE:
            done.set_result(None)
        else:
            done.set_exception(nats.errors.Error(f"direct get: {headers}"))

    await link.client.listen_for_answers()
    with link.client.answered(on_message) as inbox:
        subject = f"$JS.API.DIRECT.GET.{stream}"
        await link.client.publish(subject, msgspec.json.encode(query), reply=inbox)
        async with asyncio.timeout(timeout_s):
            await done
    return found

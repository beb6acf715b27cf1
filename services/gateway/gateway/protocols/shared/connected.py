"""Work that is of no use once its client has left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from gateway.protocols.utterance import CLEAN_UP_S
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BadRequest

T = TypeVar("T")


class ClientGone(BadRequest):
    """The client has left; no one reads what this becomes."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; a client that leaves cancels it at once. Raises ClientGone.

    receive: of a request whose body was read.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone("the connection ended")
    finally:
        await stop(task, gone, again_s=CLEAN_UP_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""JetStream's streams: appended to, read directly, and their oldest records removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg

from ttscommon.bus.faults import Unreachable, available
from ttscommon.bus.link import Link
from ttscommon.wire.subjects import LOGS, TOMBSTONES

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_STREAM: Final = "Nats-Expected-Stream"


class _Word(msgspec.Struct):
    seq: int = 0
    error: dict[str, Any] | None = None


_decoder: Final = msgspec.json.Decoder(_Word)


async def append(
    link: Link,
    stream: str,
    subject: str,
    data: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
) -> int:
    """The message's sequence in the stream; names are the broker's.

    Raises APIError where the broker refuses it, or one of `Unreachable`.
    """
    began_s = time.monotonic()
    try:
        sequence = await _append(link, subject, data, {**headers, _STREAM: stream}, timeout_s)
    except Unreachable as error:
        link.store.missed(stream, began_s, error)
        raise
    link.store.kept(stream)
    return sequence


async def _append(
    link: Link, subject: str, data: bytes, told: dict[str, str], timeout_s: float
) -> int:
    try:
        answer = await link.client.request(subject, data, timeout=timeout_s, headers=told)
    except nats.errors.NoRespondersError:
        raise nats.js.errors.NoStreamResponseError from None
    try:
        word = _decoder.decode(answer.data)
    except msgspec.MsgspecError as error:
        raise nats.errors.Error(str(error)) from error
    if word.error is not None:
        raise nats.js.errors.APIError.from_error(word.error)
    return word.seq


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


# By name: the part of it before the deployment's own.
_STREAMS: Final[Mapping[str, str]] = MappingProxyType(
    {**{log.stream: "" for log in LOGS}, TOMBSTONES: "KV_"}
)
TRIMMED: Final = tuple(_STREAMS)


@dataclass(frozen=True)
class Extent:
    """Sequences of a stream: `first` of its oldest record, `last` of the newest there ever was; if
    it is empty, `first` of the next one.

    created: when the stream was made; another one counts anew.
    """

    first: int
    last: int
    created: datetime | None = None

    def follows(self, earlier: Extent) -> bool:
        """False if records were lost, so that their sequences may be given again."""
        return self.created == earlier.created and self.last >= earlier.last


class Trimmer:
    """Of the streams in `TRIMMED`, by these names. Every method raises BusUnavailable."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jetstream = link.jetstream

    async def extents(self) -> dict[str, Extent]:
        """What every stream holds, as its leader says."""
        return {stream: await self._extent(stream) for stream in TRIMMED}

    async def trim(self, stream: str, through: int) -> None:
        """Remove every record up to sequence `through`, which must have been given already.

        A later one would be taken for the stream's last.
        """
        with available(f"could not trim {stream}"):
            await self._jetstream.purge_stream(self._name(stream), seq=through + 1)

    async def _extent(self, stream: str) -> Extent:
        with available(f"could not ask for {stream}"):
            info = await self._jetstream.stream_info(self._name(stream))
        first = max(1, info.state.first_seq)  # 0 where there was never anything
        return Extent(first, info.state.last_seq, info.created)

    def _name(self, stream: str) -> str:
        return f"{_STREAMS[stream]}{self._link.name(stream)}"

"""Antiphon's `WS /v1/audio/speech/stream`: text in, whole or word by word; s16le PCM out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from antiphon_bench.arrivals import ScheduledRequest
from antiphon_bench.clients.base import Failure, Observation, SpeechClient, seconds
from antiphon_bench.config import Target

_TRY_AGAIN_LATER = 1013
_CLOSE_TIMEOUT = aiohttp.ClientWSTimeout(ws_close=1.0)


class WebSocketClient(SpeechClient):
    """One socket, one utterance; every binary message counts as a chunk.

    A socket on which one was refused is kept for another.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._refused: list[aiohttp.ClientWebSocketResponse] = []

    async def _speak(self, job: ScheduledRequest, seen: Observation) -> None:
        socket = await self._socket()
        seen.connect_s = seen.now_s()
        sender = asyncio.create_task(self._send(socket, job))
        keep = False
        try:
            await _receive(socket, seen)
        except Failure as failure:
            keep = failure.refused and sender.done() and not socket.closed
            raise
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            if keep:
                self._refused.append(socket)
            else:
                await socket.close()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(socket.close() for socket in self._refused))
        await super().__aexit__()

    async def _socket(self) -> aiohttp.ClientWebSocketResponse:
        while self._refused:
            if not (socket := self._refused.pop()).closed:
                return socket
        url = self.target.url.rstrip("/") + "/v1/audio/speech/stream"
        # Compressed audio frames would measure zlib.
        return await self.session.ws_connect(
            url, compress=0, max_msg_size=0, timeout=_CLOSE_TIMEOUT
        )

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, job: ScheduledRequest) -> None:
        config = {"type": "session.config", "model": self.target.model, "voice": job.voice}
        await socket.send_json(self.merged(config))
        for piece in _pieces(job.text, whole=not self.target.words_per_s):
            await socket.send_json({"type": "input.text", "text": piece})
            if self.target.words_per_s:
                await asyncio.sleep(1.0 / self.target.words_per_s)
        await socket.send_json({"type": "input.done"})


def _pieces(text: str, *, whole: bool) -> list[str]:
    if whole:
        return [text]
    words = text.split()
    return [word + " " for word in words[:-1]] + words[-1:]


async def _receive(socket: aiohttp.ClientWebSocketResponse, seen: Observation) -> None:
    while True:
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            seen.audio(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            if _event(_parsed(message.data), seen):
                return
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise Failure("disconnected", str(message.data))
        else:
            raise _closed(socket.close_code)


def _parsed(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError as error:
        raise Failure("protocol", f"not JSON: {data[:80]}") from error
    if not isinstance(event, dict):
        raise Failure("protocol", "a message is an object")
    return event


def _event(event: dict[str, Any], seen: Observation) -> bool:
    """Takes one control message; True at the end of the utterance."""
    kind = event.get("type")
    if kind == "audio.start":
        seen.started()
        seen.request_id = event.get("request_id")
        seen.format(int(event["sample_rate"]))
    elif kind == "audio.done":
        seen.ended()
        if event.get("outcome", "ok") != "ok":
            raise Failure(f"ws_{event['outcome']}", "the request did not end well")
        seen.breakdown(event)
        _check_total(event.get("samples"), seen)
        return True
    elif kind == "error":
        raise _refusal(event.get("error"))
    return False


def _check_total(samples: object, seen: Observation) -> None:
    received = seen.account.samples if seen.account else 0
    if isinstance(samples, int) and samples != received:
        raise Failure("truncated", f"{received} samples of {samples} arrived")


def _refusal(error: object) -> Failure:
    fields = error if isinstance(error, dict) else {"message": str(error)}
    code = fields.get("code") or fields.get("type") or "unknown"
    return Failure(
        f"ws_{code}",
        str(fields.get("message")),
        refused=code == "overloaded",
        retry_after_s=seconds(fields.get("retry_after_s")),
    )


def _closed(code: int | None) -> Failure:
    return Failure(f"ws_close_{code}", "closed before audio.done", refused=code == _TRY_AGAIN_LATER)

"""One WebSocket: text comes in while audio goes out; see docs/protocol.md.

Three tasks share a session: the reader takes messages and never waits for audio, the speaker
speaks one request after another into the outbox, the sender empties the outbox.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from gateway import errors
from gateway.errors import ClientTooSlow, Draining, IdleTimeout, SynthesisFailed
from gateway.protocols.native.connection import Connection
from gateway.protocols.native.contexts import Contexts
from gateway.protocols.native.dialogue import Dialogue
from gateway.protocols.native.messages import parse_message, tell_error
from gateway.protocols.native.speaker import Speaker
from gateway.protocols.native.tuning import DEFAULT_TUNING, SessionTuning
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests import GatewayContext
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError

_NORMAL: Final = 1000
_FAULT: Final = 1011
# No closing frame, or an empty one: the connection broke, as far as anybody can tell.
_LOST: Final = (1005, 1006)

log_ = structlog.get_logger(__name__)


class Session:
    """One connected client. `run` returns when the socket is done with."""

    def __init__(
        self, socket: WebSocket, context: GatewayContext, tuning: SessionTuning = DEFAULT_TUNING
    ) -> None:
        """Raises InvalidApiKey, before the upgrade."""
        tenant = tenant_of(context, socket)
        self.ended = asyncio.Event()
        self._idle_s = context.settings.idle_timeout_s
        self._tuning = tuning
        self._must_go = asyncio.Event()
        self._touched_s = time.monotonic()
        self._connection = Connection(socket, context.settings, tuning)
        self._outbox = outbox = self._connection.outbox
        self._contexts = Contexts(context, outbox)
        self._speaker = Speaker(context, self._contexts, outbox, tuning.clean_up_s)
        self._dialogue = Dialogue(context, tenant, self._speaker, self._contexts, outbox)

    async def run(self) -> None:
        """Serve the client until either side is done."""
        await self._connection.accept()
        sender = asyncio.create_task(self._connection.send())
        duties = (self._read, self._speaker.run, self._watch, self._leave)
        parts = [asyncio.create_task(duty()) for duty in duties]
        code = _NORMAL
        failed: AntiphonError | None = None
        try:
            done, _ = await asyncio.wait((sender, *parts), return_when=asyncio.FIRST_COMPLETED)
            match _failure(done):
                case WebSocketDisconnect() as gone:
                    if await self._connection.close_code(gone, parts[0]) in _LOST:
                        self._detach()
                    return
                case AntiphonError() as failed:
                    code = self._fail(failed)
                case Exception() as error:
                    log_.error("session.fault", exc_info=error)
                    failed = SynthesisFailed("internal error")
                    code = self._fail(failed, _FAULT)
        finally:
            await stop(*parts, again_s=self._tuning.clean_up_s)
            await self._contexts.end(failed)
            await self._speaker.stop()
            await self._connection.hang_up(sender, code)

    def drain(self) -> None:
        """This gateway shuts down: finish what was asked for, then tell the client to go."""
        self._speaker.drain()

    def hand_over(self) -> None:
        """This gateway ends now: clients that can resume elsewhere are told to."""
        self._must_go.set()

    async def _read(self) -> None:
        while True:
            frame = await self._connection.receive()
            self._touched_s = time.monotonic()
            try:
                await self._dialogue.take(parse_message(await self._connection.json_of(frame)))
            except AntiphonError as error:
                if errors.edge(error).close is not None:
                    raise
                tell_error(self._outbox, error)

    async def _watch(self) -> None:
        """Ends a session in which nothing happens."""
        limit_s = self._idle_s
        while True:
            idle_s = time.monotonic() - max(self._touched_s, self._speaker.touched_s)
            busy = self._speaker.busy or self._contexts.busy
            if not busy and idle_s >= limit_s:
                raise IdleTimeout(f"nothing was said for {limit_s:g} s")
            await asyncio.sleep(limit_s if busy else limit_s - idle_s)

    async def _leave(self) -> None:
        await self._must_go.wait()
        self._detach()
        raise Draining("this gateway is shutting down; connect again and resume")

    def _detach(self) -> None:
        self._speaker.detach()
        self._contexts.detach()

    def _fail(self, error: AntiphonError, code: int | None = None) -> int:
        """Tell a fatal error, as the last thing; returns the close code."""
        log_.info("session.failed", code=error.code, message=error.message)
        if isinstance(error, ClientTooSlow):
            self._outbox.drop_audio()
        try:
            tell_error(self._outbox, error, self._speaker.request_id)
        except ClientTooSlow:
            log_.debug("session.error_unheard")
        return code or errors.edge(error).close or _FAULT


def _failure(done: set[asyncio.Task[None]]) -> BaseException | None:
    """What ended the session, if not its own end.

    Raised once more, it would hold the frame that holds the task that holds it: a circle with the
    whole session in it, left to the collector.
    """
    return next((error for task in done if (error := task.exception()) is not None), None)

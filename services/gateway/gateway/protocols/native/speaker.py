"""Speaks the requests of a session, one after another."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial

from gateway import errors
from gateway.audio import Outbox
from gateway.errors import Draining, WrongOrder
from gateway.protocols.native.contexts import Contexts
from gateway.protocols.native.delivery import deliver
from gateway.protocols.native.messages import tell, tell_error
from gateway.protocols.native.state import (
    Phase,
    SessionRequest,
    Speaking,
    SubmittedRequest,
    Totals,
)
from gateway.requests import GatewayContext
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError


class Speaker:
    """`run` speaks what is enqueued until the session closes or drains and nothing is left."""

    def __init__(
        self,
        context: GatewayContext,
        contexts: Contexts,
        outbox: Outbox,
        clean_up_s: float,
    ) -> None:
        self.phase = Phase.OPEN
        self.touched_s = time.monotonic()
        self._context = context
        self._contexts = contexts
        self._outbox = outbox
        self._clean_up_s = clean_up_s
        self._queue: deque[SessionRequest] = deque()
        self._changed = asyncio.Event()
        self._speaking: Speaking | None = None
        self._totals = Totals()
        self._requests = 0

    @property
    def busy(self) -> bool:
        """Whether a request is spoken or waits."""
        return self._speaking is not None or bool(self._queue)

    @property
    def request_id(self) -> str | None:
        """The request that is being spoken."""
        return self._speaking.request.request_id if self._speaking else None

    async def run(self) -> None:
        """Raises Draining, or the error of a request that ends the session."""
        while True:
            while not self._queue:
                if self.phase is not Phase.OPEN:
                    await self._contexts.ended()
                    self._say_goodbye()
                    return
                self._changed.clear()
                await self._changed.wait()
            await self._speak(self._queue.popleft())
            self.touched_s = time.monotonic()

    def enqueue(self, request: SessionRequest) -> None:
        """Speak it when those before have ended; raises WrongOrder."""
        if len(self._queue) >= self._context.settings.max_queued_requests:
            raise WrongOrder("too many requests wait already; this one is ignored")
        self._queue.append(request)
        self._changed.set()

    def close(self) -> None:
        """The client wants no more than it asked for."""
        self.phase = Phase.CLOSING
        self._changed.set()

    def drain(self) -> None:
        """This gateway shuts down: speak what was asked for, then tell the client to go."""
        if self.phase is Phase.OPEN:
            self.phase = Phase.DRAINING
        self._changed.set()

    def cancel(self, request_id: str | None, played_s: float | None) -> None:
        """End a request, or all. What is cancelled says so itself, in `audio.done`."""
        for request in self._queue:
            if request_id in (None, request.request_id):
                request.cancelled = True
        speaking = self._speaking
        if speaking is not None and request_id in (None, speaking.request.request_id):
            speaking.request.cancelled = True
            speaking.totals.played_s = played_s
            self._outbox.drop_audio()
            speaking.task.cancel()
        self._changed.set()

    def give_up(self, request: SubmittedRequest) -> None:
        """Its text has failed. Its task, now or later, tells the client: that is its end."""
        if self._speaking is not None and self._speaking.request is request:
            self._speaking.task.cancel()

    def detach(self) -> None:
        """Let what is being spoken go on without us, if its client may come back."""
        speaking = self._speaking
        if speaking is not None and speaking.request.spec.resumable and speaking.speech.begun:
            speaking.speech.detached = True
            speaking.request.finish_text()

    async def stop(self) -> None:
        """The session is over."""
        if self._speaking is not None:
            await self._stop(self._speaking.task)

    async def _speak(self, request: SessionRequest) -> None:
        speaking = self._start(request)
        task = speaking.task
        try:
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()
            elif isinstance(request, SubmittedRequest) and request.text.failure is not None:
                raise request.text.failure
            report = speaking.report("cancelled" if task.cancelled() else "ok")
            tell(self._outbox, "audio.done", request_id=request.request_id, **report)
        except AntiphonError as error:
            request.refused = True
            if errors.edge(error).close is not None:
                raise
            tell_error(self._outbox, error, request.request_id)
        finally:
            await self._stop(task)
            self._speaking = None
            self._totals.add(speaking.totals)

    def _start(self, request: SessionRequest) -> Speaking:
        speech, totals = request.speech(self._context), Totals()
        told = partial(tell, self._outbox)
        task = asyncio.create_task(deliver(request, speech, self._outbox, told, totals))
        self._speaking = Speaking(request, speech, totals, task)
        self._requests += 1
        if request.cancelled:
            task.cancel()
        return self._speaking

    def _say_goodbye(self) -> None:
        if self.phase is Phase.DRAINING:
            raise Draining("this gateway is shutting down; connect again")
        tell(
            self._outbox,
            "session.done",
            requests=self._requests,
            samples=self._totals.samples,
            duration_s=round(self._totals.duration_s, 6),
        )

    async def _stop(self, task: asyncio.Task[None]) -> None:
        await stop(task, again_s=self._clean_up_s)

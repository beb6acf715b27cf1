"""Listeners of this gateway, and the tokens by which a listener may come back to its place."""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import structlog

from gateway.errors import NotFound
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus
from ttscommon.bus.faults import Unreachable
from ttscommon.process.tasks import Chores
from ttscommon.wire import subjects
from ttscommon.wire.messages import End, Listening, Message
from ttscommon.wire.subjects import AUDIO

log_ = structlog.get_logger(__name__)


class ResumeTokens:
    """Signed by the first of the keys; all of them are accepted, so that they can be rotated."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError("there is at least one key")
        self._keys = [key.encode() for key in keys]

    @classmethod
    def of(cls, settings: GatewaySettings) -> Self:
        """Where the deployment has no secret, one of this process: no client resumes elsewhere."""
        given = settings.resume_keys
        if not given:
            log_.warning("resume.no_secret", setting="ANTIPHON_RESUME_SECRET")
        return cls(given or [secrets.token_urlsafe(32)])

    def issue(self, request_id: str, tenant: str) -> str:
        """43 characters."""
        return _sign(self._keys[0], request_id, tenant)

    def require(self, token: str | None, request_id: str, tenant: str) -> None:
        """Raises NotFound: a caller that may not hear a request does not learn that it exists."""
        given = (token or "").encode()
        right = (_sign(key, request_id, tenant).encode() for key in self._keys)
        if not any(hmac.compare_digest(given, each) for each in right):
            raise NotFound("there is no such request for this token", param="request_id")


def _sign(key: bytes, request_id: str, tenant: str) -> str:
    """Ids and names hold no colon, so no two pairs are written alike."""
    digest = hmac.digest(key, f"resume:{request_id}:{tenant}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Listener(Protocol):
    """A request as it is heard here."""

    @property
    def request_id(self) -> str: ...
    @property
    def reported_s(self) -> float: ...
    def supersede(self) -> None: ...


@dataclass(frozen=True)
class ListenersTuning:
    """Telling the stages that a request still has a listener."""

    tell_s: float = 3.0
    """Between two messages; several fit in a lease."""
    look_s: float = 1.0
    """Between two looks whether a request that was left has its End."""


class Listeners:
    """The requests that are heard at one gateway. `run` while it serves."""

    def __init__(
        self,
        bus: Bus,
        tuning: ListenersTuning = ListenersTuning(),
        heard: Callable[[str], None] = lambda request_id: None,
    ) -> None:
        """`heard`: called with every request that has a listener again, here or elsewhere."""
        self._on_heard = heard
        self._bus = bus
        self._tuning = tuning
        self._heard: dict[str, Listener] = {}
        self._places: dict[str, Callable[[], None]] = {}
        self._chores = Chores()

    async def run(self) -> None:
        """Tell the stages which requests are heard, and let go of those heard elsewhere by now."""
        subscription = await self._bus.link.listen(subjects.attached("*"), self._on_attached)
        try:
            while True:
                await asyncio.sleep(self._tuning.tell_s)
                await self._tell()
        finally:
            await self._bus.link.unsubscribe(subscription)

    def begin(self, listener: Listener) -> None:
        """A request is heard over this connection from now on, and over no other one here."""
        before = self._heard.get(listener.request_id)
        self._heard[listener.request_id] = listener
        if before is not None and before is not listener:
            before.supersede()

    async def announce(self, listener: Listener) -> None:
        """Tell the gateway where the request was heard before to let it go."""
        request_id = listener.request_id
        self._on_heard(request_id)
        word = Listening(request_id, self._bus.worker_id)
        await self._bus.link.send(subjects.attached(request_id), word)

    def end(self, listener: Listener) -> None:
        if self._heard.get(listener.request_id) is listener:
            del self._heard[listener.request_id]

    def keep_place(self, request_id: str, leave: Callable[[], None]) -> None:
        """Call `leave` when the request of a lost client has its End, or the client is back."""
        self.give_up_place(request_id)
        self._places[request_id] = leave
        self._chores.start(self._until_ended(request_id, leave))

    def give_up_place(self, request_id: str) -> None:
        """The client is back."""
        leave = self._places.pop(request_id, None)
        if leave is not None:
            leave()

    def give_up_places(self) -> None:
        """This gateway ends."""
        for request_id in list(self._places):
            self.give_up_place(request_id)

    async def _until_ended(self, request_id: str, leave: Callable[[], None]) -> None:
        until_s = time.monotonic() + AUDIO.age_s
        while self._places.get(request_id) is leave:
            if time.monotonic() > until_s or await self._has_ended(request_id):
                self.give_up_place(request_id)
                return
            await asyncio.sleep(self._tuning.look_s)

    async def _has_ended(self, request_id: str) -> bool:
        try:
            tail = await self._bus.log(AUDIO, request_id).tail()
        except Unreachable:
            return False
        return tail is not None and isinstance(tail.record, End)

    async def _tell(self) -> None:
        now = time.monotonic()
        for listener in list(self._heard.values()):
            if now - listener.reported_s >= self._tuning.tell_s:
                word = Listening(listener.request_id, self._bus.worker_id)
                await self._bus.link.send(subjects.listening(listener.request_id), word)

    def _on_attached(self, word: Message) -> None:
        if not isinstance(word, Listening) or word.gateway == self._bus.worker_id:
            return
        self.give_up_place(word.request_id)
        self._on_heard(word.request_id)
        listener = self._heard.get(word.request_id)
        if listener is not None:
            log_.info("request.heard_elsewhere", request_id=word.request_id)
            listener.supersede()

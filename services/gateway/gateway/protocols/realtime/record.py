"""A session's record at the broker, and secrets with which browsers open sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Request
from pydantic import Field

from gateway.errors import HeardElsewhere, NotFound
from gateway.protocols.fields import LenientMessage
from gateway.protocols.realtime.configuration import defaults, merged
from gateway.protocols.shared.context import Context, read_json, tenant_of
from gateway.requests import DEFAULT, StoredSession
from gateway.requests.sessions import SessionStore
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BusUnavailable

_PAUSE_S: Final = 1.0
_LAST_S: Final = 2.0

log_ = structlog.get_logger(__name__)


class SessionRecord:
    """Of one connection. Nothing is stored before the first `touch`.

    name: of the tenant, the session, and the connection as a writer. state: what the session is
    now, for a writer of that name. revision: of the record that the connection goes on with. lost:
    called when another connection has taken the session over.
    """

    def __init__(
        self,
        store: SessionStore,
        name: tuple[str, str, str],
        state: Callable[[str], StoredSession],
        lost: Callable[[AntiphonError], None],
        revision: int = 0,
    ) -> None:
        self._store = store
        tenant, session_id, self._writer = name
        self._name = tenant, session_id
        self._state, self._lost = state, lost
        self._revision = revision
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Something has changed."""
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="session-record")

    async def close(self, *, keep: bool) -> None:
        """The connection is over: leave the record for the next one, or remove it."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(_LAST_S), self._writing:
                await stop(self._task)
                if keep and self._changed.is_set():
                    await self._write()
                elif not keep and self._revision:
                    await self._store.forget(*self._name, self._revision)
        except (BusUnavailable, TimeoutError):
            log_.warning("session.record_left", kept=keep)
            await stop(self._task)

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            try:
                async with self._writing:
                    await self._write()
            except BusUnavailable as error:
                log_.warning("session.unrecorded", error=error.message)
                self._changed.set()
                await asyncio.sleep(_PAUSE_S)

    async def _write(self) -> None:
        """Raises BusUnavailable, and then it is still to be written."""
        self._changed.clear()  # what changes from here on is not in it
        state = self._state(self._writer)
        revision = await self._store.put(*self._name, state, self._revision)
        if revision is None and await self._is_ours():
            revision = await self._store.put(*self._name, state, self._revision)
        if revision is None:
            self._lost(HeardElsewhere("the session goes on over another connection"))
        else:
            self._revision = revision

    async def _is_ours(self) -> bool:
        """Whether what is there was written here: an answer of the broker may be lost."""
        try:
            found, self._revision = await self._store.get(*self._name)
        except NotFound:
            self._revision = 0
            return True
        return found.writer == self._writer


router = APIRouter()

_SECONDS: Final = 600


class ExpiresAfter(LenientMessage):
    seconds: Annotated[int, Field(ge=10, le=7200)] = _SECONDS


class SecretBody(LenientMessage):
    """session: what the sessions that it opens begin with."""

    session: dict[str, Any] = Field(default_factory=dict)
    expires_after: ExpiresAfter = ExpiresAfter()


@router.post("/v1/realtime/client_secrets")
async def client_secret(request: Request, context: Context) -> dict[str, Any]:
    """A secret, when it expires, and what a session of it begins with."""
    tenant = tenant_of(context, request)
    body = SecretBody.parsed(await read_json(request, context.settings))
    settings = merged(defaults(DEFAULT), body.session)
    seconds = body.expires_after.seconds
    value, expires_at = await context.sessions.issue(tenant, body.session, seconds)
    return {"value": value, "expires_at": expires_at, "session": settings}

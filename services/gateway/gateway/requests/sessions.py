"""Realtime sessions at the broker: what was said in them, and secrets that open one.

A session's record is named by its owner and its id. It is written by the gateway that serves the
session and read by the next one; the broker numbers records, so of two gateways one goes on.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from typing import Any, Final

import msgspec

from gateway.errors import NotFound
from gateway.requests.tenants import OWNER_CHARACTERS, ByteQuota, owner_of
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest

SECRET_PREFIX: Final = "ek_"
_ID: Final = re.compile(r"sess_[A-Za-z0-9_-]{22}")
_SECRET: Final = re.compile(rf"{SECRET_PREFIX}[A-Za-z0-9_-]{{43}}")
_SECRET_BYTES: Final = 32 - OWNER_CHARACTERS // 2
# Of one tenant; another one replaces the oldest, so that other tenants find room.
MOST_SECRETS: Final = 1000
MOST_SECRET_BYTES: Final = 16 << 10


class RunningResponse(msgspec.Struct, frozen=True):
    """A response that is being spoken. model, voice: what its names came to. asked: what the client
    changed for it. source: the item whose text it speaks.
    """

    response_id: str
    item_id: str
    request_id: str
    text: str
    model: str
    voice: str
    asked: dict[str, Any] = {}
    source: str | None = None


class StoredSession(msgspec.Struct, frozen=True):
    """writer: the connection that wrote it. settings: as `session.created` tells them. items: see
    `ConversationItem.stored`.
    """

    writer: str
    settings: dict[str, Any]
    items: list[dict[str, Any]] = []
    running: RunningResponse | None = None


class SessionSecret(msgspec.Struct, frozen=True):
    """Stands for its tenant's key until it expires. settings: what a session begins with."""

    tenant: str
    settings: dict[str, Any]
    expires_unix_s: int


class SessionStore:
    """The sessions of all tenants; every method raises BusUnavailable."""

    def __init__(self, bus: Bus, quota: ByteQuota) -> None:
        self._bus, self._quota = bus, quota

    async def put(
        self, tenant: str, session_id: str, session: StoredSession, revision: int
    ) -> int | None:
        """Store what it is now; returns its revision, or None if another gateway has it."""
        record = msgspec.msgpack.encode(session)
        key = _key(tenant, session_id)
        written = await self._bus.kv.replace(subjects.SESSIONS, key, record, revision)
        if written is None:
            self._quota.drop(tenant, key)
            return None
        for gone in self._quota.add(tenant, key, len(record), written):
            await self._bus.kv.purge(subjects.SESSIONS, gone.name, gone.revision)
        return written

    async def get(self, tenant: str, session_id: str) -> tuple[StoredSession, int]:
        """A session and its revision; raises NotFound, also for one of another tenant."""
        if not _ID.fullmatch(session_id):
            raise _unknown()
        entry = await self._bus.kv.entry(subjects.SESSIONS, _key(tenant, session_id))
        if entry.value is None:
            raise _unknown()
        return msgspec.msgpack.decode(entry.value, type=StoredSession), entry.revision

    async def take(self, tenant: str, session_id: str, writer: str) -> tuple[StoredSession, int]:
        """A session for a connection that goes on with it; the connection before learns of that
        when it writes. Raises NotFound.
        """
        while True:
            found, revision = await self.get(tenant, session_id)
            taken = msgspec.structs.replace(found, writer=writer)
            written = await self.put(tenant, session_id, taken, revision)
            if written is not None:
                return taken, written

    async def forget(self, tenant: str, session_id: str, revision: int) -> None:
        """Remove a session whose client does not come back; another gateway's record stays."""
        key = _key(tenant, session_id)
        self._quota.drop(tenant, key)
        await self._bus.kv.purge(subjects.SESSIONS, key, revision)

    async def issue(self, tenant: str, settings: dict[str, Any], seconds: int) -> tuple[str, int]:
        """A secret that opens sessions for a while, and when it expires (Unix time).

        A tenant has `MOST_SECRETS`: the oldest go. Raises BadRequest for settings that are too big.
        """
        owner = owner_of(tenant)
        token = bytes.fromhex(owner) + secrets.token_bytes(_SECRET_BYTES)
        value = SECRET_PREFIX + base64.urlsafe_b64encode(token).decode().rstrip("=")
        secret = SessionSecret(tenant, settings, int(time.time()) + seconds)
        record = msgspec.msgpack.encode(secret)
        if len(record) > MOST_SECRET_BYTES:
            told = f"a secret's settings have at most {MOST_SECRET_BYTES} bytes"
            raise BadRequest(told, param="session")
        await self._bus.kv.put(subjects.SESSIONS, _secret_key(value), record)
        await self._bus.kv.keep_newest(subjects.SESSIONS, f"secret.{owner}.*", MOST_SECRETS)
        return value, secret.expires_unix_s

    async def secret(self, value: str | None) -> SessionSecret | None:
        """The secret that a key is, until it expires; None for any other key."""
        if value is None or not _SECRET.fullmatch(value):
            return None
        record = await self._bus.kv.get(subjects.SESSIONS, _secret_key(value))
        if record is None:
            return None
        secret = msgspec.msgpack.decode(record, type=SessionSecret)
        return secret if time.time() < secret.expires_unix_s else None


def new_session_id() -> str:
    """128 random bits: a client that knows it, and has the key, may hear the session."""
    return f"sess_{secrets.token_urlsafe(16)}"


def _key(tenant: str, session_id: str) -> str:
    return f"session.{owner_of(tenant)}.{session_id}"


def _secret_key(value: str) -> str:
    """The broker does not learn the secret. Its first bytes are its owner's."""
    token = base64.urlsafe_b64decode(value.removeprefix(SECRET_PREFIX) + "=")
    owner = token[:-_SECRET_BYTES].hex()
    return f"secret.{owner}.{hashlib.sha256(value.encode()).hexdigest()}"


def _unknown() -> NotFound:
    return NotFound("there is no such session, or it is too old to go on", param="session")

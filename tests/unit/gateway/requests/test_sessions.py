"""Sessions and secrets on a real broker: no key takes the room of another."""

import asyncio
from typing import Any

import pytest

from gateway.errors import NotFound
from gateway.requests import StoredSession
from gateway.requests import sessions as module
from gateway.requests.sessions import MOST_SECRET_BYTES, SessionStore, new_session_id
from gateway.requests.tenants import ByteQuota
from ttscommon.bus import Bus
from ttscommon.bus.layout import BUCKET_BYTES
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest

LONG = {"instructions": "x" * 4000}


def store_on(bus: Bus, most_bytes: int = 16 << 20) -> SessionStore:
    return SessionStore(bus, ByteQuota(most_bytes, 7200.0))


async def test_a_thousand_secrets_of_a_key_keep_no_other_from_its_own(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SECRETS", 100)
    gateways = [store_on(bus), store_on(bus)]
    early, _ = await gateways[0].issue("other", {}, 600)
    first, _ = await gateways[0].issue("flood", LONG, 600)
    for _ in range(10):
        some = [one.issue("flood", LONG, 600) for one in gateways for _ in range(50)]
        made = [value for value, _ in await asyncio.gather(*some)]
    last, _ = await gateways[0].issue("flood", LONG, 600)
    assert await gateways[1].secret(first) is None  # the oldest went
    for value, tenant in ((early, "other"), (last, "flood"), (made[-1], "flood")):
        found = await gateways[1].secret(value)
        assert found is not None
        assert found.tenant == tenant
    assert len(await bus.kv.all(subjects.SESSIONS, "secret.")) == 101


async def test_a_full_bucket_drops_the_oldest_and_refuses_nobody(bus: Bus) -> None:
    filler = bytes(512 << 10)
    store = store_on(bus)
    early, _ = await store.issue("early", {}, 600)
    for number in range(BUCKET_BYTES[subjects.SESSIONS] // len(filler) + 4):
        await bus.kv.put(subjects.SESSIONS, f"session.many.{number}", filler)
    value, _ = await store.issue("late", LONG, 600)
    found = await store.secret(value)
    assert found is not None
    assert found.settings == LONG
    assert await store.secret(early) is None


async def test_a_secret_has_bounds_and_expires_and_is_told_by_nothing_else(bus: Bus) -> None:
    store = store_on(bus)
    with pytest.raises(BadRequest, match="at most"):
        await store.issue("", {"id": "x" * MOST_SECRET_BYTES}, 600)
    value, _ = await store.issue("acme", {}, 600)
    others = (value[:-1] + ("A" if value[-1] != "A" else "B"), "ek_" + "_" * 43, value[:-1], "ek_")
    for other in others:
        assert await store.secret(other) is None
    assert value not in str(await bus.kv.all(subjects.SESSIONS))
    expired, _ = await store.issue("acme", {}, -1)
    assert await store.secret(expired) is None


async def test_a_keys_oldest_sessions_go_for_its_newest_and_others_stay(bus: Bus) -> None:
    store = store_on(bus, most_bytes=100_000)
    others = new_session_id()
    await store.put("other", others, session(30_000), 0)
    names = [new_session_id() for _ in range(5)]
    for name in names:
        assert await store.put("flood", name, session(30_000), 0) is not None
    for name in names[:2]:
        with pytest.raises(NotFound):
            await store.get("flood", name)
    for tenant, name in (("other", others), *(("flood", name) for name in names[2:])):
        await store.get(tenant, name)


async def test_a_session_that_made_room_is_stored_again_at_its_next_change(bus: Bus) -> None:
    store = store_on(bus, most_bytes=50_000)
    name = new_session_id()
    revision = await store.put("acme", name, session(30_000), 0)
    assert revision is not None
    await store.put("acme", new_session_id(), session(30_000), 0)
    assert await store.put("acme", name, session(10), revision) is None  # as its connection finds
    assert await store.put("acme", name, session(10), 0) is not None
    await store.get("acme", name)


def session(size: int, **settings: Any) -> StoredSession:
    return StoredSession("writer", {"instructions": "x" * size, **settings})

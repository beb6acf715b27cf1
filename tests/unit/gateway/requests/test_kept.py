"""Voices made of recordings, on a real broker: they belong to the key that made them."""

import asyncio

import numpy as np
import pytest

from gateway.errors import QuotaExceeded, VoiceExists
from gateway.requests.kept import NewVoice, StoredVoice, VoiceStore
from gateway.requests.tenants import ByteQuota
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.bus import Bus
from ttscommon.cluster.references import References
from ttscommon.sound.recordings import BadRecording
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.fields import Arrays

QUOTA = 3
TONE = wav(1.5)


def store_on(bus: Bus, quota: int = QUOTA, passing: int = 1 << 20) -> VoiceStore:
    return VoiceStore(bus, quota, ByteQuota(passing, 3600.0))


def new(name: str = "anna", data: bytes = TONE, consent: str = "I agree.") -> NewVoice:
    return NewVoice(name, data, consent, "what is said")


class Encoder:
    """Never derives the same twice, as two machines would not."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, data: bytes) -> Arrays:
        assert data == TONE
        self.calls += 1
        return {"speaker": np.full(4, self.calls, np.float32)}


async def test_a_voice_is_its_owners_alone(bus: Bus) -> None:
    store = store_on(bus)
    made = await store.add("acme", new())
    assert made.seconds == pytest.approx(1.5)
    assert [voice.consent for voice in await store.of("acme")] == ["I agree."]
    assert await store.of("other") == []
    for name, tenant in (("anna", "other"), ("hal", "acme"), ("../anna", "acme")):
        with pytest.raises(UnknownVoice):
            await store.get(tenant, name)
        with pytest.raises(UnknownVoice):
            await store.delete(tenant, name)
    assert (await store.get("acme", "anna")).reference(x_vector_only=False).text == "what is said"


async def test_names_are_taken_once_and_no_more_are_kept_than_the_quota(bus: Bus) -> None:
    store = store_on(bus)
    await store.add("acme", new())
    with pytest.raises(VoiceExists):
        await store.add("acme", new(data=wav(2.0)))
    await store.add("acme", new("b"))
    await store.add("acme", new("c"))
    with pytest.raises(QuotaExceeded):
        await store.add("acme", new("d"))
    await store.add("other", new("d"))
    await store.delete("acme", "b")
    await store.add("acme", new("b"))


async def test_without_consent_or_a_recording_nothing_is_kept(bus: Bus) -> None:
    store = store_on(bus)
    with pytest.raises(BadRequest, match="consent"):
        await store.add("acme", new(consent=" "))
    with pytest.raises(BadRecording):
        await store.add("acme", new(data=b"no sound"))
    assert await store.of("acme") == []


async def test_what_is_derived_of_a_recording_is_derived_once_for_all_replicas(bus: Bus) -> None:
    store, references, encoder = store_on(bus), References(bus), Encoder()
    asked = (await store.add("acme", new())).reference(x_vector_only=False)
    resolved, first = await references.derive(asked, "r1", encoder)
    again, second = await References(bus).derive(asked, "r1", encoder)
    assert resolved == again
    assert encoder.calls == 1
    assert first["speaker"].tolist() == second["speaker"].tolist() == [1.0] * 4
    assert (await references.derived(resolved))["speaker"].tolist() == [1.0] * 4
    await references.derive(asked, "r2", encoder)
    assert encoder.calls == 2


async def test_deleting_a_voice_removes_what_was_derived_unless_another_needs_it(bus: Bus) -> None:
    store, references, encoder = store_on(bus), References(bus), Encoder()
    asked = (await store.add("acme", new())).reference(x_vector_only=False)
    await store.add("acme", new("twin"))
    theirs = (await store.add("other", new())).reference(x_vector_only=False)
    resolved, _ = await references.derive(asked, "r1", encoder)
    kept, _ = await references.derive(theirs, "r1", encoder)
    await store.delete("acme", "twin")
    assert await references.derived(resolved)
    await store.delete("acme", "anna")
    with pytest.raises(UnknownVoice):
        await references.derived(resolved)
    with pytest.raises(UnknownVoice):
        await references.derive(asked, "r1", encoder)
    assert not await bus.objects.has(subjects.RECORDINGS, asked.audio)
    assert await references.derived(kept)


async def test_a_voice_deleted_while_it_is_derived_leaves_nothing(bus: Bus) -> None:
    store, references = store_on(bus), References(bus)
    asked = (await store.add("acme", new())).reference(x_vector_only=False)

    async def slow(_: bytes) -> Arrays:
        await store.delete("acme", "anna")
        return {"speaker": np.zeros(4, np.float32)}

    with pytest.raises(UnknownVoice):
        await references.derive(asked, "r1", slow)
    assert await bus.kv.all(subjects.DERIVED) == {}


async def test_a_recording_that_comes_with_a_request_is_kept_apart(bus: Bus) -> None:
    store, encoder = store_on(bus), Encoder()
    passing = await store.passing("acme", TONE, "text", alone=False)
    assert not passing.kept
    resolved, _ = await References(bus).derive(passing, "r1", encoder)
    assert await References(bus).derived(resolved)
    assert await bus.kv.all(subjects.DERIVED) == {}
    assert await store.of("acme") == []


async def test_a_voice_keeps_its_recording_whatever_happens_to_its_twins(bus: Bus) -> None:
    stores = [store_on(bus, 100) for _ in range(2)]
    for round_ in range(8):
        await stores[0].add("acme", new("first"))
        twin = f"twin-{round_}"
        await asyncio.gather(stores[0].delete("acme", "first"), stores[1].add("acme", new(twin)))
        kept = await stores[0].get("acme", twin)
        assert await bus.objects.get(subjects.RECORDINGS, kept.recording) == TONE


async def test_a_quota_holds_however_many_voices_come_at_once(bus: Bus) -> None:
    stores = [store_on(bus) for _ in range(4)]
    adding = [stores[n % 4].add("acme", new(f"v{n}")) for n in range(12)]
    made = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in made) == QUOTA
    assert all(isinstance(one, StoredVoice | QuotaExceeded) for one in made)
    kept = await stores[0].of("acme")
    assert len(kept) == QUOTA
    store = await bus.kv.all(subjects.VOICES)
    assert len(store) == QUOTA
    for voice in kept:
        assert await bus.objects.has(subjects.RECORDINGS, voice.recording)


async def test_more_text_than_a_recording_can_hold_is_refused_with_what_to_change(bus: Bus) -> None:
    store = store_on(bus)
    long = NewVoice("long", TONE, "I agree.", "word " * 4000)
    with pytest.raises(BadRequest, match=r"at most 100 .* 1\.5 s: send only") as told:
        await store.add("acme", long)
    assert told.value.param == "ref_text"
    with pytest.raises(BadRequest, match="ref_text"):
        await store.passing("acme", TONE, long.text, alone=False)
    assert await store.of("acme") == []
    old = StoredVoice("old", "key", long.text, "I agree.", 1.5, 0.0)
    with pytest.raises(BadRequest, match="ref_text"):
        old.reference(x_vector_only=False)
    assert old.reference(x_vector_only=True).x_vector_only


async def test_recordings_that_pass_leave_room_for_those_of_other_keys(bus: Bus) -> None:
    store, references = store_on(bus, passing=100_000), References(bus)
    others = await store.passing("other", wav(1.5), "", alone=True)
    passed = [await store.passing("flood", wav(1.5 + n / 10), "", alone=True) for n in range(4)]

    async def encode(data: bytes) -> Arrays:
        return {"speaker": np.zeros(4, np.float32)}

    for reference in (others, passed[-1]):
        await references.derive(reference, "revision", encode)
    for reference in passed[:2]:
        with pytest.raises(UnknownVoice):
            await references.derive(reference, "revision", encode)

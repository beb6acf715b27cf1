"""Voices that clients made of recordings: each belongs to the key that made it.

A voice is a record in a bucket, named by owner and name, and a recording in the object store. All
gateways and talkers read both; what talkers derive of a recording goes when the voice does.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from gateway.errors import QuotaExceeded, VoiceExists
from ttscommon.bus import Bus
from ttscommon.cluster.references import References, recording_key
from ttscommon.sound.recordings import BadRecording, NoDecoder, read_recording
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.messages import Reference

_OWNER_CHARACTERS: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

log_ = structlog.get_logger(__name__)


class StoredVoice(msgspec.Struct, frozen=True):
    """consent: what the speaker agreed to, kept with the recording. text: what is said in it."""

    name: str
    recording: str
    text: str
    consent: str
    seconds: float
    created_unix_s: float

    def reference(self, *, x_vector_only: bool) -> Reference:
        """What a request speaks with: without a transcript only the timbre can be cloned."""
        alone = x_vector_only or not self.text
        return Reference(self.recording, "" if alone else self.text, alone, kept=True)


@dataclass(frozen=True)
class NewVoice:
    """What a client uploads."""

    name: str
    data: bytes
    consent: str
    text: str = ""


class VoiceStore:
    """The stored voices of all tenants; every method acts for one of them."""

    def __init__(self, bus: Bus, quota: int) -> None:
        self._bus, self._quota = bus, quota
        self._references = References(bus)

    async def add(self, tenant: str, new: NewVoice) -> StoredVoice:
        """Check and store; raises BadRequest, VoiceExists, QuotaExceeded, BusUnavailable."""
        if not new.consent.strip():
            raise BadRequest(
                "a voice needs the statement of consent of whoever speaks in it", param="consent"
            )
        samples, rate = await asyncio.to_thread(read_recording, new.data)
        held = await self.of(tenant)
        if len(held) >= self._quota:
            raise QuotaExceeded(f"a key can keep {self._quota} voices", param="name")
        key = recording_key(tenant, new.data)
        voice = StoredVoice(new.name, key, new.text, new.consent, len(samples) / rate, time.time())
        await self._references.keep(key, new.data, kept=True)
        record = msgspec.json.encode(voice)
        if not await self._bus.kv.replace(subjects.VOICES, _key(tenant, new.name), record, 0):
            if all(voice.recording != key for voice in await self.of(tenant)):
                await self._references.forget(key)
            raise VoiceExists(f"there is a voice '{new.name}' already", param="name")
        return voice

    async def of(self, tenant: str) -> list[StoredVoice]:
        """A tenant's voices, by name; raises BusUnavailable."""
        records = await self._bus.kv.all(subjects.VOICES, f"{_owner(tenant)}.")
        return [_parsed(record) for _, record in sorted(records.items())]

    async def get(self, tenant: str, name: str) -> StoredVoice:
        """Raises UnknownVoice, also for a voice of another tenant; BusUnavailable."""
        record = await self._bus.kv.get(subjects.VOICES, _key(tenant, name))
        if record is None:
            raise UnknownVoice(f"there is no voice '{name}'", param="voice")
        return _parsed(record)

    async def delete(self, tenant: str, name: str) -> None:
        """Remove a voice and all that was made of it; raises UnknownVoice, BusUnavailable."""
        voice = await self.get(tenant, name)
        await self._bus.kv.delete(subjects.VOICES, _key(tenant, name))
        if all(other.recording != voice.recording for other in await self.of(tenant)):
            await self._references.forget(voice.recording)

    async def passing(self, tenant: str, data: bytes, text: str, *, alone: bool) -> Reference:
        """A recording that came with a request; raises BadRecording, BusUnavailable."""
        try:
            await asyncio.to_thread(read_recording, data)
        except NoDecoder:
            log_.debug("voices.unchecked")  # the talker will look
        key = recording_key(tenant, data)
        await self._references.keep(key, data, kept=False)
        return Reference(key, "" if alone else text, alone)


def _owner(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:_OWNER_CHARACTERS]


def _key(tenant: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnknownVoice(f"there is no voice '{name[:64]}'", param="voice")
    return f"{_owner(tenant)}.{name}"


def _parsed(record: bytes) -> StoredVoice:
    return msgspec.json.decode(record, type=StoredVoice)


__all__ = ["BadRecording", "NewVoice", "StoredVoice", "VoiceStore"]

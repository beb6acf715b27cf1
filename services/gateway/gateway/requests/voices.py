"""Voices that clients made of recordings: each belongs to the key that made it.

A voice is a record in a bucket, named by owner and name, and a recording in the object store. All
gateways and talkers read both; what talkers derive of a recording goes when the voice does.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from gateway.errors import QuotaExceeded, VoiceExists
from gateway.requests.quota import ByteQuota, older, owner_of
from ttscommon.bus import Bus
from ttscommon.cluster.references import References, recording_key
from ttscommon.sound.recordings import (
    LEAST_S,
    MOST_S,
    BadRecording,
    NoDecoder,
    read_recording,
)
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BadRequest, UnknownVoice
from ttscommon.wire.messages import Reference

# Twice as fast as people speak, in any script.
_MOST_CHARS_A_SECOND: Final = 40
_LEAST_CHARS: Final = 40
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

log_ = structlog.get_logger(__name__)


class StoredVoice(msgspec.Struct, frozen=True):
    """consent: what the speaker agreed to, kept with the recording. text: what is said in it.
    adapter: what the voice is spoken with unless a request asks for another.
    """

    name: str
    recording: str
    text: str
    consent: str
    seconds: float
    created_unix_s: float
    adapter: str = ""

    def reference(self, *, x_vector_only: bool) -> Reference:
        """What a request speaks with: without a transcript only the timbre can be cloned.

        Raises BadRequest for a transcript that no model has room for.
        """
        alone = x_vector_only or not self.text
        if not alone:
            check_transcript(self.text, self.seconds)
        return Reference(self.recording, "" if alone else self.text, alone, kept=True)


@dataclass(frozen=True)
class NewVoice:
    """What a client uploads."""

    name: str
    data: bytes
    consent: str
    text: str = ""
    adapter: str = ""


class VoiceStore:
    """The stored voices of all tenants; every method acts for one of them.

    quota: voices that a tenant may keep. passing: bytes of recordings that came with requests.
    """

    def __init__(self, bus: Bus, quota: int, passing: ByteQuota) -> None:
        self._bus, self._quota, self._passing = bus, quota, passing
        self._references = References(bus)

    async def add(self, tenant: str, new: NewVoice) -> StoredVoice:
        """Check and store; raises BadRequest, VoiceExists, QuotaExceeded, BusUnavailable."""
        if not new.consent.strip():
            raise BadRequest(
                "a voice needs the statement of consent of the speaker in it", param="consent"
            )
        samples, rate = await asyncio.to_thread(read_recording, new.data)
        seconds = len(samples) / rate
        check_transcript(new.text, seconds)
        await self._require_room(tenant)
        # A recording of its own, also where another voice has the same: what is deleted with one
        # voice is never another's, whichever gateways do it at once.
        digest = await asyncio.to_thread(recording_key, tenant, new.data)
        key = f"{digest}-{secrets.token_hex(8)}"
        made_s = time.time()
        voice = StoredVoice(
            *(new.name, key, new.text, new.consent, seconds, made_s), adapter=new.adapter
        )
        await self._references.keep(key, new.data, kept=True)
        try:
            await self._record(tenant, voice)
        except AntiphonError:
            await self._references.forget(key)
            raise
        return voice

    async def _record(self, tenant: str, voice: StoredVoice) -> None:
        """Raises VoiceExists; QuotaExceeded if others were first, at whatever gateway.

        Of the records that a tenant has, the oldest count, and the broker numbers them: however
        many come at once, each finds the same ones before it.
        """
        key, record = _key(tenant, voice.name), msgspec.json.encode(voice)
        revision = await self._bus.kv.replace(subjects.VOICES, key, record, 0)
        if revision is None:
            raise VoiceExists(f"there is a voice '{voice.name}' already", param="name")
        pattern = f"{owner_of(tenant)}.>"
        if await older(self._bus, subjects.VOICES, pattern, key, revision) >= self._quota:
            await self._bus.kv.delete(subjects.VOICES, key, revision)
            raise self._full()

    async def _require_room(self, tenant: str) -> None:
        """Raises QuotaExceeded before a recording is stored in vain."""
        if len(await self.of(tenant)) >= self._quota:
            raise self._full()

    def _full(self) -> QuotaExceeded:
        return QuotaExceeded(f"a key can keep {self._quota} voices", param="name")

    async def of(self, tenant: str) -> list[StoredVoice]:
        """A tenant's voices, by name; raises BusUnavailable."""
        records = await self._bus.kv.all(subjects.VOICES, f"{owner_of(tenant)}.")
        return [_parsed(record) for _, record in sorted(records.items())]

    async def get(self, tenant: str, name: str) -> StoredVoice:
        """Raises UnknownVoice, also for a voice of another tenant; BusUnavailable."""
        record = await self._bus.kv.get(subjects.VOICES, _key(tenant, name))
        if record is None:
            raise _unknown(name)
        return _parsed(record)

    async def delete(self, tenant: str, name: str) -> None:
        """Remove a voice and all that was made of it; raises UnknownVoice, BusUnavailable."""
        entry = await self._bus.kv.entry(subjects.VOICES, _key(tenant, name))
        if entry.value is None:
            raise _unknown(name)
        voice = _parsed(entry.value)
        if not await self._bus.kv.delete(subjects.VOICES, entry.key, entry.revision):
            raise _unknown(name)  # another request was first
        # Voices that were made before every one had a recording of its own may share one.
        if all(other.recording != voice.recording for other in await self.of(tenant)):
            await self._references.forget(voice.recording)

    async def passing(
        self, tenant: str, data: bytes, text: str, *, alone: bool, least_s: float = LEAST_S
    ) -> Reference:
        """A recording that came with a request; raises BadRecording, BusUnavailable."""
        seconds = MOST_S
        try:
            samples, rate = await asyncio.to_thread(read_recording, data, least_s)
            seconds = len(samples) / rate
        except NoDecoder:
            log_.debug("voices.unchecked")  # the talker will look
        check_transcript(text, seconds)
        key = await asyncio.to_thread(recording_key, tenant, data)
        await self._references.keep(key, data, kept=False)
        for gone in self._passing.add(tenant, key, len(data)):
            await self._references.forget(gone.name, kept=False)
        return Reference(key, "" if alone else text, alone)


def check_transcript(text: str, seconds: float) -> None:
    """Raises BadRequest for more text than can be said in a recording of `seconds`.

    A model reads it beside what it is to speak, and has no room for more.
    """
    most = int(_LEAST_CHARS + seconds * _MOST_CHARS_A_SECOND)
    if len(text) > most:
        raise BadRequest(
            f"ref_text has {len(text)} characters, and at most {most} can be said in a recording of"
            f" {seconds:.1f} s: send only the words that are spoken in it",
            param="ref_text",
        )


def _unknown(name: str) -> UnknownVoice:
    return UnknownVoice(f"there is no voice '{name}'", param="voice")


def _key(tenant: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise _unknown(name[:64])
    return f"{owner_of(tenant)}.{name}"


def _parsed(record: bytes) -> StoredVoice:
    return msgspec.json.decode(record, type=StoredVoice)


__all__ = ["BadRecording", "NewVoice", "StoredVoice", "VoiceStore"]

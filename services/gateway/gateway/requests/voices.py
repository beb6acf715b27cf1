"""Voices that clients made of recordings: each belongs to the key that made it.

A voice is a record in a bucket, named by owner and name, and a recording in the object store. All
gateways and talkers read both; what talkers derive of a recording goes when the voice does.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.errors import VoiceExists
from gateway.requests.quota import ByteQuota
from gateway.requests.tenants import TenantRecord, TenantStore
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

log_ = structlog.get_logger(__name__)


class StoredVoice(TenantRecord, frozen=True):
    """consent: what the speaker agreed to, kept with the recording. text: what is said in it.
    adapter: what the voice is spoken with unless a request asks for another.
    """

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


class VoiceStore(TenantStore[StoredVoice]):
    """Voices, and recordings that came with requests.

    quota: voices that a tenant may keep. passing: bytes of recordings that came with requests.
    """

    bucket, noun, record = subjects.VOICES, ("a voice", "voices"), StoredVoice

    def __init__(self, bus: Bus, quota: int, passing: ByteQuota) -> None:
        super().__init__(bus)
        self._quota, self._passing = quota, passing
        self._references = References(bus)

    def unknown(self, name: str) -> UnknownVoice:
        return UnknownVoice(f"there is no voice '{name}'", param="voice")

    def exists(self, name: str) -> VoiceExists:
        return VoiceExists(f"there is a voice '{name}' already", param="name")

    async def add(self, tenant: str, new: NewVoice) -> StoredVoice:
        """Check and store; raises BadRequest, VoiceExists, QuotaExceeded, BusUnavailable."""
        if not new.consent.strip():
            raise BadRequest(
                "a voice needs the statement of consent of the speaker in it", param="consent"
            )
        samples, rate = await asyncio.to_thread(read_recording, new.data)
        seconds = len(samples) / rate
        check_transcript(new.text, seconds)
        await self.require_room(tenant, self._quota)
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
            await self._put(tenant, voice, self._quota)
        except AntiphonError:
            await self._references.forget(key)
            raise
        return voice

    async def delete(self, tenant: str, name: str) -> None:
        """Remove a voice and all that was made of it; raises UnknownVoice, BusUnavailable."""
        voice = await self._remove(tenant, name)
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


__all__ = ["BadRecording", "NewVoice", "StoredVoice", "VoiceStore"]

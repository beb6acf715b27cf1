"""Voices, lexicons and adapters that clients made: each belongs to the key that did."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.errors import AdapterExists, LexiconExists, QuotaExceeded, UnknownLexicon, VoiceExists
from gateway.requests.lexicon import ClientLexicon, LexiconEntry, compiled, packed, unpacked
from gateway.requests.pls import Parsed
from gateway.requests.tenants import ByteQuota, TenantRecord, TenantStore, owner_of
from ttscommon.bus import Bus
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.cluster.references import References, recording_key
from ttscommon.sound.recordings import LEAST_S, MOST_S, NoDecoder, read_recording
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BadRequest, UnknownAdapter, UnknownVoice
from ttscommon.wire.messages import Reference
from ttscommon.wire.parameters import ADAPTER, AdapterRef

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

    bucket, record = subjects.VOICES, StoredVoice
    noun, param, missing, exists = "voice", "voice", UnknownVoice, VoiceExists

    def __init__(self, bus: Bus, quota: int, passing: ByteQuota) -> None:
        super().__init__(bus)
        self._quota, self._passing = quota, passing
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


_ENTRIES: Final = "entries"


class StoredLexicon(TenantRecord, frozen=True):
    """language: as the client said. entries: how many."""

    language: str
    entries: int
    created_unix_s: float


class LexiconStore(TenantStore[StoredLexicon]):
    """Lexicons. quota: how many a tenant may keep."""

    bucket, record = subjects.LEXICONS, StoredLexicon
    noun, param, missing, exists = "lexicon", "lexicons", UnknownLexicon, LexiconExists
    instead = ": send replace=true to put this in its place"

    def __init__(self, bus: Bus, quota: int) -> None:
        super().__init__(bus)
        self._quota = quota

    async def add(self, tenant: str, name: str, parsed: Parsed, *, replace: bool) -> StoredLexicon:
        """Store it under a name; raises BadRequest, LexiconExists, QuotaExceeded.

        Its record first of all: of several requests for a name at once, one goes on.
        """
        self.require_name(name)
        stored = StoredLexicon(name, parsed.language, len(parsed.entries), time.time())
        await self._put(tenant, stored, self._quota, replace=replace)
        key = f"{self._key(tenant, name)}.{_ENTRIES}"
        await self._bus.kv.put(self.bucket, key, packed(parsed.entries))
        return stored

    async def whole(self, tenant: str, name: str) -> tuple[StoredLexicon, list[LexiconEntry]]:
        """Raises UnknownLexicon."""
        record = await self.get(tenant, name)
        return record, unpacked(await self._content(tenant, name))

    async def delete(self, tenant: str, name: str) -> None:
        """Raises UnknownLexicon."""
        await self._remove(tenant, name)
        await self._bus.kv.delete(self.bucket, f"{self._key(tenant, name)}.{_ENTRIES}")

    async def named(self, tenant: str, names: Sequence[str]) -> tuple[ClientLexicon, ...]:
        """Lexicons for a request, in their order; raises UnknownLexicon."""
        return tuple([compiled(await self._content(tenant, name)) for name in names])

    async def _content(self, tenant: str, name: str) -> bytes:
        content = await self._bus.kv.get(self.bucket, f"{self._key(tenant, name)}.{_ENTRIES}")
        if content is None:
            raise self.unknown(name)
        return content


# No talker takes a higher one, whatever its settings.
_MOST_RANK: Final = 1024


class StoredAdapter(TenantRecord, frozen=True):
    """stored: the object's name. digest: SHA-256 of its content. rank: its highest. size: bytes."""

    stored: str
    digest: str
    rank: int
    size: int
    created_unix_s: float

    @property
    def ref(self) -> AdapterRef:
        """As a request carries it."""
        return AdapterRef(self.name, self.digest, self.stored)


class AdapterStore(TenantStore[StoredAdapter]):
    """Adapters. How many a tenant may keep depends on its key."""

    bucket, record, article = subjects.ADAPTERS, StoredAdapter, "an"
    noun, param, missing, exists = "adapter", ADAPTER, UnknownAdapter, AdapterExists

    def full(self, quota: int) -> QuotaExceeded:
        if not quota:
            return QuotaExceeded("this key may not upload adapters", param=ADAPTER)
        return super().full(quota)

    async def add(
        self, tenant: str, name: str, config: bytes, weights: bytes, quota: int
    ) -> StoredAdapter:
        """Check and store; raises InvalidAdapter, BadRequest, AdapterExists, QuotaExceeded.

        Whether it fits a model is found out by the first talker that is to speak with it.
        """
        self.require_name(name)
        await self.require_room(tenant, quota)
        files, rank = await asyncio.to_thread(_checked, config, weights)
        key = f"{owner_of(tenant)}-{files.digest}-{secrets.token_hex(8)}"
        size = len(config) + len(weights)
        stored = StoredAdapter(name, key, files.digest, rank, size, time.time())
        await self._bus.objects.put(subjects.RECORDINGS, key, files.packed())
        try:
            await self._put(tenant, stored, quota)
        except AntiphonError:
            await self._bus.objects.delete(subjects.RECORDINGS, key)
            raise
        return stored

    async def delete(self, tenant: str, name: str) -> None:
        """Talkers that hold it go on with it; raises UnknownAdapter."""
        stored = (await self._remove(tenant, name)).stored
        await self._bus.objects.delete(subjects.RECORDINGS, stored)


def _checked(config: bytes, weights: bytes) -> tuple[Files, int]:
    """Takes as long as reading the files: not on the event loop."""
    files = Files.of(config, weights)
    lora = Lora.parse(files, _MOST_RANK)
    lora.check_values()
    return files, lora.rank

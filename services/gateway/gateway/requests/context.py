"""What the protocols of one gateway share: names, keys, and the way to have something spoken."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from gateway.admission import ANONYMOUS, KeyRing
from gateway.audio.resample import resampler
from gateway.requests.catalogue import DEFAULT, Catalogue
from gateway.requests.incremental import IncrementalText
from gateway.requests.sources import Attach, SpeechSpec, Submit
from gateway.requests.speech import RequestServices, Speech
from gateway.settings import GatewaySettings


@dataclass(frozen=True)
class GatewayContext:
    """A protocol module works with this alone: it never sees the bus.

    `spec` resolves what a client wishes, `speak` and `attach` give a Speech:

        spec = await context.spec(tenant, voice="slt", sample_rate=24_000)
        async with context.speak(spec, text) as speech:      # a string or an IncrementalText
            async for piece in pieces(speech):               # gateway.audio.pipe
                await send(piece.data)                       # and piece.words
                await speech.handed(piece.samples)
        speech.account                                       # what the listener heard
    """

    settings: GatewaySettings
    catalogue: Catalogue
    keys: KeyRing
    services: RequestServices

    async def spec(
        self,
        tenant: str = ANONYMOUS,
        *,
        model: str = DEFAULT,
        voice: str = DEFAULT,
        sample_rate: int | None = None,
        seed: int | None = None,
        language: str | None = None,
        resumable: bool = False,
    ) -> SpeechSpec:
        """What a client's names and wishes come to.

        Raises UnknownModel, UnknownVoice, Unavailable, and Unsupported for a sample rate.
        """
        found, spoken = await self.catalogue.resolve(model, voice)
        rate = sample_rate or found.sample_rate
        resampler(found.sample_rate, rate)  # refuse it now rather than with the first audio
        return SpeechSpec(found, spoken, rate, seed, language, resumable, tenant)

    def text(self) -> IncrementalText:
        """For a text that arrives piece by piece."""
        return IncrementalText(self.settings.max_text_chars)

    def speak(
        self, spec: SpeechSpec, text: str | IncrementalText, request_id: str | None = None
    ) -> Speech:
        """A new request. A string must be cleaned already; see gateway.requests.text."""
        source = Submit(self.services.bus, spec, text, request_id or new_request_id())
        return Speech(self.services, source)

    def attach(self, spec: SpeechSpec, request_id: str, from_sample: int) -> Speech:
        """The rest of a request whose client lost its connection, from a sample at its rate."""
        return Speech(self.services, Attach(self.services.bus, spec, request_id, from_sample))


def new_request_id() -> str:
    """128 random bits."""
    return secrets.token_urlsafe(16)

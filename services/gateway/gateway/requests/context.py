"""The context that the protocols of one gateway share: names, keys, the way to have text spoken."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from gateway.audio.watermark import BlockGrid
from gateway.errors import Unsupported
from gateway.keys import ANONYMOUS, KeyRing
from gateway.requests.aliases import DEFAULT, Aliases, retired_warning
from gateway.requests.catalogue import Catalogue
from gateway.requests.incremental import IncrementalText
from gateway.requests.kept import AdapterStore, LexiconStore, VoiceStore
from gateway.requests.options import DialogueTurns, RequestOptions, SpeechSpec, recording
from gateway.requests.rows import Production
from gateway.requests.services import Lookups, RequestServices
from gateway.requests.sessions import SessionStore
from gateway.requests.snapshot import presets_of
from gateway.requests.sources import Attach, Submit
from gateway.requests.speech import Speech
from gateway.settings import GatewaySettings
from ttscommon.sound.recordings import LEAST_SAID_S
from ttscommon.wire.errors import AntiphonError, BadRequest, UnknownVoice
from ttscommon.wire.messages import Reference, Turn
from ttscommon.wire.parameters import ADAPTER, AdapterRef
from ttscommon.wire.replicas import Model, Voice

Names: TypeAlias = Literal["own", "aliases", "any"]


@dataclass(frozen=True)
class GatewayContext:
    """A protocol module works with this alone: it never sees the bus.

    `spec` resolves what a client asks for, `speak` and `attach` return a Speech:

        spec = await context.spec(tenant, voice="vesper", sample_rate=24_000)
        async with context.speak(spec, context.whole(text)) as speech:
            async for piece in pieces(speech, speech.pipe()):  # gateway.audio.pipe
                await send(piece.data)                       # and piece.words
                await speech.handed(piece.samples)
        speech.delivery.account                              # what the listener heard
    """

    settings: GatewaySettings
    catalogue: Catalogue
    keys: KeyRing
    services: RequestServices
    aliases: Aliases
    lookups: Lookups

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
        speed: float = 1.0,
        names: Names = "own",
        options: RequestOptions = RequestOptions(),  # noqa: B008 -- frozen
        lenient: bool = True,
        attaching: bool = False,
        max_wait_s: float = 0.0,
        gain: float = 1.0,
    ) -> SpeechSpec:
        """Resolve a client's names and options.

        names: whether only the deployment's own are known ("own"), those of other services too
        ("aliases"), or any, which then means the default ("any"). lenient: options that can be
        dropped are, where the model does not obey them; see RequestOptions. attaching: the request
        runs already, so that only its sound matters. max_wait_s: see Applicant. gain: see
        SpeechSpec. Raises UnknownModel, UnknownVoice, Unavailable, Unsupported, UnknownLexicon,
        and BadRequest for a recording.
        """
        language = options.language or language
        naming = (
            None
            if names == "own"
            else partial(self.names, lenient=names == "any", language=language)
        )
        try:
            found, spoken = await self.catalogue.resolve(model, voice, naming)
        except UnknownVoice as error:
            if await self.voices.find(tenant, voice) is None:
                raise
            raise UnknownVoice(
                f"the voice '{voice}' is made of a recording: it needs a model whose `accepts` in"
                " /v1/models names ref_audio",
                param="voice",
            ) from error
        for preset in presets_of(found, spoken) or (None,):
            self.keys.permit(tenant, found.name, preset)
        rate = sample_rate or found.sample_rate
        options = replace(options, language=language)
        obeyed, ignored = options.obeyed(found, spoken, lenient=lenient)
        reference: Reference | None = None
        adapter: AdapterRef | None = None
        turns: tuple[Turn, ...] = ()
        if not attaching:
            reference, bound = await self._reference(tenant, found, spoken, obeyed)
            named = bound if obeyed.adapter is None else obeyed.adapter
            adapter = await self._adapter(tenant, found, named)
            turns = await DialogueTurns(self.voices, tenant).of(obeyed.turns)
        spec = SpeechSpec(
            model=found,
            voice=spoken,
            sample_rate=rate,
            seed=seed,
            language=obeyed.language,
            resumable=resumable,
            tenant=tenant,
            speed=speed,
            options=replace(obeyed, speech=None),
            ignored=tuple(ignored),
            reference=reference,
            turns=turns,
            warning=retired_warning(voice, spoken.id),
            lexicons=() if attaching else await self.lexicons.named(tenant, options.lexicons),
            max_wait_s=max_wait_s,
            adapter=adapter,
            gain=gain,
        )
        if attaching or obeyed.speech is None:
            return spec
        return await self.spoken_to(spec, obeyed.speech)

    async def spoken_to(self, spec: SpeechSpec, speech: str) -> SpeechSpec:
        """`spec` with what was said to the model, a recording: see `options.recording`.

        Raises Unsupported for a model that takes none, TextTooLong, BusUnavailable, and BadRequest.
        """
        RequestOptions(speech=speech).obeyed(spec.model, spec.voice, lenient=False)
        turns = await DialogueTurns(self.voices, spec.tenant).spoken(speech, spec.turns)
        return replace(spec, turns=turns, answers=True)

    async def store_speech(self, tenant: str, recording: bytes) -> str:
        """Store what was said to a model, for an hour; returns the name of the recording.

        Raises BadRecording, BusUnavailable.
        """
        made = self.voices.passing(tenant, recording, "", alone=True, least_s=LEAST_SAID_S)
        return (await made).audio

    @property
    def voices(self) -> VoiceStore:
        """What clients made of recordings."""
        services = self.services
        return VoiceStore(services.bus, self.settings.max_voices, services.recording_bytes)

    @property
    def adapters(self) -> AdapterStore:
        """What clients trained."""
        return AdapterStore(self.services.bus)

    @property
    def lexicons(self) -> LexiconStore:
        """How clients want words to be read."""
        return LexiconStore(self.services.bus, self.settings.max_lexicons)

    @property
    def sessions(self) -> SessionStore:
        """What clients of the Realtime socket said and heard."""
        return SessionStore(self.services.bus, self.services.session_bytes)

    async def _reference(
        self, tenant: str, model: Model, voice: Voice, options: RequestOptions
    ) -> tuple[Reference | None, str]:
        """Whose voice to clone, for a model that clones and has none of that
        name itself, and the adapter that the voice goes by."""
        if "ref_audio" not in model.accepts:
            return None, voice.adapter
        alone = bool(options.x_vector_only_mode)
        if options.ref_audio:
            data = await recording(options.ref_audio)
            passing = self.voices.passing(tenant, data, options.ref_text or "", alone=alone)
            return await passing, ""
        if voice in model.voices:
            return None, voice.adapter
        if not voice.id and "turns" in model.accepts:
            return None, voice.adapter  # such a model also speaks in no voice that it was given
        if not voice.id:
            raise BadRequest(
                f"'{model.name}' speaks with the voice of a recording: send ref_audio, or name a"
                " voice that you made of one",
                param="ref_audio",
            )
        stored = await self.voices.get(tenant, voice.id)
        return stored.reference(x_vector_only=alone), stored.adapter

    async def _adapter(self, tenant: str, model: Model, name: str) -> AdapterRef | None:
        """The caller's adapter of this name, or else the deployment's; raises UnknownAdapter."""
        if not name:
            return None
        if ADAPTER not in model.accepts:
            raise Unsupported(
                f"the voice goes by the adapter '{name}', and the model '{model.name}' takes none",
                param="voice",
            )
        if (own := await self.adapters.find(tenant, name)) is not None:
            return own.ref
        for one in model.adapters:
            if one.name == name:
                self.keys.permit_adapter(tenant, name)
                return AdapterRef(one.name, one.digest)
        raise self.adapters.unknown(name, ", ".join(one.name for one in model.adapters))

    async def require_adapter(self, tenant: str, name: str) -> None:
        """A voice is to go by this adapter; raises UnknownAdapter where no model has it."""
        if await self.adapters.find(tenant, name) is None:
            models = self.catalogue.snapshot.models().values()
            if all(one.name != name for model in models for one in model.adapters):
                raise self.adapters.unknown(name)
            self.keys.permit_adapter(tenant, name)

    def names(
        self, model: str, voice: str, *, lenient: bool = False, language: str | None = None
    ) -> tuple[str, str]:
        """A model's and a voice's name here, for those of another service.

        `lenient`: names that mean nothing here mean the defaults, and a voice's the first of the
        `language`. Where a model has no voices of its own, it is one that was made of a recording.
        """
        models = self.catalogue.snapshot.models()
        families = {name: one.family for name, one in models.items()}
        model = self.aliases.model(model, families, lenient=lenient)
        chosen = models.get(self.settings.default_model if model == DEFAULT else model)
        chosen = chosen or next(iter(models.values()), None)
        voices = chosen.voices if chosen is not None else ()
        cloned = chosen is not None and not voices and "ref_audio" in chosen.accepts
        lenient = lenient and not cloned
        return model, self.aliases.voice(voice, voices, lenient=lenient, language=language)

    def text(self) -> IncrementalText:
        """For a text that arrives piece by piece."""
        return IncrementalText(self.settings.max_text_chars)

    def whole(self, text: str, *, optional: bool = False) -> IncrementalText:
        """For a text that is complete; raises TextTooLong, and NothingToSay unless it is optional:
        the model answers what it hears.
        """
        return IncrementalText.whole(text, self.settings.max_text_chars, optional=optional)

    def speak(
        self,
        spec: SpeechSpec,
        text: IncrementalText,
        request_id: str | None = None,
        *,
        rows: bool = False,
    ) -> Speech:
        """A new request. rows: its text is rows, see `produce`; raises Unsupported for a model
        that takes none.
        """
        if rows and not spec.model.row_width:
            raise Unsupported(f"'{spec.model.name}' takes no rows: send text", param="rows")
        services = self.services
        request_id = request_id or new_request_id()
        listener_timeout_s = services.tuning.listener_timeout_s
        return Speech(
            services, Submit(services.bus, spec, text, request_id, listener_timeout_s, rows=rows)
        )

    def produce(
        self,
        tenant: str,
        request_id: str,
        width: int,
        *,
        accepted: Callable[[int], None],
        failed: Callable[[AntiphonError], None],
    ) -> Production:
        """What writes a request's rows; see Production. It still has to be started."""
        bus = self.services.bus
        return Production(bus, request_id, tenant, width, accepted=accepted, failed=failed)

    def require_token(self, token: str, request_id: str, tenant: str) -> None:
        """Raises NotFound unless the token is this request's and this tenant's."""
        self.services.tokens.require(token, request_id, tenant)

    def attach(
        self, spec: SpeechSpec, request_id: str, from_sample: int, token: str | None
    ) -> Speech:
        """The rest of a request whose client lost its connection, from a sample at its rate.

        Not found unless the token is this request's and this tenant's.
        """
        services = self.services
        check = partial(services.tokens.require, token, request_id, spec.tenant)
        perth, rate = services.watermark, spec.model.sample_rate
        before = 0 if perth is None else BlockGrid(perth, rate).lead
        return Speech(
            services, Attach(services.bus, spec, request_id, from_sample, check, before=before)
        )

    def rejoin(self, spec: SpeechSpec, request_id: str, from_sample: int) -> Speech:
        """`attach` with all word times, for a request that a record of the caller's own names."""
        services = self.services
        source = Attach(services.bus, spec, request_id, from_sample, _known, timed=True)
        return Speech(services, source)


def _known() -> None:
    """A caller whose own record names a request may hear it."""


def new_request_id() -> str:
    """128 random bits."""
    return secrets.token_urlsafe(16)

"""The responses of a session: begun, spoken, cancelled, and gone on with by another connection."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from msgspec import structs
from starlette.websockets import WebSocket

from gateway.errors import Draining, NoActiveResponse, ResponseActive
from gateway.protocols.realtime.configuration import (
    Settings,
    WantedResponse,
    for_response,
    format_of,
    voice_of,
    wanted,
)
from gateway.protocols.realtime.items import ConversationEvents, ConversationItem
from gateway.protocols.realtime.response import ResponseEvents, SpokenResponse
from gateway.protocols.session import SessionPhase
from gateway.protocols.shared.context import max_wait_s
from gateway.protocols.shared.sockets import JsonObject, JsonSession, encode
from gateway.protocols.utterance import StreamedText
from gateway.requests import GatewayContext, RequestOptions, RunningResponse, SpeechSpec
from ttscommon.wire.errors import AntiphonError, NothingToSay, TextTooLong
from ttscommon.wire.messages import MAX_TEXT_CHARS, MAX_TURNS, Reference, Turn

_USER, _MODEL = 0, 1
# Recordings that came with a request are gone after an hour.
_SOUND_S: Final = 3000.0
_INSTRUCTIONS: Final = "instructions"
_MOST: Final = "max_new_tokens"
Spoken = StreamedText[SpokenResponse]


class SpeakingSession(JsonSession[SpokenResponse]):
    """At most one response at a time becomes a part of the conversation, `active`.

    running: what another connection needs to go on with it. resumable: it outlives its connection.
    hears: the session's model answers in words of its own.
    """

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self.tenant = ""
        self.config: Settings = {}
        self.said = ConversationEvents(self.tell, self._stop_item, self.hear)
        self.active: Spoken | None = None
        self.running: RunningResponse | None = None
        self.resumable = self.hears = False
        self._events = count(1)

    @abstractmethod
    async def hear(self, item: ConversationItem) -> None:
        """Have the sound that came with an item be heard, where there is any; raises Unsupported
        where the model hears none, BadRequest.
        """

    @abstractmethod
    def changed(self) -> None:
        """What another connection would go on with is not what it was."""

    def tell(self, message: JsonObject) -> None:
        self.put(self.encoded(message))

    def encoded(self, message: JsonObject) -> str:
        """With an id of its own, without which some clients die."""
        return encode({**message, "event_id": f"event_{next(self._events)}"})

    async def respond(self, asked: Any) -> None:
        """Speak what is wanted; a response that cannot be spoken says so in its end."""
        response = wanted(self.config, asked, self.said.items)
        if response.conversational and self.active is not None:
            raise ResponseActive("the conversation has a response in progress")
        self.require_room()
        if response.source is not None:
            await self.hear(response.source)
        events = self._begun(response)
        try:
            await self._speak(response, events)
        except NothingToSay:
            events.end("completed")
        except AntiphonError as error:
            events.fail(error)
            return
        source = response.source
        if source is not None and source in self.said.items:
            self.said.items.speak(source)

    def _begun(self, response: WantedResponse) -> ResponseEvents:
        conversation = self.said.items if response.conversational else None
        events = ResponseEvents(response, self.tell, conversation, self.said.add)
        events.begin()
        return events

    async def _speak(self, response: WantedResponse, events: ResponseEvents) -> None:
        """Raises NothingToSay, and whatever keeps it from being spoken."""
        heard = response.source is not None and bool(response.source.sound)
        text = self.context.whole(response.text, optional=heard)
        if not (response.audible or self.hears):
            events.words(response.text)
            events.end("completed")
            return
        if self.phase is not SessionPhase.OPEN:
            raise Draining("the session ends; connect again")
        spec = answered(await self.spec(response.settings), response, self.said.items.items)
        audio, _ = format_of(response.settings["audio"]["output"])
        framing = SpokenResponse(events, self.encoded)
        spoken = self.begin(spec, framing, audio, response.response_id, text=text)
        self._run(spoken, spec)

    def _run(self, spoken: Spoken, spec: SpeechSpec) -> None:
        response = spoken.framing.events.wanted
        if response.conversational:
            self.active = spoken
            self.running = RunningResponse(
                response.response_id,
                response.item_id,
                spoken.request_id,
                response.text,
                spec.model.name,
                spec.voice.id,
                {"metadata": response.metadata, **_heard_as(response.settings)},
                None if response.source is None else response.source.id,
            )
        self.start(spoken)

    async def rejoin(self, running: RunningResponse) -> None:
        """Go on with a response that another connection began."""
        response = WantedResponse(
            for_response(self.config, running.asked),
            running.asked.get("metadata"),
            source=self.said.items.find(running.source),
            text=running.text,
            response_id=running.response_id,
            item_id=running.item_id,
        )
        self.running = None
        events = self._begun(response)
        audio, rate_hz = format_of(response.settings["audio"]["output"])
        given = self.socket.query_params.get("from_sample", "0")
        from_sample = int(given) if given.isdecimal() and len(given) < 16 else 0
        try:
            spec = await self.spec(response.settings, running)
        except AntiphonError as error:
            events.fail(error)
            return
        speech = self.context.rejoin(spec, running.request_id, from_sample)
        framing = SpokenResponse(events, self.encoded, from_sample / rate_hz)
        text = self.context.text()
        text.finish()
        self._run(self.adopt(speech, framing, audio, text, response.response_id), spec)

    async def spec(self, settings: Settings, running: RunningResponse | None = None) -> SpeechSpec:
        """How a response with these settings is spoken. Names that mean nothing mean the default.

        Raises what `GatewayContext.spec` raises.
        """
        output = settings["audio"]["output"]
        return await self.context.spec(
            self.tenant,
            model=settings["model"] if running is None else running.model,
            voice=voice_of(settings) if running is None else running.voice,
            names="any" if running is None else "own",
            sample_rate=format_of(output)[1],
            speed=output["speed"],
            resumable=self.resumable,
            attaching=running is not None,
            max_wait_s=max_wait_s(self.socket),
        )

    async def cancel(self, name: Any) -> None:
        spoken = self.active if name is None else self.contexts.get(str(name))
        if spoken is None:
            raise NoActiveResponse("Cancellation failed: no active response found")
        await self._stop_speaking(spoken, "client_cancelled")

    async def interrupt(self) -> None:
        """The user speaks."""
        if self.active is not None:
            await self._stop_speaking(self.active, "turn_detected")

    async def _stop_item(self, name: Any) -> None:
        """What its client cuts off or deletes is not spoken further."""
        for spoken in list(self.utterances):
            if spoken.framing.events.wanted.item_id == name:
                await self._stop_speaking(spoken, "client_cancelled")

    async def _stop_speaking(self, spoken: Spoken, reason: str) -> None:
        if await self.stop(spoken):
            spoken.framing.cancelled(spoken.speech, reason)
            self.finished(spoken)

    def over(self, utterance: Spoken, error: AntiphonError | None) -> None:
        source = utterance.framing.events.wanted.source
        if error is not None and source is not None and not utterance.speech.delivery.samples:
            source.spoken = False  # its client may ask once more
        super().over(utterance, error)

    def finished(self, utterance: Spoken) -> None:
        if utterance is self.active:
            self.active = self.running = None
            self.changed()
        super().finished(utterance)


def _heard_as(settings: Settings) -> dict[str, Any]:
    """What of the settings says how a response sounds."""
    kinds = {"output_modalities": settings["output_modalities"]}
    return {**kinds, "audio": {"output": settings["audio"]["output"]}}


def answered(
    spec: SpeechSpec, response: WantedResponse, items: Sequence[ConversationItem]
) -> SpeechSpec:
    """The same, where the model answers: with what was said before, and how it is to answer.

    Raises NothingToSay for a model that hears nothing and a turn without text, TextTooLong.
    """
    source = response.source
    heard = source is not None and bool(source.sound)
    if not spec.model.says:
        if heard and not response.text:
            raise NothingToSay("the model does not hear", param="input")
        return spec
    turns = _before(items, source)
    if source is not None and heard:
        turns = [*turns, Turn(_USER, "", Reference(source.sound))]
    turns = _fitting(turns[-MAX_TURNS:])
    if len(response.instructions) > MAX_TEXT_CHARS:
        raise TextTooLong(f"instructions have at most {MAX_TEXT_CHARS} characters")
    options = _options(spec, response)
    return replace(spec, turns=tuple(turns), options=options, answers=heard)


def _options(spec: SpeechSpec, response: WantedResponse) -> RequestOptions:
    """How it is to answer, and for how long at most."""
    options, accepts = spec.options, spec.model.accepts
    if _INSTRUCTIONS in accepts and response.instructions:
        options = replace(options, instructions=response.instructions)
    most = response.settings["max_output_tokens"]
    if _MOST in accepts and isinstance(most, int):
        sampling = structs.replace(options.sampling, max_new_tokens=max(2, most))
        options = replace(options, sampling=sampling)
    return options


def _before(items: Sequence[ConversationItem], source: ConversationItem | None) -> list[Turn]:
    """Turns of what stands in front of it."""
    place = next((at for at, item in enumerate(items) if item is source), len(items))
    return [turn for item in items[:place] for turn in _turn(item)]


def _turn(item: ConversationItem) -> Iterator[Turn]:
    role = item.shown.get("role")
    if role == "user" and item.sound and time.time() - item.sound_unix_s < _SOUND_S:
        yield Turn(_USER, "", Reference(item.sound))
    elif role == "user" and (said := item.text or item.transcript):
        yield Turn(_USER, said)
    elif role == "assistant" and (said := item.text or item.transcript):
        yield Turn(_MODEL, said)


def _fitting(turns: list[Turn]) -> list[Turn]:
    """The newest of them that a job has room for."""
    room = MAX_TEXT_CHARS
    for at in range(len(turns) - 1, -1, -1):
        room -= len(turns[at].text)
        if room < 0:
            return turns[at + 1 :]
    return turns

"""A response of a model that hears and answers: the conversation as the model takes it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from gateway.protocols.realtime.items import ConversationItem
from gateway.protocols.realtime.wanted import WantedResponse
from gateway.requests import RequestOptions, SpeechSpec
from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.messages import MAX_TEXT_CHARS, MAX_TURNS, Reference, Turn

_USER, _MODEL = 0, 1
# Recordings that came with a request are gone after an hour.
_SOUND_S: Final = 3000.0
_INSTRUCTIONS: Final = "instructions"
_MOST: Final = "max_new_tokens"


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
    wishes = _wishes(spec, response)
    return replace(spec, turns=tuple(turns), wishes=wishes, answers=heard)


def _wishes(spec: SpeechSpec, response: WantedResponse) -> RequestOptions:
    """How it is to answer, and for how long at most."""
    wishes, accepts = spec.wishes, spec.model.accepts
    if _INSTRUCTIONS in accepts and response.instructions:
        wishes = replace(wishes, instructions=response.instructions)
    most = response.settings["max_output_tokens"]
    if _MOST in accepts and isinstance(most, int):
        sampling = structs.replace(wishes.sampling, max_new_tokens=max(2, most))
        wishes = replace(wishes, sampling=sampling)
    return wishes


def _before(items: Sequence[ConversationItem], source: ConversationItem | None) -> list[Turn]:
    """Turns of what stands in front of it."""
    place = next((at for at, item in enumerate(items) if item is source), len(items))
    return [turn for item in items[:place] for turn in _turn(item)]


def _turn(item: ConversationItem) -> Iterator[Turn]:
    role = item.told.get("role")
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

"""A session's settings, merged object by object, and what a `response.create` wants. Pure."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from gateway.audio import AudioFormat
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.errors import Unsupported
from gateway.protocols.realtime.items import (
    Conversation,
    ConversationItem,
    new_id,
    newest,
    parsed_item,
)
from gateway.requests import DEFAULT
from ttscommon.wire.errors import BadRequest

Settings: TypeAlias = dict[str, Any]

PCM_HZ: Final = 24_000
_TELEPHONE_HZ: Final = 8_000
_MOST_BYTES: Final = 64 << 10
_MOST_TOKENS: Final = 4096
_DEEPEST: Final = 8
_PCM: Final = "audio/pcm"
_CODECS: Final[Mapping[str, tuple[AudioFormat, int]]] = {
    _PCM: (AudioFormat("pcm_s16le"), PCM_HZ),
    "audio/pcmu": (AudioFormat("mulaw"), _TELEPHONE_HZ),
    "audio/pcma": (AudioFormat("alaw"), _TELEPHONE_HZ),
}
_ANSWERS: Final = {"create_response": True, "interrupt_response": True}
TURNS: Final[Mapping[str, Settings]] = {
    "server_vad": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        **_ANSWERS,
    },
    "semantic_vad": {"type": "semantic_vad", "eagerness": "auto", **_ANSWERS},
}
_IDLE: Final = "idle_timeout_ms"
_BOUNDS: Final = {
    "threshold": (0.0, 1.0),
    "prefix_padding_ms": (0, 5000),
    "silence_duration_ms": (20, 10_000),
    _IDLE: (100, 50_000),
}


def defaults(model: str) -> Settings:
    """What a session begins with."""
    sound = {"type": _PCM, "rate": PCM_HZ}
    heard = {
        "format": dict(sound),
        "noise_reduction": None,
        "transcription": None,
        "turn_detection": dict(TURNS["server_vad"]),
    }
    return {
        "type": "realtime",
        "object": "realtime.session",
        "model": model,
        "instructions": "",
        "output_modalities": ["audio"],
        "audio": {"input": heard, "output": {"format": sound, "voice": DEFAULT, "speed": 1.0}},
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "include": None,
    }


def merged(settings: Settings, update: Any) -> Settings:
    """The settings after an update, which stay as they were if it raises BadRequest."""
    if not isinstance(update, Mapping):
        raise BadRequest("'session': an object is expected", param="session")
    if update.get("type", "realtime") != "realtime":
        raise Unsupported("sessions that only transcribe are not offered", param="session.type")
    made = _merge(copy.deepcopy(settings), _whole(update), 0)
    _check(made)
    if len(msgspec.json.encode(made)) > _MOST_BYTES:
        raise BadRequest(f"a session's settings have at most {_MOST_BYTES} bytes", param="session")
    return made


def for_response(settings: Settings, asked: Mapping[str, Any]) -> Settings:
    """The settings of one response; raises BadRequest."""
    own = ("output_modalities", "max_output_tokens")
    update = {name: asked[name] for name in own if asked.get(name) is not None}
    audio = asked.get("audio")
    output = audio.get("output") if isinstance(audio, Mapping) else None
    if isinstance(output, Mapping):
        update["audio"] = {"output": {name: v for name, v in output.items() if v is not None}}
    return merged(settings, update)


def format_of(sound: Mapping[str, Any]) -> tuple[AudioFormat, int]:
    """The codec of an `audio.input` or `audio.output`, and its rate in Hz."""
    return _CODECS[sound["format"]["type"]]


def voice_of(settings: Settings) -> str:
    """The voice's name, whichever way it is told."""
    voice = settings["audio"]["output"].get("voice")
    return voice["id"] if isinstance(voice, dict) else voice or DEFAULT


def _whole(update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what a client cannot change: which session it is."""
    return {name: value for name, value in update.items() if name not in ("id", "object")}


def _merge(old: Settings, new: Mapping[str, Any], depth: int) -> Settings:
    for name, value in new.items():
        known = old.get(name)
        if name == "turn_detection" and isinstance(value, Mapping):
            known = _turns(known, value)
        if name == "format" or not isinstance(value, Mapping) or depth > _DEEPEST:
            old[name] = copy.deepcopy(value)
        else:
            old[name] = _merge(known if isinstance(known, dict) else {}, value, depth + 1)
    return old


def _turns(known: Any, update: Mapping[str, Any]) -> Settings:
    """What an update of turn detection is merged into: another kind has other fields."""
    kind = update.get("type") or (known or TURNS["server_vad"])["type"]
    if kind not in TURNS:
        raise BadRequest(
            f"'turn_detection.type': one of {', '.join(TURNS)} is expected",
            param="session.audio.input.turn_detection.type",
        )
    same = isinstance(known, dict) and known.get("type") == kind
    return dict(known) if same else dict(TURNS[kind])


def _check(made: Settings) -> None:
    """Raises BadRequest for what could not be obeyed as it is meant."""
    for name in ("input", "output"):
        audio = made["audio"]
        if not isinstance(audio, dict) or not isinstance(audio.get(name), dict):
            raise BadRequest("'audio': an object is expected", param=f"session.audio.{name}")
        audio[name]["format"] = _format(audio[name].get("format"), f"session.audio.{name}.format")
    _check_output(made)
    _check_turns(made["audio"]["input"].get("turn_detection"))
    most = made["max_output_tokens"] = made["max_output_tokens"] or "inf"
    if most != "inf" and (type(most) is not int or not 1 <= most <= _MOST_TOKENS):
        where = "session.max_output_tokens"
        raise BadRequest(f"'{where}': 1 to {_MOST_TOKENS} or \"inf\" is expected", param=where)
    made["model"] = made["model"] if isinstance(made["model"], str) else DEFAULT


def _format(given: Any, where: str) -> Settings:
    """As clients validate it: bare samples have the one rate, the laws of telephony tell none."""
    kind = given.get("type") if isinstance(given, Mapping) else given
    if kind is None:
        kind = _PCM
    if not isinstance(kind, str) or kind not in _CODECS:
        raise BadRequest(f"'{where}': one of {', '.join(_CODECS)} is expected", param=where)
    if kind != _PCM:
        return {"type": kind}
    rate = given.get("rate") if isinstance(given, Mapping) else None
    if rate not in (None, PCM_HZ):
        raise BadRequest(f"'{where}.rate': audio/pcm has {PCM_HZ} Hz", param=f"{where}.rate")
    return {"type": kind, "rate": PCM_HZ}


def _check_output(made: Settings) -> None:
    output, kinds = made["audio"]["output"], made["output_modalities"]
    if not isinstance(kinds, list) or not {"audio", "text"} & set(map(str, kinds)):
        where = "session.output_modalities"
        raise BadRequest(f'\'{where}\': ["audio"] or ["text"] is expected', param=where)
    speed = output["speed"] = 1.0 if output.get("speed") is None else output["speed"]
    if not isinstance(speed, int | float) or not MIN_SPEED <= speed <= MAX_SPEED:
        where = "session.audio.output.speed"
        raise BadRequest(f"'{where}': {MIN_SPEED:g} to {MAX_SPEED:g} is expected", param=where)
    voice = output.get("voice")
    name = voice.get("id") if isinstance(voice, dict) else DEFAULT if voice is None else voice
    if not isinstance(name, str) or len(name) > 256:
        where = "session.audio.output.voice"
        raise BadRequest(f"'{where}': a name or an object with its id is expected", param=where)


def _check_turns(turns: Any) -> None:
    where = "session.audio.input.turn_detection"
    if turns is None:
        return
    if not isinstance(turns, dict):
        raise BadRequest(f"'{where}': an object or null is expected", param=where)
    for name, (least, most) in _BOUNDS.items():
        value = turns.get(name, least)
        if value is None and name == _IDLE:
            continue
        if not isinstance(value, int | float) or not least <= value <= most:
            told = f"'{where}.{name}': {least:g} to {most:g} is expected"
            raise BadRequest(told, param=f"{where}.{name}")
    if turns["type"] != "server_vad" and turns.get(_IDLE) is not None:
        raise Unsupported(f"'{_IDLE}' is of server_vad alone", param=f"{where}.{_IDLE}")


# Pipecat puts several messages, or one of an assistant, into one text with JSON in it.
_SAVED: Final = re.compile(r"previously saved conversation[^\[{]*(?=[\[{])")
_JSON: Final = json.JSONDecoder()
_MOST_METADATA: Final = 16
_LONGEST_VALUE: Final = 512
_MOST_INPUT: Final = 256


@dataclass(frozen=True)
class WantedResponse:
    """settings: the session's, with what the client changed for it. metadata: the client's own.
    conversational: it becomes a part of the conversation. source: the item that it speaks, text:
    how it reads. instructions: for a model that answers.
    """

    settings: Settings
    metadata: dict[str, Any] | None = None
    conversational: bool = True
    source: ConversationItem | None = None
    text: str = ""
    instructions: str = ""
    response_id: str = field(default_factory=lambda: new_id("resp"))
    item_id: str = field(default_factory=lambda: new_id("item"))

    @property
    def audible(self) -> bool:
        return "audio" in self.settings["output_modalities"]


def wanted(settings: Settings, asked: Any, conversation: Conversation) -> WantedResponse:
    """What a client wants with `asked`; raises BadRequest."""
    asked = {} if asked is None else asked
    if not isinstance(asked, Mapping):
        raise BadRequest("'response': an object is expected", param="response")
    source = _source(asked.get("input"), conversation)
    return WantedResponse(
        for_response(settings, asked),
        _metadata(asked.get("metadata")),
        asked.get("conversation") != "none",
        source,
        "" if source is None else spoken_text(source.text),
        _instructions(settings, asked),
    )


def spoken_text(text: str) -> str:
    """What of an item's text is said: of a conversation that was packed into it, its last words."""
    found = _SAVED.search(text)
    if found is None:
        return text
    try:
        messages, _ = _JSON.raw_decode(text, found.end())
    except (ValueError, RecursionError):
        return text
    last = messages[-1] if isinstance(messages, list) and messages else messages
    return _content(last.get("content")) if isinstance(last, dict) else ""


def _content(content: Any) -> str:
    """Of a message of a language model: a string, or a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _source(given: Any, conversation: Conversation) -> ConversationItem | None:
    """The newest item with text: of `input` where there is one, else of what was not spoken."""
    if given is None:
        return conversation.newest()
    if not isinstance(given, list) or len(given) > _MOST_INPUT:
        raise BadRequest("'response.input': a list of items is expected", param="response.input")
    return newest([item for one in given if (item := _named(one, conversation)) is not None])


def _named(given: Any, conversation: Conversation) -> ConversationItem | None:
    """An item of `input`, or the one of the conversation that it refers to."""
    if isinstance(given, Mapping) and given.get("type") == "item_reference":
        return conversation.find(given.get("id"))
    return parsed_item(given)


def _instructions(settings: Settings, asked: Mapping[str, Any]) -> str:
    """The response's own in place of the session's."""
    given = asked.get("instructions") or settings.get("instructions")
    return given if isinstance(given, str) else ""


def _metadata(given: Any) -> dict[str, Any] | None:
    """Is told back: clients find their response by it."""
    if given is None:
        return None
    short = isinstance(given, Mapping) and len(given) <= _MOST_METADATA
    if not short or any(len(str(v)) > _LONGEST_VALUE for pair in given.items() for v in pair):
        raise BadRequest(
            f"'metadata': at most {_MOST_METADATA} short strings are expected",
            param="response.metadata",
        )
    return dict(given)

"""Messages of each socket. Binary frames are sound and stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gateway.description.operation import Schema
from gateway.protocols.cartesia.fields import Speak
from gateway.protocols.native import STREAM_PATH
from gateway.protocols.native.messages import ClientMessage

_KINDS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "number": {"type": "number"},
        "switch": {"type": "boolean"},
        "object": {"type": "object"},
        "list": {"type": "array"},
        "any": {},
        "null": {"type": "null"},
    }
)


@dataclass(frozen=True)
class Channel:
    """A socket. sent: and received by the client: types, or schemas. binary: frames of sound."""

    name: str
    about: str
    sent: Sequence[Any]
    received: Sequence[Schema]
    binary: bool = False


def message(kind: str = "", /, **fields: str) -> Schema:
    """An object of a `type`, with fields by the words of _KINDS: `|` between two, `?` at the end of
    one that may be absent.
    """
    named: dict[str, Schema] = {"type": {"const": kind}} if kind else {}
    named |= {name: _schema(words.rstrip("?")) for name, words in fields.items()}
    required = [name for name in named if not fields.get(name, "").endswith("?")]
    title = kind or "_".join(required)
    return {"title": title, "type": "object", "properties": named, "required": required}


def _schema(words: str) -> Schema:
    kinds = [dict(_KINDS[word]) for word in words.split("|")]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _about(**more: str) -> dict[str, str]:
    """What names a request of the native socket, or a context."""
    return {"request_id": "text|null", "context_id": "text?", "sequence": "whole?", **more}


_CREATED: Final = {
    "session_id": "text|null", "protocol": "whole", "model": "text", "voice": "text",
    "format": "text", "sample_rate": "whole", "channels": "whole", "limits": "object",
}  # fmt: skip
NATIVE: Final = Channel(
    "Antiphon",
    "Antiphon's own socket: a session that speaks texts one after another, or in contexts.",
    [ClientMessage],
    [
        message("session.created", **_CREATED),
        message("session.updated", **_CREATED),
        message("session.done", requests="whole", samples="whole", duration_s="number"),
        message("session.draining", deadline_s="number?"),
        message("input.accepted", request_id="text", rows="whole"),
        message(
            "audio.start",
            **_about(
                format="text", sample_rate="whole", channels="whole", model="text", voice="text",
                seed="whole", resume_token="text?", from_sample="whole?",
                digital_source_type="text?",
            ),
        ),
        message("audio.words", **_about(words="list")),
        message("audio.transcript", **_about(start="whole", text="text", at_s="number")),
        message("audio.chunk", **_about(audio="text")),
        message(
            "audio.done",
            **_about(
                outcome="text", samples="whole", duration_s="number", played_s="number",
                ttfp_s="number|null?", stages="any?", underruns="whole?", underrun_s="number?",
                min_slack_s="number|null?", busy="switch?", words="whole?", reached="text?",
                ignored="list",
            ),
        ),
        message("error", **_about(error="object")),
    ],
    binary=True,
)  # fmt: skip

_ELEVEN_TEXT: Final[dict[str, str]] = {
    "voice_settings": "object?", "flush": "switch?", "xi_api_key": "text?",
    "authorization": "text?", "generation_config": "object?", "try_trigger_generation": "switch?",
}  # fmt: skip
_ELEVEN_SOUND: Final = {
    "audio": "text|null", "isFinal": "switch|null", "alignment": "object|null",
    "normalizedAlignment": "object|null",
}  # fmt: skip
_FAILURE: Final = {"error": "text", "message": "text", "code": "whole"}
STREAM_INPUT: Final = Channel(
    "ElevenLabsStreamInput",
    "One text; an empty one ends the input, and the answer ends the connection.",
    [message(text="text", **_ELEVEN_TEXT)],
    [message(**_ELEVEN_SOUND), message(**_FAILURE)],
)
MULTI_STREAM_INPUT: Final = Channel(
    "ElevenLabsMultiStreamInput",
    "Contexts that do not wait for each other.",
    [
        message(
            text="text?", context_id="text|null?", contextId="text?", close_context="switch?",
            close_socket="switch?", **_ELEVEN_TEXT,
        )
    ],
    [
        message(contextId="text", **_ELEVEN_SOUND),
        message(isFinal="switch", contextId="text"),
        message(**_FAILURE, contextId="text?"),
    ],
)  # fmt: skip
_DIALOGUE_SOUND: Final = {
    "audio": "text|null", "is_final": "switch|null", "alignment": "object|null",
    "normalized_alignment": "object|null",
}  # fmt: skip
DIALOGUE_INPUT: Final = Channel(
    "ElevenLabsDialogueInput",
    "Contexts whose text comes as inputs of a dialogue.",
    [
        message(
            inputs="list?", voices="list?", context_id="text?", close_context="switch?",
            keep_alive="switch?", close_socket="switch?", flush="switch?", voice_settings="object?",
        )
    ],
    [
        message(context_id="text", **_DIALOGUE_SOUND),
        message(is_final="switch", context_id="text"),
        message(**_FAILURE, context_id="text?"),
    ],
)  # fmt: skip
DIALOGUE_STREAM: Final = Channel(
    "ElevenLabsDialogueStream",
    "One dialogue, whose lines come with their voices.",
    [
        message(
            inputs="list?", voices="list?", voice_settings="object?", flush="switch?",
            close_socket="switch?",
        )
    ],
    [
        message(**_DIALOGUE_SOUND),
        message(is_final_audio_for_turn="switch"),
        message(is_final="switch"),
        message(**_FAILURE),
    ],
)  # fmt: skip

_CARTESIA: Final = {"context_id": "any", "done": "switch", "status_code": "whole"}
CARTESIA: Final = Channel(
    "Cartesia",
    "Messages with the same `context_id` are one text.",
    [Speak],
    [
        message("chunk", **_CARTESIA, data="text", step_time="number"),
        message("timestamps", **_CARTESIA, word_timestamps="object"),
        message("flush_done", **_CARTESIA, flush_done="switch", flush_id="whole"),
        message("done", **_CARTESIA),
        message("error", **_CARTESIA, title="text", message="text", error_code="text",
                request_id="text"),
    ],
)  # fmt: skip

_SPEAK: Final = message("Speak", text="text")
_BARE: Final = tuple(message(kind) for kind in ("Flush", "Clear", "Close"))
_DEEPGRAM_MODEL: Final = {"model_name": "text", "model_version": "text", "model_uuid": "text"}
DEEPGRAM: Final = Channel(
    "Deepgram",
    "Turns that a flush ends. `Flushed` follows the last sound of everything before its flush.",
    [_SPEAK, *_BARE],
    [
        message("Metadata", request_id="text", **_DEEPGRAM_MODEL),
        message("Flushed", sequence_id="whole"),
        message("Cleared", sequence_id="whole"),
        message("Error", code="text", description="text"),
    ],
    binary=True,
)
FLUX: Final = Channel(
    "DeepgramFlux",
    "The same, with turns that can be interrupted.",
    [
        _SPEAK,
        message("Flush"),
        message("Close"),
        message("Interrupt", playback_offset="object?"),
        message("Configure", speed="any?"),
    ],
    [
        message("Connected", request_id="text", model_name="text?"),
        message("SpeechStarted", speech_id="text"),
        message("SpeechMetadata", speech_id="text", audio_duration_ms="whole",
                input_character_count="whole", billable_character_count="whole",
                controls_applied="object"),
        message("Flushed", speech_id="text"),
        message("SpeechInterrupted", audio_played_ms="whole", text_spoken="text",
                text_remaining="text", metadata="object"),
        message("SessionMetadata", total_audio_duration_ms="whole",
                total_input_character_count="whole", total_billable_character_count="whole"),
        message("ConfigureSuccess", applied="object"),
        message("ConfigureFailure", code="text", field="text", value="any", description="text"),
        message("Warning", code="text", description="text"),
        message("Error", code="text", description="text"),
    ],
    binary=True,
)  # fmt: skip

_IDS: Final = {
    "response_id": "text", "item_id": "text", "output_index": "whole", "content_index": "whole",
}  # fmt: skip
_BUFFER: Final = ("speech_started", "speech_stopped", "timeout_triggered")
_OUTPUT: Final = ("output_text", "output_audio_transcript")
REALTIME: Final = Channel(
    "Realtime",
    "OpenAI's Realtime: a session of items and responses.",
    [
        message("session.update", session="object", event_id="text?"),
        message("input_audio_buffer.append", audio="text", event_id="text?"),
        message("input_audio_buffer.commit", event_id="text?"),
        message("input_audio_buffer.clear", event_id="text?"),
        message("output_audio_buffer.clear", event_id="text?"),
        message("response.create", response="object?", event_id="text?"),
        message("response.cancel", response_id="text?", event_id="text?"),
        message("conversation.item.create", item="object", previous_item_id="text|null?",
                event_id="text?"),
        message("conversation.item.retrieve", item_id="text", event_id="text?"),
        message("conversation.item.delete", item_id="text", event_id="text?"),
        message("conversation.item.truncate", item_id="text", content_index="whole",
                audio_end_ms="whole", event_id="text?"),
    ],
    [
        message("session.created", event_id="text", session="object"),
        message("session.updated", event_id="text", session="object"),
        message("error", event_id="text", error="object"),
        message("input_audio_buffer.cleared", event_id="text"),
        message("input_audio_buffer.committed", event_id="text", item_id="text",
                previous_item_id="text|null"),
        *(message(f"input_audio_buffer.{kind}", event_id="text", item_id="text?")
          for kind in _BUFFER),
        *(message(f"conversation.item.{kind}", event_id="text", item="object",
                  previous_item_id="text|null?")
          for kind in ("added", "created", "done")),
        message("conversation.item.retrieved", event_id="text", item="object"),
        message("conversation.item.deleted", event_id="text", item_id="text"),
        message("conversation.item.truncated", event_id="text", item_id="text",
                content_index="whole", audio_end_ms="whole"),
        message("response.created", event_id="text", response="object"),
        message("response.output_item.added", event_id="text", response_id="text",
                output_index="whole", item="object"),
        message("response.output_item.done", event_id="text", response_id="text",
                output_index="whole", item="object"),
        message("response.content_part.added", event_id="text", **_IDS, part="object"),
        message("response.content_part.done", event_id="text", **_IDS, part="object"),
        message("response.output_audio.delta", event_id="text", **_IDS, delta="text"),
        message("response.output_audio.done", event_id="text", **_IDS),
        *(message(f"response.{kind}.delta", event_id="text", **_IDS, delta="text")
          for kind in _OUTPUT),
        message("response.output_text.done", event_id="text", **_IDS, text="text"),
        message("response.output_audio_transcript.done", event_id="text", **_IDS,
                transcript="text"),
        message("response.done", event_id="text", response="object"),
    ],
)  # fmt: skip

CHANNELS: Final[Mapping[str, Channel]] = MappingProxyType(
    {
        STREAM_PATH: NATIVE,
        "/v1/realtime": REALTIME,
        "/v1/text-to-speech/{voice_id}/stream-input": STREAM_INPUT,
        "/v1/text-to-speech/{voice_id}/multi-stream-input": MULTI_STREAM_INPUT,
        "/v1/text-to-dialogue/multi-stream-input": DIALOGUE_INPUT,
        "/v1/text-to-dialogue/stream-input": DIALOGUE_STREAM,
        "/tts/websocket": CARTESIA,
        "/v1/speak": DEEPGRAM,
        "/v2/speak": FLUX,
    }
)

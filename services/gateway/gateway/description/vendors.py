"""The routes in the shapes of ElevenLabs, Cartesia and Deepgram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.description import vendor_answers as v
from gateway.description.operation import (
    CHANGED,
    EVENTS,
    FILE,
    KEYED,
    LISTED,
    SENT,
    SENT_JSON,
    SPOKEN,
    STORED,
    TEXT,
    WAIT_S,
    Content,
    Operation,
    Schema,
    choice,
    codes,
    count,
    form,
    json,
    sound,
)
from gateway.protocols.cartesia.fields import Speak
from gateway.protocols.cartesia.http import TokenBody
from gateway.protocols.deepgram.http import Query, SpeakBody
from gateway.protocols.elevenlabs.dialogue import DialogueBody
from gateway.protocols.elevenlabs.http import TextBody
from gateway.requests import DEFAULT

_TIDE: Final = "The tide is coming in."
_SPEAKING: Final = codes(CHANGED, SENT_JSON, SPOKEN)
_LISTING: Final = codes(KEYED, LISTED, STORED)
_MAKING: Final = codes(CHANGED, SENT, LISTED, ("unsupported", "quota_exceeded", "voice_exists"))
_DELETING: Final = codes(CHANGED, ("unknown_voice", "not_found"))
_SOUNDS: Final = sound(
    "audio/mpeg", "audio/pcm", "audio/wav", "audio/basic", "audio/x-alaw-basic", "audio/ogg"
)
_TEXT_FILE: Final = {"name": TEXT, "consent": TEXT, "ref_text": TEXT}
_CONSENT: Final[Mapping[str, Schema]] = {"x-consent": TEXT}
_OUTPUT: Final[Mapping[str, Schema]] = {
    "output_format": {
        **TEXT,
        "pattern": r"^(mp3|pcm|wav|ulaw|alaw|opus)_(8|16|24|48)000(_(32|64|96|128))?$"
        r"|^mp3_(22050|44100)(_(32|64|96|128))?$",
        "examples": ["mp3_44100_128", "pcm_24000", "ulaw_8000"],
    },
    "max_wait_s": WAIT_S,
}
_ELEVEN_VOICE: Final = {
    "voice_id": "vesper", "name": "Vesper", "category": "premade",
    "labels": {"language": "en-US", "gender": "female"}, "description": "Vesper",
    "settings": {"stability": 0.5, "similarity_boost": 0.75, "style": 0.0,
                 "use_speaker_boost": True, "speed": 1.0},
    "verified_languages": [{"language": "en", "locale": "en-US", "model_id": "default"}],
    "is_owner": False, "created_at_unix": 0,
}  # fmt: skip
_TIMES: Final = {
    "characters": ["H", "i"], "character_start_times_seconds": [0.0, 0.1],
    "character_end_times_seconds": [0.1, 0.2],
}  # fmt: skip
_TIMED: Final = {"audio_base64": "UklGRg==", "alignment": _TIMES, "normalized_alignment": _TIMES}
_CARTESIA_VOICE: Final = {
    "id": "vesper", "name": "Vesper", "description": "Vesper", "tagline": "", "language": "en",
    "locales": [{"locale": "en-US", "is_native": True}], "gender": "feminine", "access": "public",
    "visibility": "all", "is_public": True, "is_owner": False,
    "created_at": "1970-01-01T00:00:00+00:00",
}  # fmt: skip
_SETTINGS_PATHS: Final = (
    ("/v1/voices/settings/default", "get_default_settings"),
    ("/v1/voices/{voice_id}/settings", "get_voice_settings"),
)


def _eleven(name: str, answer: Any, body: Content) -> Operation:
    return Operation(f"elevenlabs_{name}", {200: answer}, _SPEAKING, [body], _OUTPUT)


def _spoken() -> dict[str, Operation]:
    """Of one text, and of several with their voices."""
    found: dict[str, Operation] = {}
    text = json(TextBody, {"text": _TIDE})
    dialogue = json(DialogueBody, {"inputs": [{"text": _TIDE, "voice_id": "vesper"}]})
    for path, name, body, timed in (
        ("/v1/text-to-speech/{voice_id}", "text_to_speech", text, v.TimedSound),
        ("/v1/text-to-dialogue", "text_to_dialogue", dialogue, v.TimedDialogue),
    ):
        lines = Content("application/json", timed, lines=True)
        told = json(timed, _TIMED if timed is v.TimedSound else {**_TIMED, "voice_segments": []})
        found |= {
            f"POST {path}": _eleven(name, _SOUNDS, body),
            f"POST {path}/stream": _eleven(f"{name}_stream", _SOUNDS, body),
            f"POST {path}/with-timestamps": _eleven(f"{name}_timed", [told], body),
            f"POST {path}/stream/with-timestamps": _eleven(f"{name}_stream_timed", [lines], body),
        }
    return found


ELEVENLABS: Final[Mapping[str, Operation]] = {
    **_spoken(),
    "GET /v1/voices": Operation(
        "elevenlabs_list_voices",
        {200: [json(v.ElevenLabsVoices, {"voices": [_ELEVEN_VOICE]})]},
        _LISTING,
        keyed=False,
    ),
    "GET /v2/voices": Operation(
        "elevenlabs_list_voices_page",
        {200: [json(v.ElevenLabsVoicesPage)]},
        _LISTING,
        query={
            "page_size": count(100, 10),
            "next_page_token": TEXT,
            "search": TEXT,
            "language": TEXT,
            "gender": choice("female", "male", "neutral"),
            "voice_ids": {"type": "array", "items": TEXT},
        },
        keyed=False,
    ),
    **{
        f"GET {path}": Operation(
            f"elevenlabs_{name}", {200: [json(v.ElevenLabsSettings)]}, codes(KEYED), keyed=False
        )
        for path, name in _SETTINGS_PATHS
    },
    "GET /v1/voices/{voice_id}": Operation(
        "elevenlabs_get_voice",
        {200: [json(v.ElevenLabsVoice, _ELEVEN_VOICE)]},
        codes(_LISTING, ("not_found",)),
        keyed=False,
    ),
    "POST /v1/voices/add": Operation(
        "elevenlabs_add_voice",
        {200: [json(v.ElevenLabsMade, {"voice_id": "ada", "requires_verification": False})]},
        _MAKING,
        [form({**_TEXT_FILE, "files": FILE}, "name", "files")],
        headers=_CONSENT,
    ),
    "DELETE /v1/voices/{voice_id}": Operation(
        "elevenlabs_delete_voice",
        {200: [json(v.ElevenLabsStatus, {"status": "ok"})]},
        _DELETING,
    ),
    "GET /v1/user": Operation(
        "elevenlabs_get_user", {200: [json(v.ElevenLabsUser)]}, codes(KEYED, STORED)
    ),
    "GET /v1/user/subscription": Operation(
        "elevenlabs_get_subscription",
        {200: [json(v.ElevenLabsSubscription)]},
        codes(KEYED, STORED),
    ),
}

_CARTESIA_BODY: Final = json(Speak, {"transcript": _TIDE, "voice": {"id": "vesper"}})
CARTESIA: Final[Mapping[str, Operation]] = {
    "POST /tts/bytes": Operation(
        "cartesia_speak", {200: _SOUNDS}, _SPEAKING, [_CARTESIA_BODY], {"max_wait_s": WAIT_S}
    ),
    "POST /tts/sse": Operation(
        "cartesia_stream",
        {200: [EVENTS]},
        _SPEAKING,
        [_CARTESIA_BODY],
        {"max_wait_s": WAIT_S},
    ),
    "GET /voices": Operation(
        "cartesia_list_voices",
        {200: [json(v.CartesiaVoicesPage)]},
        _LISTING,
        query={
            "limit": count(100, 10),
            "starting_after": TEXT,
            "ending_before": TEXT,
            "q": TEXT,
            "language": TEXT,
            "is_owner": choice("true", "false"),
            "gender": choice("feminine", "masculine", "gender_neutral"),
        },
        keyed=False,
    ),
    "GET /voices/{voice_id}": Operation(
        "cartesia_get_voice",
        {200: [json(v.CartesiaVoice, _CARTESIA_VOICE)]},
        codes(_LISTING, ("not_found",)),
        keyed=False,
    ),
    **{
        f"POST {path}": Operation(
            name,
            {200: [json(v.CartesiaVoice, _CARTESIA_VOICE)]},
            codes(_MAKING, ("not_found",)),
            [form({**_TEXT_FILE, "clip": FILE}, "name", "clip")],
            headers=_CONSENT,
        )
        for path, name in (
            ("/voices", "cartesia_create_voice"),
            ("/voices/clone", "cartesia_clone"),
        )
    },
    "DELETE /voices/{voice_id}": Operation("cartesia_delete_voice", {204: []}, _DELETING),
    "POST /access-token": Operation(
        "cartesia_create_token",
        {200: [json(v.CartesiaToken, {"token": "ek_Rk1k"})]},
        codes(CHANGED, SENT_JSON),
        [json(TokenBody, {"expires_in": 60})],
    ),
}

_DEEPGRAM_QUERY: Final[Mapping[str, Schema]] = {
    **Query.model_json_schema()["properties"],
    "model": {**TEXT, "default": DEFAULT},
    "max_wait_s": WAIT_S,
}
_DEEPGRAM_SOUND: Final = (*_SOUNDS, *sound("audio/flac", "audio/aac"))
DEEPGRAM: Final[Mapping[str, Operation]] = {
    f"POST /{version}/speak": Operation(
        f"deepgram_speak_{version}",
        {200: _DEEPGRAM_SOUND},
        _SPEAKING,
        [json(SpeakBody, {"text": _TIDE})],
        _DEEPGRAM_QUERY,
    )
    for version in ("v1", "v2")
}

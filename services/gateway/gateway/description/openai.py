"""The routes in OpenAI's shape and our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.description import answers as a
from gateway.description import vendor_answers as v
from gateway.description.operation import (
    CHANGED,
    DAY,
    EVENTS,
    FILE,
    KEYED,
    LISTED,
    SENT,
    SENT_JSON,
    SPOKEN,
    STORED,
    SWITCH,
    TEXT,
    Content,
    Operation,
    choice,
    codes,
    count,
    form,
    json,
    sound,
)
from gateway.protocols.openai.jobs import JobBody
from gateway.protocols.openai.kept import VoiceBody
from gateway.protocols.openai.kokoro import PhonesBody
from gateway.protocols.openai.speech import FORMATS, SpeechBody
from gateway.protocols.realtime.record import SecretBody

_SAID: Final = {"input": "The tide is coming in.", "voice": "vesper"}
_FORMATS: Final = tuple(audio.media_type for audio in FORMATS.values())
_JOB_SOUND: Final = sound(*_FORMATS, "audio/mp4")
_MODEL: Final = {
    "id": "vesper", "object": "model", "created": 0, "owned_by": "antiphon", "family": "vesper",
    "sample_rate": 24_000, "accepts": ["speed"], "languages": ["en-US"], "extra_params": [],
    "loaded": True,
}  # fmt: skip
_VOICE: Final = {
    "id": "vesper", "name": "Vesper", "language": "en-US", "languages": ["en-US"],
    "gender": "female",
}  # fmt: skip
_UPLOADED: Final = {
    "name": "ada", "consent": "I, Ada, agree.", "ref_text": "", "duration_s": 6.2,
    "created_at": 1_795_000_000,
}  # fmt: skip
_ADAPTER: Final = {
    "name": "calm", "digest": "5e8f0c", "rank": 16, "bytes": 3_145_728, "created_at": 1_795_000_000,
}  # fmt: skip
_LEXICON: Final = {
    "name": "ships", "language": "en", "entry_count": 1, "created_at": 1_795_000_000,
}  # fmt: skip
_LEXEME: Final = {"grapheme": "boatswain", "alias": "bosun"}
_JOB: Final = {
    "id": "0gBQmZ4Yx0mYJp0nO5xq1A", "object": "audio.job", "status": "running", "title": "The sea",
    "model": "vesper", "response_format": "mp3", "sample_rate": 24_000, "seed": 1701,
    "created_at": 1_795_000_000, "started_at": 1_795_000_001, "ended_at": None, "expires_at": None,
    "progress": {"characters": 600_000, "spoken": 150_000, "share": 0.25, "left_s": 1800.0,
                 "expected_audio_seconds": 36_000.0},
    "audio_seconds": 9000.0, "bytes": None, "audio_url": None, "runaways": 0, "warning": None,
    "error": None,
}  # fmt: skip
_USED: Final = {"requests": 2, "characters": 154, "audio_seconds": 11.04}
_USAGE: Final = {
    "object": "list", "start_date": "2026-01-30", "end_date": "2026-01-31",
    "data": [{"date": "2026-01-31", "model": "vesper", **_USED}], "total": _USED,
}  # fmt: skip
_BLEND: Final = {
    "oneOf": [TEXT, {"type": "array", "items": TEXT}],
    "description": "Voices in equal shares, or a blend by its name.",
}
_PLS: Final = {"type": "string", "description": "PLS 1.0 (W3C, 2008)."}
_DONE: Final = {200: [json(a.Done, {"success": True})]}
_JOBS: Final = "/v1/audio/jobs"

OPERATIONS: Final[Mapping[str, Operation]] = {
    "POST /v1/audio/speech": Operation(
        "create_speech",
        {200: [*sound(*_FORMATS), EVENTS]},
        codes(CHANGED, SENT_JSON, SPOKEN),
        [json(SpeechBody, _SAID)],
    ),
    "GET /v1/audio/speech/{request_id}": Operation(
        "resume_speech",
        {200: sound(*_FORMATS)},
        codes(KEYED, SPOKEN, ("not_found", "log_gone")),
        headers={"x-resume-token": TEXT},
    ),
    "POST /dev/captioned_speech": Operation(
        "create_captioned_speech",
        {200: [Content("application/json", a.Captioned, lines=True)]},
        codes(CHANGED, SENT_JSON, SPOKEN),
        [json(SpeechBody, _SAID)],
    ),
    "POST /dev/phonemize": Operation(
        "phonemize",
        {200: [json(a.Phonemes, {"phonemes": "h\u0259l\u02c8o\u028a", "tokens": [50, 83, 54]})]},
        codes(CHANGED, SENT_JSON, SPOKEN),
        [json(PhonesBody, {"text": "Hello.", "language": "a"})],
    ),
    "POST /v1/audio/voices/combine": Operation(
        "combine_voices",
        {200: sound("application/octet-stream")},
        codes(CHANGED, SENT_JSON, SPOKEN),
        [json(_BLEND, "af_bella+af_sky")],
    ),
    "POST /v1/realtime/client_secrets": Operation(
        "create_client_secret",
        {200: [json(a.ClientSecret)]},
        codes(CHANGED, SENT_JSON, LISTED, ("unsupported", "unknown_model")),
        [json(SecretBody, {"expires_after": {"seconds": 600}})],
    ),
    "GET /v1/models": Operation(
        "list_models",
        {
            200: [
                json(
                    a.ModelList | list[v.ElevenLabsModel] | v.DeepgramModels,
                    {"object": "list", "data": [_MODEL]},
                )
            ]
        },
        codes(KEYED, LISTED, STORED),
        keyed=False,
    ),
    "GET /v1/models/{name}": Operation(
        "get_model",
        {200: [json(a.ModelWithVoices | v.DeepgramModel, {**_MODEL, "voices": [_VOICE]})]},
        codes(KEYED, LISTED, STORED, ("unknown_model", "not_found")),
        keyed=False,
    ),
    "GET /v1/audio/models": Operation(
        "list_audio_models",
        {200: [json(a.AudioModels, {"models": [{"id": "vesper"}]})]},
        codes(KEYED, LISTED),
        keyed=False,
    ),
    "GET /v1/audio/voices": Operation(
        "list_voices",
        {200: [json(a.VoiceList, {"voices": [_VOICE], "uploaded_voices": []})]},
        codes(KEYED, LISTED, STORED, ("unknown_model",)),
        query={
            "language": TEXT,
            "gender": choice("female", "male", "neutral"),
            "limit": count(1000, 100),
            "after": TEXT,
        },
        keyed=False,
    ),
    "GET /health": Operation(
        "get_health", {200: [Content("text/plain", TEXT, "OK")]}, codes(KEYED), keyed=False
    ),
    "GET /v1/usage": Operation(
        "get_usage",
        {200: [json(a.Usage, _USAGE)]},
        codes(KEYED, STORED),
        query={"start_date": DAY, "end_date": DAY},
    ),
    "POST /v1/audio/voices": Operation(
        "create_voice",
        {200: [json(a.MadeVoice, {"success": True, "voice": _UPLOADED})]},
        codes(
            *(CHANGED, SENT_JSON, LISTED),
            ("voice_exists", "quota_exceeded", "unsupported", "unknown_adapter"),
        ),
        [
            json(VoiceBody),
            form(
                {
                    "name": TEXT,
                    "audio_sample": FILE,
                    "consent": TEXT,
                    "ref_text": TEXT,
                    "adapter": TEXT,
                },
                "name",
                "audio_sample",
                "consent",
            ),
        ],
    ),
    "DELETE /v1/audio/voices/{name}": Operation(
        "delete_voice", _DONE, codes(CHANGED, ("unknown_voice", "not_found"))
    ),
    "POST /v1/audio/adapters": Operation(
        "create_adapter",
        {200: [json(a.MadeAdapter, {"success": True, "adapter": _ADAPTER})]},
        codes(CHANGED, SENT, ("adapter_exists", "quota_exceeded", "invalid_adapter", "store_full")),
        [
            form(
                {"name": TEXT, "adapter_config": FILE, "adapter_model": FILE},
                "name",
                "adapter_config",
                "adapter_model",
            )
        ],
    ),
    "GET /v1/audio/adapters": Operation(
        "list_adapters",
        {200: [json(a.AdapterList, {"adapters": [_ADAPTER]})]},
        codes(KEYED, STORED),
    ),
    "DELETE /v1/audio/adapters/{name}": Operation(
        "delete_adapter", _DONE, codes(CHANGED, ("unknown_adapter",))
    ),
    "POST /v1/audio/lexicons": Operation(
        "create_lexicon",
        {200: [json(a.LexiconCard, _LEXICON)]},
        codes(CHANGED, SENT, ("invalid_lexicon", "lexicon_exists", "quota_exceeded")),
        [
            json(a.NewLexicon, {"name": "ships", "entries": [_LEXEME]}),
            Content("application/pls+xml", _PLS),
        ],
        query={"name": {**TEXT, "maxLength": 64}, "replace": SWITCH},
    ),
    "GET /v1/audio/lexicons": Operation(
        "list_lexicons",
        {200: [json(a.LexiconList, {"lexicons": [_LEXICON]})]},
        codes(KEYED, STORED),
    ),
    "GET /v1/audio/lexicons/{name}": Operation(
        "get_lexicon",
        {200: [json(a.LexiconWithEntries, {**_LEXICON, "entries": [_LEXEME]})]},
        codes(KEYED, STORED, ("unknown_lexicon",)),
    ),
    "DELETE /v1/audio/lexicons/{name}": Operation(
        "delete_lexicon", _DONE, codes(CHANGED, ("unknown_lexicon",))
    ),
    f"POST {_JOBS}": Operation(
        "create_job",
        {202: [json(a.JobCard, {**_JOB, "status": "queued"})]},
        codes(CHANGED, SENT_JSON, SPOKEN, ("quota_exceeded",)),
        [
            json(JobBody, {"input": "The tide is coming in.", "title": "The sea"}),
            form({"file": FILE}),
        ],
    ),
    f"GET {_JOBS}": Operation(
        "list_jobs",
        {200: [json(a.JobList, {"object": "list", "data": [_JOB]})]},
        codes(KEYED, STORED),
    ),
    f"GET {_JOBS}/{{job_id}}": Operation(
        "get_job", {200: [json(a.JobCard, _JOB)]}, codes(KEYED, STORED, ("not_found",))
    ),
    f"DELETE {_JOBS}/{{job_id}}": Operation("delete_job", _DONE, codes(CHANGED, ("not_found",))),
    f"GET {_JOBS}/{{job_id}}/audio": Operation(
        "get_job_audio",
        {200: _JOB_SOUND, 206: _JOB_SOUND, 416: []},
        codes(KEYED, STORED, ("not_found", "not_ready", "log_gone")),
        headers={"range": TEXT, "if-range": TEXT},
    ),
    f"HEAD {_JOBS}/{{job_id}}/audio": Operation(
        "head_job_audio",
        {200: [], 206: [], 416: []},
        codes(KEYED, STORED, ("not_found", "not_ready", "log_gone")),
        headers={"range": TEXT, "if-range": TEXT},
    ),
}

"""Answers in JSON, in OpenAI's shape and our own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """What a route says; it may say more in a later version."""

    model_config = ConfigDict(extra="allow")


class ExtraParam(Answer):
    """A setting of one family: `extra_params` takes it by its name."""

    name: str
    kind: Literal["number", "integer", "switch", "choice"]
    default: bool | int | float | str
    about: str = ""
    least: float | None = None
    most: float | None = None
    choices: list[str] = []


class ServedAdapter(Answer):
    """An adapter that the deployment brings along."""

    name: str
    digest: str
    rank: int


class ModelCard(Answer):
    """A model that live workers serve. accepts: fields of a request that it obeys."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    family: str
    sample_rate: int
    accepts: list[str]
    languages: list[str]
    extra_params: list[ExtraParam]
    loaded: bool
    memory_bytes: int | None = None
    row_width: int | None = None
    says: bool = False
    adapters: list[ServedAdapter] = []


class VoiceCard(Answer):
    """A voice. language: its native one; languages: all that it speaks (BCP 47)."""

    id: str
    name: str
    language: str
    languages: list[str]
    gender: Literal["female", "male", "neutral"] | None
    adapter: str | None = None


class ModelWithVoices(ModelCard):
    """One model, and its voices."""

    voices: list[VoiceCard]


class ModelList(Answer):
    """The default model first."""

    object: Literal["list"]
    data: list[ModelCard]


class ModelId(Answer):
    """A model's name."""

    id: str


class AudioModels(Answer):
    """The models that speak."""

    models: list[ModelId]


class UploadedVoice(Answer):
    """A voice that its owner made of a recording."""

    name: str
    consent: str
    ref_text: str
    duration_s: float
    created_at: int
    adapter: str | None = None


class VoiceList(Answer):
    """A model's voices, and the caller's own. has_more, last_id: of a page."""

    voices: list[VoiceCard]
    uploaded_voices: list[UploadedVoice]
    has_more: bool | None = None
    last_id: str | None = None


class MadeVoice(Answer):
    """The voice is there."""

    success: Literal[True]
    voice: UploadedVoice


class Done(Answer):
    """It is done."""

    success: Literal[True]


class StoredAdapterCard(Answer):
    """A low-rank adapter of the caller's."""

    name: str
    digest: str
    rank: int
    bytes: int
    created_at: int


class MadeAdapter(Answer):
    """The adapter is there."""

    success: Literal[True]
    adapter: StoredAdapterCard


class AdapterList(Answer):
    """The caller's adapters."""

    adapters: list[StoredAdapterCard]


class LexiconCard(Answer):
    """How a client wants words to be read."""

    name: str
    language: str
    entry_count: int
    created_at: int


class LexiconLine(Answer):
    """A spelling, and what is said for it: other words, or phones."""

    grapheme: str
    alias: str | None = None
    phoneme: str | None = None
    alphabet: Literal["ipa", "cmu-arpabet"] | None = None


class LexiconWithEntries(LexiconCard):
    """A lexicon, and what is in it."""

    entries: list[LexiconLine]


class LexiconList(Answer):
    """The caller's lexicons."""

    lexicons: list[LexiconCard]


class NewLexeme(BaseModel):
    """One entry: spellings, and an alias or phones for them."""

    model_config = ConfigDict(extra="forbid")

    grapheme: str = ""
    graphemes: list[str] = []
    alias: str = ""
    phoneme: str = ""
    alphabet: Literal["ipa", "x-sampa", "x-cmu-arpabet", "cmu-arpabet"] = "ipa"


class NewLexicon(BaseModel):
    """A lexicon in JSON. name: may stand in the query."""

    model_config = ConfigDict(extra="forbid")

    entries: Annotated[list[NewLexeme], Field(min_length=1)]
    name: str = ""
    language: Annotated[str, Field(max_length=64)] = ""


class JobProgress(Answer):
    """left_s and expected_audio_seconds go by the part that is spoken."""

    characters: int
    spoken: int
    share: float
    left_s: float | None
    expected_audio_seconds: float | None


class JobError(Answer):
    """Why a job failed, or what it waits for."""

    code: str
    message: str


class JobCard(Answer):
    """A text that is spoken behind listeners. Times are seconds since 1970."""

    id: str
    object: Literal["audio.job"]
    status: Literal["queued", "running", "done", "failed"]
    title: str
    model: str
    response_format: str
    sample_rate: int
    seed: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    expires_at: int | None
    progress: JobProgress
    audio_seconds: float
    bytes: int | None
    audio_url: str | None
    runaways: int
    warning: JobError | None
    error: JobError | None


class JobList(Answer):
    """The caller's jobs, the oldest first."""

    object: Literal["list"]
    data: list[JobCard]


class Used(Answer):
    """What was accepted, the text's characters, and sound that was handed out."""

    requests: int
    characters: int
    audio_seconds: float


class UsedInADay(Used):
    """The same, of one day (UTC) and model."""

    date: str
    model: str


class Usage(Answer):
    """From one day to another, both included."""

    object: Literal["list"]
    start_date: str
    end_date: str
    data: list[UsedInADay]
    total: Used


class Captioned(Answer):
    """Sound in base64, and the words in it."""

    audio: str
    audio_format: str
    timestamps: list[dict[str, Any]]


class Phonemes(Answer):
    """Symbols of a text as the model reads it, and their numbers."""

    phonemes: str
    tokens: list[int]


class ClientSecret(Answer):
    """A key for a browser, and what a session of it begins with."""

    value: str
    expires_at: int
    session: dict[str, Any]


class OpenAiError(Answer):
    """code: stable, for programs. message: what to change. param: where."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str


class OpenAiErrorBody(Answer):
    """OpenAI's error object."""

    error: OpenAiError

"""Answers in the shapes of ElevenLabs, Cartesia and Deepgram."""

from __future__ import annotations

from typing import Any, Literal

from gateway.description.answers import Answer


class ElevenLabsVoice(Answer):
    """A voice; of the settings, the speed is followed in requests."""

    voice_id: str
    name: str
    category: Literal["premade", "cloned"]
    labels: dict[str, str]
    description: str
    settings: dict[str, float | bool]
    verified_languages: list[dict[str, str]]
    is_owner: bool
    created_at_unix: int


class ElevenLabsVoices(Answer):
    """All voices."""

    voices: list[ElevenLabsVoice]


class ElevenLabsVoicesPage(Answer):
    """A page of voices; the token asks for the next one."""

    voices: list[ElevenLabsVoice]
    has_more: bool
    total_count: int
    next_page_token: str | None


class ElevenLabsSettings(Answer):
    """What a voice is spoken with where a request says nothing."""

    stability: float
    similarity_boost: float
    style: float
    use_speaker_boost: bool
    speed: float


class ElevenLabsMade(Answer):
    """The voice is there."""

    voice_id: str
    requires_verification: bool


class ElevenLabsStatus(Answer):
    """It is done."""

    status: Literal["ok"]


class ElevenLabsSubscription(Answer):
    """What the key may; nothing is sold here."""

    tier: str
    status: str
    character_count: int
    character_limit: int
    voice_slots_used: int
    voice_limit: int


class ElevenLabsUser(Answer):
    """Who the key belongs to."""

    user_id: str
    subscription: ElevenLabsSubscription
    is_new_user: bool
    is_onboarding_completed: bool
    can_use_delayed_payment_methods: bool
    created_at: int


class ElevenLabsModel(Answer):
    """One model."""

    model_id: str
    name: str
    can_do_text_to_speech: bool
    can_do_voice_conversion: bool
    languages: list[dict[str, str]]


class CharacterTimes(Answer):
    """Seconds from the beginning of the sound."""

    characters: list[str]
    character_start_times_seconds: list[float]
    character_end_times_seconds: list[float]


class TimedSound(Answer):
    """Sound in base64 and its characters, as written and as spoken."""

    audio_base64: str
    alignment: CharacterTimes | None
    normalized_alignment: CharacterTimes | None


class VoiceSegment(Answer):
    """Who speaks when in a dialogue."""

    voice_id: str
    start_time_seconds: float
    end_time_seconds: float
    character_start_index: int
    character_end_index: int
    dialogue_input_index: int


class TimedDialogue(TimedSound):
    """The same, of several voices."""

    voice_segments: list[VoiceSegment]


class ElevenLabsErrorDetail(Answer):
    """status: our code of the error."""

    status: str
    message: str
    request_id: str


class ElevenLabsErrorBody(Answer):
    """ElevenLabs' error object."""

    detail: ElevenLabsErrorDetail


class CartesiaVoice(Answer):
    """A voice."""

    id: str
    name: str
    description: str
    tagline: str
    language: str
    locales: list[dict[str, Any]]
    gender: Literal["feminine", "masculine", "gender_neutral"] | None
    access: Literal["private", "public"]
    visibility: Literal["owner", "all"]
    is_public: bool
    is_owner: bool
    created_at: str


class CartesiaVoicesPage(Answer):
    """A page of voices."""

    data: list[CartesiaVoice]
    has_more: bool
    next_page: str | None


class CartesiaToken(Answer):
    """A key for a browser, which speaks for a while."""

    token: str


class CartesiaErrorBody(Answer):
    """Cartesia's error object. error_code: our code of the error."""

    title: str
    message: str
    error_code: str
    request_id: str
    status_code: int


class DeepgramModel(Answer):
    """A voice: each is a model there."""

    name: str
    canonical_name: str
    architecture: str
    languages: list[str]
    version: str
    uuid: str
    metadata: dict[str, Any]


class DeepgramModels(Answer):
    """There is no speech recognition here."""

    stt: list[Any]
    tts: list[DeepgramModel]


class DeepgramErrorBody(Answer):
    """Deepgram's error object. err_code: our code of the error, in capitals."""

    err_code: str
    err_msg: str
    request_id: str

"""Fields that several protocols parse alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from gateway import errors
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.protocols.shared.bounded_json import Json
from gateway.requests.options import RequestOptions, TurnOptions
from ttscommon.wire import parameters
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import MAX_SPEAKERS, MAX_TEXT_CHARS, MAX_TURNS, Sampling

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]
SampleRate: TypeAlias = Annotated[int, Field(ge=8000, le=48_000)]
Speed: TypeAlias = Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
RequestId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Token: TypeAlias = Annotated[str, Field(max_length=128)]
Speaker: TypeAlias = Annotated[int, Field(ge=0, lt=MAX_SPEAKERS)]
Value: TypeAlias = bool | int | float | Annotated[str, Field(max_length=200)]
MaxWait: TypeAlias = Annotated[float, Field(ge=0.0, le=600.0)]
Position: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]
# What has none is refused with a code of its own, by its reader.
Spoken: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"\S"})]
_NULL: Final = {"type": "null"}


def _restored(value: str, info: ValidationInfo) -> str:
    return info.context.restore(value) if isinstance(info.context, Json) else value


# Was laid aside, if it came in something large.
Recording: TypeAlias = Annotated[str, AfterValidator(_restored)]


def _or_null(field: JsonSchemaValue) -> JsonSchemaValue:
    about: JsonSchemaValue = {
        name: field[name] for name in ("default", "description", "title") if name in field
    }
    kind = {name: value for name, value in field.items() if name not in about}
    return {"anyOf": [*kind.get("anyOf", [kind]), _NULL], **about}


class StrictMessage(BaseModel):
    """Antiphon's own messages: frozen, of exact types, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LenientMessage(BaseModel):
    """Messages in others' formats: unknown fields are ignored, and null means absent."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def parsed(cls, given: Json | Mapping[str, Any]) -> Self:
        """Raises BadRequest."""
        try:
            if isinstance(given, Json):
                return cls.model_validate_json(given.data, context=given)
            return cls.model_validate(given)
        except ValidationError as error:
            raise errors.from_validation(error) from error

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if value is not None}
        return values

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """What may be absent may be null."""
        found = handler(core_schema)
        schema = handler.resolve_ref_schema(found)
        for name, field in schema["properties"].items():
            if name not in schema.get("required", ()) and _NULL not in field.get("anyOf", ()):
                schema["properties"][name] = _or_null(field)
        return found


Temperature: TypeAlias = Annotated[float, Field(ge=0.0, le=2.0)]
TopK: TypeAlias = Annotated[int, Field(ge=0, le=4096)]
Share: TypeAlias = Annotated[float, Field(gt=0.0, le=1.0)]
_MOST_LEXICONS: Final = 4
_SAMPLING: Final = Sampling.__struct_fields__


class TurnFields(BaseModel):
    """Something that was said before the text. An unknown field is refused everywhere: a
    misspelt one would be a turn in another voice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    speaker: Speaker = 0
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] = ""
    audio: Recording | None = None
    voice: Name | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.audio is not None and self.voice is not None:
            raise ValueError("a turn has audio or a voice, not both")
        if not (self.text.strip() or self.audio or self.voice):
            raise ValueError("a turn needs text, audio or a voice")
        return self

    @property
    def options(self) -> TurnOptions:
        return TurnOptions(self.speaker, self.text, self.audio, self.voice)


class OptionFields(BaseModel):
    """What may be asked of a model besides a text, by vLLM-Omni's names."""

    language: Name | None = None
    instructions: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None = None
    task_type: Literal["CustomVoice", "VoiceDesign", "Base"] | None = None
    non_streaming_mode: bool | None = None
    ref_audio: Recording | None = None
    ref_text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None = None
    x_vector_only_mode: bool | None = None
    turns: Annotated[tuple[TurnFields, ...], Field(max_length=MAX_TURNS, strict=False)] = ()
    speaker: Speaker = 0
    extra_params: Annotated[dict[str, Value], Field(max_length=parameters.MOST)] = Field(
        default_factory=dict
    )
    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: Share | None = None
    repetition_penalty: Annotated[float, Field(gt=0.0, le=10.0)] | None = None
    max_new_tokens: Annotated[int, Field(ge=2, le=65536)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: Share | None = None
    lexicons: Annotated[tuple[Name, ...], Field(max_length=_MOST_LEXICONS)] | None = None
    adapter: Annotated[str, Field(max_length=64)] | None = None
    runaway_guard: bool | None = None
    speech: Recording | None = None

    @property
    def options(self) -> RequestOptions:
        """All of them, as a request carries them."""
        return RequestOptions(
            self.language,
            self.instructions,
            self.task_type,
            self.non_streaming_mode,
            self.ref_audio,
            self.ref_text,
            self.x_vector_only_mode,
            tuple(turn.options for turn in self.turns),
            self.speaker,
            self.extra_params,
            Sampling(**{name: getattr(self, name) for name in _SAMPLING}),
            self.lexicons or (),
            self.adapter,
            self.runaway_guard,
            self.speech,
        )


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text; raises BadRequest."""
    text = message.get("text", "")
    if not isinstance(text, str):
        raise BadRequest("'text': a string is expected", param="text")
    return text

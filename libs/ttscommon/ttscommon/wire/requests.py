"""A client's request for speech, as the job of both stages."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from ttscommon.wire.parameters import AdapterRef, Value
from ttscommon.wire.pieces import Mark, Span
from ttscommon.wire.structs import MAX_TEXT_CHARS, VERSION, Count, Identifier, Text

MAX_TURNS: Final = 16
MAX_SPEAKERS: Final = 16
# Of requests whose listeners do not hear them as they are made. Others have more.
OFFLINE: Final = 0

Temperature: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
TopK: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=4096)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
Marks: TypeAlias = Annotated[tuple[Mark, ...], msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Spans: TypeAlias = Annotated[tuple[Span, ...], msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Speaker: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SPEAKERS)]
ExtraParams: TypeAlias = Annotated[dict[str, Value], msgspec.Meta(max_length=16)]


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request may change about sampling; None is the model's own default.

    A temperature of 0 is greedy, a `top_k` of 0 keeps all ids. `subtalker_...`: of the codebooks
    behind the first, where a model predicts them by a network of their own.
    """

    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: Share | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)] | None = None
    max_new_tokens: Annotated[int, msgspec.Meta(ge=2, le=65536)] | None = None
    subtalker_temperature: Temperature | None = None
    subtalker_top_k: TopK | None = None
    subtalker_top_p: Share | None = None


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A voice to speak with: a recording in the object store, and what is said in it.

    audio: the recording's name there, of its owner and its SHA-256. kept: it is a stored voice's;
    otherwise it came with the request and goes soon after. x_vector_only: clone the timbre alone,
    without the transcript. derived: the key of what a talker computed of it.
    """

    audio: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}-[0-9a-f]{64}(-[0-9a-f]{16})?$")]
    text: Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)] = ""
    x_vector_only: bool = False
    kept: bool = False
    derived: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{0,200}$")] = ""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was said before a request's own text: by which speaker, what, and how.

    speaker: tells the speakers of a request apart, and says no more. text: the words. sound: the
    recording of them, whose own `text` is empty; None where the words are all that is known.
    """

    speaker: Speaker = 0
    text: Text = ""
    sound: Reference | None = None


Turns: TypeAlias = Annotated[tuple[Turn, ...], msgspec.Meta(max_length=MAX_TURNS)]


class SpeechRequest(msgspec.Struct, frozen=True, tag="speech_request", tag_field="t"):
    """The job of both stages. Text that arrives later follows as TextPiece unless `text_final`.

    turns: what was said before, the oldest first: voices to speak with, or a conversation that the
    text goes on with, or that a model which `says` answers; such a request may have no text.
    speaker: who of them speaks the text. extra_params: the family's own settings, see
    ttscommon.wire.parameters.

    instructions: how to speak, in words. task_type: CustomVoice, VoiceDesign or Base, for a client
    that wants to be sure. whole_text: begin when all text is known (`non_streaming_mode`); None is
    the model's own way. again: another job of this request may have been begun before this one.
    speed: what the model is to speak at by itself, within its `Model.speeds`. marks, spans: see
    ttscommon.wire.pieces.
    listener_timeout_s: how long it may go on without word of a listener; 0 where the listener may
    come back. Releases before 0.3 know it as lease_s, which is its name on the wire.
    runaway_guard: see ttsfamilies.base.talker.served; a talker that has none does without.
    rows: its text is rows of numbers, all of them in its text log; see ttscommon.wire.tensors.
    remake: its audio has its End, and is made again of its codes for a listener who lacks some.
    headroom_s: how much more sound its first chunk is to have than it would, so that those behind
    it come in time; see ttscommon.sound.playback.
    """

    request_id: Identifier
    model: Identifier
    voice: str
    text: Text
    text_final: bool = True
    marks: Marks = ()
    language: str = "en"
    seed: Count = 0
    speed: Annotated[float, msgspec.Meta(ge=0.25, le=4.0)] = 1.0
    sampling: Sampling = Sampling()
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 5
    tenant: str = ""
    created_unix_s: float = 0.0
    instructions: Text = ""
    task_type: str = ""
    whole_text: bool | None = None
    reference: Reference | None = None
    turns: Turns = ()
    speaker: Speaker = 0
    extra_params: ExtraParams = {}
    listener_timeout_s: Annotated[float, msgspec.Meta(ge=0.0)] = msgspec.field(
        default=0.0, name="lease_s"
    )
    again: bool = False
    remake: bool = False
    spans: Spans = ()
    adapter: AdapterRef | None = None
    runaway_guard: bool = True
    rows: bool = False
    headroom_s: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    v: int = VERSION

    @property
    def offline(self) -> bool:
        """Its listener does not hear it as it is made: it takes what others leave."""
        return self.priority == OFFLINE

    def without_text(self) -> SpeechRequest:
        """The same for a stage that reads no text."""
        return msgspec.structs.replace(self, text="", marks=(), spans=(), instructions="", turns=())

    def again_now(self) -> SpeechRequest:
        """The same for a job that is queued once more."""
        return msgspec.structs.replace(self, again=True)

    def for_remaking(self) -> SpeechRequest:
        """What a vocoder needs to make the audio again of codes that are there."""
        again = self.without_text()
        return msgspec.structs.replace(
            again, text_final=True, sampling=Sampling(), again=False, remake=True
        )

"""Everything that travels on the bus: msgpack maps with a version and a type tag.

A message is parsed once, at the edge, and typed from there on. Limits are checked before
anything is allocated from a payload's own figures.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ttscommon.wire.errors import MalformedMessage, UnsupportedVersion
from ttscommon.wire.pieces import Mark, Span, tail_of

VERSION: Final = 1
MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_TENSOR_DIMS: Final = 4
MAX_TEXT_CHARS: Final = 20_000
MAX_MARK_BYTES: Final = 4096

_ITEM_SIZE: Final = {"u1": 1, "i2": 2, "i4": 4, "f2": 2, "f4": 4}

Dtype: TypeAlias = Literal["u1", "i2", "i4", "f2", "f4"]
Identifier: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Temperature: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
TopK: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=4096)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
Marks: TypeAlias = Annotated[tuple[Mark, ...], msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Spans: TypeAlias = Annotated[tuple[Span, ...], msgspec.Meta(max_length=MAX_TEXT_CHARS)]


@lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str.lstrip("<|")


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A little-endian, row-major array. `data` is exactly prod(shape) items of `dtype`."""

    dtype: Dtype
    shape: tuple[Count, ...]
    data: bytes

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_TENSOR_DIMS:
            raise ValueError(f"tensor has {len(self.shape)} dimensions, at most {MAX_TENSOR_DIMS}")
        expected = math.prod(self.shape) * _ITEM_SIZE[self.dtype]
        if expected != len(self.data):
            got = len(self.data)
            raise ValueError(f"tensor of shape {self.shape} needs {expected} bytes, got {got}")

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Tensor:
        """Wrap an array; raises MalformedMessage for a dtype the wire does not carry."""
        dtype = _name(array.dtype)
        if dtype not in _ITEM_SIZE:
            raise MalformedMessage(f"dtype {array.dtype} does not travel on the bus")
        return cls(dtype, tuple(array.shape), np.ascontiguousarray(array).tobytes())  # type: ignore[arg-type]

    def array(self) -> npt.NDArray[Any]:
        """The array, read-only, without a copy."""
        return np.frombuffer(self.data, dtype=f"<{self.dtype}").reshape(self.shape)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows start..stop of the first dimension."""
        return Tensor.of(self.array()[start:stop])


class WordTime(msgspec.Struct, frozen=True, array_like=True):
    """A word as the user wrote it, in seconds from the start of the request's audio.

    spoken: the words that it was read as; empty where the model reads text itself. first, last: it
    is the characters first .. last of the text that the client sent; -1 where that is not known.
    """

    word: str
    start_s: float
    end_s: float
    spoken: str = ""
    first: int = -1
    last: int = -1


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """What a stage took of the wait for a request's first sound, in seconds of its own clock.

    `total_s` runs from the job's claim (talker) or the first codes (vocoder) to its first chunk;
    the engine had `engine_s` of it. What no stage spent was spent on the way.
    """

    stage: str
    total_s: float
    engine_s: float


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


class SpeechRequest(msgspec.Struct, frozen=True, tag="speech_request", tag_field="t"):
    """The job of both stages. Text that arrives later follows as TextPiece unless `text_final`.

    instructions: how to speak, in words. task_type: CustomVoice, VoiceDesign or Base, for a client
    that wants to be sure. whole_text: begin when all text is known (`non_streaming_mode`); None is
    the model's own way. again: another job of this request may have been begun before this one.
    speed: what the model is to speak at by itself, within its `Model.speeds`. marks, spans: see
    ttscommon.wire.pieces.
    lease_s: how long it may go on without word of a listener; 0 where the listener may come back.
    remake: its audio has its End, and is made again of its codes for a listener who lacks some.
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
    lease_s: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    again: bool = False
    remake: bool = False
    spans: Spans = ()
    v: int = VERSION

    def without_text(self) -> SpeechRequest:
        """The same for a stage that reads no text."""
        return msgspec.structs.replace(self, text="", marks=(), spans=(), instructions="")

    def again_now(self) -> SpeechRequest:
        """The same for a job that is queued once more."""
        return msgspec.structs.replace(self, again=True)

    def for_remaking(self) -> SpeechRequest:
        """What a vocoder needs to make the audio again of codes that are there."""
        again = self.without_text()
        return msgspec.structs.replace(
            again, text_final=True, sampling=Sampling(), again=False, remake=True
        )


class TextPiece(msgspec.Struct, frozen=True, tag="text_piece", tag_field="t"):
    """Characters start .. start + len(text) of the text that followed the SpeechRequest's own.

    marks: what is no plain text in it; spans: where it comes from; see ttscommon.wire.pieces.
    """

    request_id: Identifier
    start: Count
    text: Text
    marks: Marks = ()
    epoch: Count = 1
    spans: Spans = ()
    v: int = VERSION

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def tail(self, start: int) -> TextPiece:
        cut = start - self.start
        marks = tuple(Mark(m.at - cut, m.piece) for m in self.marks if m.at >= cut)
        spans = tail_of(self.spans, cut)
        text = self.text[cut:]
        return msgspec.structs.replace(self, start=start, text=text, marks=marks, spans=spans)


class CodecChunk(msgspec.Struct, frozen=True, tag="codec_chunk", tag_field="t"):
    """Frames start .. start + rows of the request. Every tensor has one row a frame.

    `tensors` holds "codes" ([frames, codebooks] i2) and whatever else the family needs to
    rebuild its state from the log; only the family that wrote them reads them. A request's first
    chunk says what was `spent` on it.
    """

    request_id: Identifier
    start: Count
    tensors: dict[str, Tensor]
    words: tuple[WordTime, ...] = ()
    spent: tuple[Spent, ...] = ()
    epoch: Count = 1
    v: int = VERSION

    def __post_init__(self) -> None:
        lengths = {len(tensor) for tensor in self.tensors.values()}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError("a codec chunk needs tensors of one common, non-zero length")

    @property
    def frames(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def end(self) -> int:
        return self.start + self.frames

    def tail(self, start: int) -> CodecChunk:
        skip = start - self.start
        tensors = {name: tensor.rows(skip, self.frames) for name, tensor in self.tensors.items()}
        return msgspec.structs.replace(self, start=start, tensors=tensors)


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a vocoder's successor begins with, so that it need not decode all codes again.

    frame: where decoding may begin, after the codec's left context. mark: what the codec knew
    there that codes alone do not tell; only the family that wrote it reads it. last_word: start
    and end in seconds of the last word time that was sent.
    """

    frame: Count = 0
    mark: Annotated[bytes, msgspec.Meta(max_length=MAX_MARK_BYTES)] = b""
    last_word: tuple[float, float] = (-1.0, -1.0)


class AudioChunk(msgspec.Struct, frozen=True, tag="audio_chunk", tag_field="t"):
    """Samples start .. start + len of the request: [samples] i2, mono. `spent` as in CodecChunk.

    `checkpoint` is for whoever goes on behind this chunk.
    """

    request_id: Identifier
    start: Count
    sample_rate: Annotated[int, msgspec.Meta(ge=8000, le=192_000)]
    pcm: Tensor
    words: tuple[WordTime, ...] = ()
    spent: tuple[Spent, ...] = ()
    checkpoint: Checkpoint = Checkpoint()
    epoch: Count = 1
    v: int = VERSION

    def __post_init__(self) -> None:
        if self.pcm.dtype != "i2" or len(self.pcm.shape) != 1 or not len(self.pcm):
            raise ValueError("an audio chunk carries a non-empty [samples] i2 tensor")

    @property
    def end(self) -> int:
        return self.start + len(self.pcm)

    def tail(self, start: int) -> AudioChunk:
        pcm = self.pcm.rows(start - self.start, len(self.pcm))
        return msgspec.structs.replace(self, start=start, pcm=pcm)

    def head(self, end: int) -> AudioChunk:
        pcm = self.pcm.rows(0, end - self.start)
        return msgspec.structs.replace(self, pcm=pcm)


class Position(msgspec.Struct, frozen=True, tag="position", tag_field="t"):
    """How far the audio of a request has come: what its log holds instead of samples.

    start: samples. `checkpoint` is for whoever goes on there. A reader answers with one as well
    when it is asked where it stands.
    """

    request_id: Identifier
    start: Count
    checkpoint: Checkpoint = Checkpoint()
    epoch: Count = 1
    v: int = VERSION

    @property
    def end(self) -> int:
        return self.start


class Takeover(msgspec.Struct, frozen=True, tag="takeover", tag_field="t"):
    """A new writer's first record in a log: from here on nobody with a lower epoch can commit.

    It repeats the `checkpoint` of the record before it, for the log's last record tells it all.
    """

    request_id: Identifier
    start: Count
    epoch: Count
    checkpoint: Checkpoint = Checkpoint()
    v: int = VERSION

    @property
    def end(self) -> int:
        return self.start


Outcome: TypeAlias = Literal["ok", "cancelled", "error"]


class End(msgspec.Struct, frozen=True, tag="end", tag_field="t"):
    """The one end of a log, at the position where it ends. `code` is a stable error code.

    request: in an audio log, what its audio can be made again of.
    """

    request_id: Identifier
    start: Count
    outcome: Outcome
    code: str = ""
    message: str = ""
    param: str | None = None
    request: SpeechRequest | None = None
    epoch: Count = 1
    v: int = VERSION

    @property
    def end(self) -> int:
        return self.start


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="t"):
    """The listener is gone or has heard enough."""

    request_id: Identifier
    reason: str = ""
    v: int = VERSION


class Playback(msgspec.Struct, frozen=True, tag="playback", tag_field="t"):
    """What the listener is doing: how far into the request's audio playback is now.

    Relative to the moment of arrival, so that no two machines' clocks are ever compared.
    """

    request_id: Identifier
    position_s: float
    v: int = VERSION


class Listening(msgspec.Struct, frozen=True, tag="listening", tag_field="t"):
    """The request is heard through the gateway of this worker id."""

    request_id: Identifier
    gateway: Identifier
    v: int = VERSION


Chunk: TypeAlias = CodecChunk | AudioChunk | TextPiece
LogRecord: TypeAlias = Chunk | Position | Takeover | End
Message: TypeAlias = (
    SpeechRequest
    | TextPiece
    | CodecChunk
    | AudioChunk
    | Position
    | Takeover
    | End
    | Cancel
    | Playback
    | Listening
)


class _Header(msgspec.Struct):
    v: int = 0


_encoder: Final = msgspec.msgpack.Encoder()
_header_decoder: Final = msgspec.msgpack.Decoder(_Header)
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Serialise; raises MalformedMessage if the result would not fit the bus."""
    data = _encoder.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message of {len(data)} bytes is over {MAX_MESSAGE_BYTES}")
    return data


def decode(data: bytes) -> Message:
    """Parse one message; raises MalformedMessage or UnsupportedVersion, never anything else."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message of {len(data)} bytes is over {MAX_MESSAGE_BYTES}")
    try:
        header = _header_decoder.decode(data)
        if header.v != VERSION:
            raise UnsupportedVersion(f"message version {header.v}, this service speaks {VERSION}")
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error


def decode_record(data: bytes) -> LogRecord:
    """`decode` for what a log may hold; raises MalformedMessage for anything else."""
    message = decode(data)
    if isinstance(message, Chunk | Position | Takeover | End):
        return message
    raise MalformedMessage(f"{type(message).__name__} does not belong in a log")

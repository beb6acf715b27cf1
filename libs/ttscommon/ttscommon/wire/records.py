"""Records of the logs: text, codes and audio from a position on, writers, and the one End."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from ttscommon.wire.pieces import Mark, tail_of
from ttscommon.wire.requests import Marks, Spans, SpeechRequest
from ttscommon.wire.structs import MAX_MARK_BYTES, VERSION, Count, Identifier, Text
from ttscommon.wire.tensors import FloatRows, Tensor


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


class SaidText(msgspec.Struct, frozen=True, array_like=True):
    """Text that a model says of its own, with the sound from `at_s` seconds of the audio on.

    start: characters that it said before. Pieces follow one another without a gap, and a successor
    gives them the same places, so that each is heard once.
    """

    start: Count
    text: str
    at_s: float

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """What a stage took of the wait for a request's first sound, in seconds of its own clock.

    `total_s` runs from the job's claim (talker) or the first codes (vocoder) to its first chunk;
    the engine had `engine_s` of it. What no stage spent was spent on the way.
    """

    stage: str
    total_s: float
    engine_s: float


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


class RowsPiece(msgspec.Struct, frozen=True, tag="rows_piece", tag_field="t"):
    """Rows start .. start + len(rows) of a request whose text is rows."""

    request_id: Identifier
    start: Count
    rows: FloatRows
    epoch: Count = 1
    v: int = VERSION

    @property
    def end(self) -> int:
        return self.start + len(self.rows)

    def tail(self, start: int) -> RowsPiece:
        rows = self.rows.part(start - self.start, len(self.rows))
        return msgspec.structs.replace(self, start=start, rows=rows)


class CodecChunk(msgspec.Struct, frozen=True, tag="codec_chunk", tag_field="t"):
    """Frames start .. start + rows of the request. Every tensor has one row a frame.

    `tensors` holds "codes" ([frames, codebooks] i2) and whatever else the family needs to
    rebuild its state from the log; only the family that wrote them reads them. A request's first
    chunk says what was `spent` on it. said: with its frames.
    """

    request_id: Identifier
    start: Count
    tensors: dict[str, Tensor]
    words: tuple[WordTime, ...] = ()
    spent: tuple[Spent, ...] = ()
    epoch: Count = 1
    said: tuple[SaidText, ...] = ()
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
    and end in seconds of the last word time that was sent. said: characters of SaidText that were.
    lead: so many samples of the request are silence in front, which listeners are not sent.
    """

    frame: Count = 0
    mark: Annotated[bytes, msgspec.Meta(max_length=MAX_MARK_BYTES)] = b""
    last_word: tuple[float, float] = (-1.0, -1.0)
    said: Count = 0
    lead: Count = 0


class AudioChunk(msgspec.Struct, frozen=True, tag="audio_chunk", tag_field="t"):
    """Samples start .. start + len of the request: [samples] i2, mono. `spent`, `said` as in
    CodecChunk.

    `checkpoint` is for a successor that goes on behind this chunk.
    """

    request_id: Identifier
    start: Count
    sample_rate: Annotated[int, msgspec.Meta(ge=8000, le=192_000)]
    pcm: Tensor
    words: tuple[WordTime, ...] = ()
    spent: tuple[Spent, ...] = ()
    checkpoint: Checkpoint = Checkpoint()
    epoch: Count = 1
    said: tuple[SaidText, ...] = ()
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

    start: samples. `checkpoint` is for a successor. A reader answers with one as well
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
    """A new writer's first record in a log: from here on no writer with a lower epoch can commit.

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


Chunk: TypeAlias = CodecChunk | AudioChunk | TextPiece | RowsPiece
LogRecord: TypeAlias = Chunk | Position | Takeover | End

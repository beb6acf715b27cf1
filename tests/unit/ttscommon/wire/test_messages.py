"""The wire: round trips, limits, versions, and whatever else may arrive on a subject."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.wire.errors import MalformedMessage, UnsupportedVersion
from ttscommon.wire.messages import (
    MAX_MESSAGE_BYTES,
    VERSION,
    AudioChunk,
    Cancel,
    CodecChunk,
    End,
    Message,
    Playback,
    Sampling,
    SpeechRequest,
    Takeover,
    Tensor,
    TextPiece,
    WordTime,
    decode,
    decode_record,
    encode,
)

CODES = np.arange(12, dtype=np.int16).reshape(3, 4)
EXAMPLES: list[Message] = [
    SpeechRequest("r", "vesper", "vesper", "hello", seed=3, sampling=Sampling(temperature=0.5)),
    TextPiece("r", 5, " there"),
    CodecChunk(
        "r",
        7,
        {"codes": Tensor.of(CODES), "advance": Tensor.of(np.ones(3, np.uint8))},
        (WordTime("hello", 0.1, 0.4),),
        epoch=2,
    ),
    AudioChunk("r", 640, 16_000, Tensor.of(np.arange(5, dtype=np.int16))),
    Takeover("r", 10, 2),
    End("r", 10, "error", "internal", "synthesis failed"),
    Cancel("r", "gone"),
    Playback("r", 1.5),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_every_message_survives_the_wire(message: Message) -> None:
    assert decode(encode(message)) == message


def raw(**changes: object) -> bytes:
    fields = msgspec.to_builtins(EXAMPLES[3])
    return msgspec.msgpack.encode({**fields, **changes})


@pytest.mark.parametrize("version", [0, VERSION + 1, 99])
def test_another_version_is_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=str(version)):
        decode(raw(v=version))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not msgpack at all",
        msgspec.msgpack.encode([1, 2]),
        raw(t="nobody"),
        raw(request_id="bad.id with spaces"),
        raw(start=-1),
        raw(sample_rate=1),
        raw(pcm={"dtype": "i2", "shape": [1 << 40], "data": b"xx"}),
        raw(pcm={"dtype": "i2", "shape": [2, 2], "data": b"12345678"}),
        raw(pcm={"dtype": "i2", "shape": [0], "data": b""}),
        raw(pcm={"dtype": "f8", "shape": [1], "data": b"12345678"}),
        raw(pcm={"dtype": "i2", "shape": [1] * 9, "data": b"12"}),
        b"\x91" * 5000 + b"\xc0",
        b"\x00" * (MAX_MESSAGE_BYTES + 1),
    ],
)
def test_what_is_no_message_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    try:
        decode(data)
    except MalformedMessage:
        return


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_flipped_byte_raises_nothing_else_either(message: Message, data: st.DataObject) -> None:
    encoded = bytearray(encode(message))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        decode(bytes(encoded))
    except MalformedMessage:
        return


def test_a_message_too_large_for_the_bus_is_refused_before_it_is_sent() -> None:
    samples = np.zeros(MAX_MESSAGE_BYTES, dtype=np.int16)
    with pytest.raises(MalformedMessage):
        encode(AudioChunk("r", 0, 16_000, Tensor.of(samples)))


def test_what_is_no_record_is_refused_by_a_log() -> None:
    with pytest.raises(MalformedMessage):
        decode_record(encode(Cancel("r")))


def test_a_tensor_is_read_without_a_copy_and_cannot_be_written() -> None:
    array = Tensor.of(CODES).array()
    np.testing.assert_array_equal(array, CODES)
    assert not array.flags.writeable


def test_a_dtype_the_wire_does_not_carry_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        Tensor.of(np.zeros(3, dtype=np.float64))


def test_a_chunks_tail_starts_where_it_says() -> None:
    chunk = EXAMPLES[2]
    assert isinstance(chunk, CodecChunk)
    tail = chunk.tail(8)
    assert (tail.start, tail.end) == (8, chunk.end)
    np.testing.assert_array_equal(tail.tensors["codes"].array(), CODES[1:])
    assert TextPiece("r", 5, "abc").tail(6) == TextPiece("r", 6, "bc")


def test_tensors_of_different_lengths_make_no_chunk() -> None:
    with pytest.raises(ValueError, match="length"):
        CodecChunk("r", 0, {"a": Tensor.of(CODES), "b": Tensor.of(CODES[:2])})

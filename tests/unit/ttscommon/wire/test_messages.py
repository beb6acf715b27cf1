"""The wire: limits, versions, and whatever else may arrive on a subject."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ttscommon.wire.test_bytes import MESSAGES
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest, MalformedMessage, UnsupportedVersion
from ttscommon.wire.messages import (
    MAX_MESSAGE_BYTES,
    VERSION,
    AudioChunk,
    Cancel,
    CodecChunk,
    Message,
    Tensor,
    TextPiece,
    decode,
    decode_record,
    encode,
)

CODES = np.arange(12, dtype=np.int16).reshape(3, 4)


def raw(**changes: object) -> bytes:
    fields = msgspec.to_builtins(MESSAGES["audio chunk"], builtin_types=(bytes,))
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
    assert decode(raw()) == MESSAGES["audio chunk"]
    with pytest.raises(MalformedMessage):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    try:
        decode(data)
    except MalformedMessage:
        return


@given(st.sampled_from(list(MESSAGES.values())), st.data())
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


def test_a_tensor_cannot_be_written_and_a_dtype_that_the_wire_does_not_carry_is_refused() -> None:
    assert not Tensor.of(CODES).array().flags.writeable
    with pytest.raises(MalformedMessage):
        Tensor.of(np.zeros(3, dtype=np.float64))


def test_a_chunks_tail_starts_where_it_says() -> None:
    chunk = CodecChunk("r", 7, {"codes": Tensor.of(CODES)})
    tail = chunk.tail(8)
    assert (tail.start, tail.end) == (8, chunk.end)
    np.testing.assert_array_equal(tail.tensors["codes"].array(), CODES[1:])
    assert TextPiece("r", 5, "abc").tail(6) == TextPiece("r", 6, "bc")


def test_tensors_of_different_lengths_make_no_chunk() -> None:
    with pytest.raises(ValueError, match="length"):
        CodecChunk("r", 0, {"a": Tensor.of(CODES), "b": Tensor.of(CODES[:2])})


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "ä", "a\n"])
def test_a_name_that_would_change_a_subjects_meaning_is_refused(name: str) -> None:
    for named in (subjects.token, subjects.CODES.subject):
        with pytest.raises(BadRequest):
            named(name)


def test_the_live_copy_of_a_log_is_never_captured_by_its_stream() -> None:
    for log in subjects.LOGS:
        assert log.live("r") == f"live.{log.subject('r')}"
        assert not log.live("r").startswith(f"{log.prefix}.")

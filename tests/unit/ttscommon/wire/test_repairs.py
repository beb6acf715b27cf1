"""What readers and writers say to each other when something is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import MAX_MESSAGE_BYTES, End, encode
from ttscommon.wire.repairs import CreditGrant, Nack, Offer, Resend, committed, reader_says

RECORD = End("r", 3, "ok")


@pytest.mark.parametrize(("said", "data"), [(Nack(7), b"7"), (CreditGrant(900), b"to 900")])
def test_a_word_of_a_reader_is_plain_digits(said: Nack | CreditGrant, data: bytes) -> None:
    assert said.encode() == data
    assert reader_says(data) == said


def test_a_writer_that_sends_all_that_there_is_says_its_epoch() -> None:
    data = Resend.of(5, [b"a", b"bc"]).encode()
    assert data.hex() == "920592c40161c4026263"
    assert Resend.decode(data) == Resend(5, [b"a", b"bc"])


def test_what_does_not_fit_a_message_is_left_out_and_no_epoch_is_said() -> None:
    half = b"x" * (MAX_MESSAGE_BYTES // 2)
    resent = Resend.of(5, [half, half])
    assert resent == Resend(0, [half])
    assert len(resent.encode()) <= MAX_MESSAGE_BYTES


def test_an_offer_is_the_records_alone() -> None:
    record = encode(RECORD)
    data = Offer.of([RECORD]).encode()
    assert data == b"\x91\xc4" + bytes([len(record)]) + record
    assert list(Offer.decode(data).parsed()) == [RECORD]


def test_what_is_well_formed_before_what_is_not_is_taken() -> None:
    records = iter(Offer([encode(RECORD), b"\xc1"]).parsed())
    assert next(records) == RECORD
    with pytest.raises(MalformedMessage):
        next(records)


@pytest.mark.parametrize(
    ("decode", "words"),
    [
        (Resend.decode, (b"", b"\x92\x05", b"\x90", b"\x91\xc4\x01a", b"\xc1")),
        (Offer.decode, (b"", b"\x80", b"\x91\x01", b"\xc1")),
        (reader_says, (b"", b"to ", b"to -1", b"to x", b"x", b"\xc1", b"to " + b"9" * 99)),
    ],
)
def test_what_is_no_such_word_is_refused(decode: Callable[[bytes], Any], words: Any) -> None:
    for data in words:
        with pytest.raises(MalformedMessage):
            decode(data)


@pytest.mark.parametrize(
    ("headers", "position"), [(None, None), ({}, None), ({"C": "x"}, None), ({"C": "12"}, 12)]
)
def test_a_live_record_may_say_how_far_the_log_is(
    headers: dict[str, str] | None, position: int | None
) -> None:
    assert committed(headers) == position

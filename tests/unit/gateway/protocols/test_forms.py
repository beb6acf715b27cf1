"""Forms are read as they come in, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.errors import MessageTooBig
from gateway.protocols.shared.forms import read_form
from ttscommon.wire.errors import BadRequest

TYPE = 'multipart/form-data; boundary="b o"'
FILES = {"sound": 1 << 20}


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'--b o\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


async def parts_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_fields_and_files_come_out_whichever_way_they_are_cut(size: int) -> None:
    sound = b"\r\n--b \x00--b o" * 50
    data = (
        part("name", "Zoë".encode()) + part("sound", sound, '; filename="a.wav"') + b"--b o--\r\n"
    )
    found = await read_form(TYPE, parts_of(data, size), FILES)
    assert found == {"name": "Zoë".encode(), "sound": sound}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\n" * 5000, BadRequest),
        (b"", BadRequest),
        (part("a", b"cut off"), BadRequest),
        (part("a", b"") * 17 + b"--b o--", BadRequest),
        (b"--b o\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b o--", BadRequest),
        (b"--b o\r\n" + b"a: b\r\n" * 9, BadRequest),
        (b"--b o\r\na: " + b"b" * 5000, BadRequest),
        (part("a", b"", "\r\nContent-Transfer-Encoding: base64") + b"--b o--", BadRequest),
        (part("a", b"x" * (257 << 10)), MessageTooBig),
        (part("sound", b"x" * ((1 << 20) + 1)), MessageTooBig),
    ],
)
async def test_what_is_no_form_or_too_much_is_the_clients_fault(
    data: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await read_form(TYPE, parts_of(data, 4096), FILES)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/mixed; boundary=x",
        f"multipart/form-data; boundary={'x' * 999}",
    ],
)
async def test_a_form_has_a_boundary(content_type: str) -> None:
    with pytest.raises(BadRequest):
        await read_form(content_type, parts_of(b"", 1), FILES)

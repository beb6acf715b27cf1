"""multipart/form-data (RFC 7578), parsed as it comes in, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import MessageTooBig
from gateway.protocols.shared.bounded_json import LoopBudget, slices
from ttscommon.wire.errors import BadRequest

_MOST_PREAMBLE: Final = 1024
_MOST_PARTS: Final = 16
_MOST_HEADERS: Final = 8
_HEADER_BYTES: Final = 4096
# Of a field that is no file.
_FIELD_BYTES: Final = 256 << 10
_PLAIN: Final = frozenset({b"", b"7bit", b"8bit", b"binary"})


class FormReader:
    """`feed` it the body, then `finish`; raises BadRequest, MessageTooBig."""

    def __init__(self, content_type: str, files: Mapping[str, int]) -> None:
        """files: the most bytes of those fields that may be large."""
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise BadRequest("the body is no form: it names no boundary")
        self.values: dict[str, bytes] = {}
        self._files = files
        self._parts = 0
        self._ended = False
        self._fed = 0
        self._name, self._value, self._most = "", bytearray(), 0
        self._headers: dict[bytes, bytes] = {}
        self._header, self._header_value = bytearray(), bytearray()
        try:
            self._parser = self._made(boundary)
        except FormParserError as error:
            raise BadRequest(f"the body is no form: {error}") from error

    def _made(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._on_header,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers,
                "on_part_data": self._on_data,
                "on_part_end": self._on_part,
                "on_end": self._on_end,
            },
            max_header_count=_MOST_HEADERS,
            max_header_size=_HEADER_BYTES,
        )

    def feed(self, data: bytes) -> None:
        """Take a slice."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BadRequest(f"the body is no form: {error}") from error
        self._fed += len(data)
        if not self._parts and self._fed > _MOST_PREAMBLE:
            raise BadRequest("the body is no form: it does not begin with its boundary")

    def finish(self) -> dict[str, bytes]:
        """The fields; the last of those that have one name."""
        if not self._ended:
            raise BadRequest("the form is cut off: its last boundary is missing")
        return self.values

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise BadRequest(f"the form has more than {_MOST_PARTS} parts")
        self._headers.clear()
        self._value = bytearray()

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._header_value)
        self._header.clear()
        self._header_value.clear()

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise BadRequest("a part of the form has no name")
        if self._headers.get(b"content-transfer-encoding", b"").strip().lower() not in _PLAIN:
            raise BadRequest("parts of a form must not be encoded (RFC 7578, 4.7)")
        self._name = options[b"name"].decode("utf-8", "replace")
        self._most = self._files.get(self._name, _FIELD_BYTES)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        if len(self._value) > self._most:
            raise MessageTooBig(f"'{self._name[:64]}' is over {self._most} bytes")

    def _on_part(self) -> None:
        self.values[self._name] = bytes(self._value)

    def _on_end(self) -> None:
        self._ended = True


async def read_form(
    content_type: str, body: AsyncIterator[bytes], files: Mapping[str, int]
) -> tuple[dict[str, str], dict[str, bytes]]:
    """A form's texts, and its files; the loop goes round between slices. Raises as FormReader."""
    reader, pace = FormReader(content_type, files), LoopBudget()
    async for chunk in body:
        for part in slices(chunk):
            reader.feed(part)
            await pace.breathe()
    values = reader.finish()
    texts = {n: value.decode("utf-8", "replace") for n, value in values.items() if n not in files}
    return texts, {name: value for name, value in values.items() if name in files}

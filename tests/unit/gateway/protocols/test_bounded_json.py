"""JSON taken in slices is the JSON that came, with recordings laid aside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import MessageTooBig
from gateway.protocols.shared.bounded_json import SMALL_BYTES, BoundedJson, parsed_json
from ttscommon.wire.errors import BadRequest, TextTooLong

_SAMPLE = "QUJD/w==" * 100_000


def bounded(data: bytes, size: int) -> BoundedJson:
    fed = BoundedJson()
    for start in range(0, len(data), size):
        fed.feed(data[start : start + size])
    fed.finish()
    return fed


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(1, 9),
    st.booleans(),
)
def test_what_is_no_recording_is_left_as_it_came(value: Any, size: int, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert bounded(data, size).small == data


@given(st.binary(max_size=60), st.integers(1, 9))
def test_what_is_no_json_is_left_as_it_came(data: bytes, size: int) -> None:
    assert bounded(data, size).small == data


@pytest.mark.parametrize("escaped", [False, True])
async def test_a_recording_is_laid_aside_and_given_back(escaped: bool) -> None:
    body = json.dumps({"input": 'Say "ref_audio":"', "ref_audio": _SAMPLE, "seed": 3})
    given_ = body.replace("/", "\\/") if escaped else body
    made = await parsed_json(given_.encode())
    assert len(made.data) < 200
    found = json.loads(made.data)
    assert found == {"input": 'Say "ref_audio":"', "ref_audio": found["ref_audio"], "seed": 3}
    assert made.restore(found["ref_audio"]) == _SAMPLE
    assert made.restore("anything else") == "anything else"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"[" * SMALL_BYTES * 2, BadRequest),
        (b'"",' * SMALL_BYTES, BadRequest),
        (b'{"input": "' + b"a" * (1 << 20), TextTooLong),
        (b" " * (1 << 20), MessageTooBig),
        (b'{"ref_audio":"A",' * SMALL_BYTES, BadRequest),
    ],
)
async def test_what_no_request_needs_is_refused_before_it_is_parsed(
    data: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await parsed_json(data)

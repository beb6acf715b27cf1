"""Rows that a request may have, and those that it may not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.ttsfamilies.qwen3_omni.tiny import MOST_FRAMES, tiny
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttscommon.wire.tensors import FloatRows, RowKind
from ttsfamilies.qwen3_omni.family import Qwen3Omni
from ttsfamilies.qwen3_omni.request import Given, OmniPrepared


@pytest.fixture(scope="module")
def model() -> Qwen3Omni:
    return tiny()


@pytest.fixture
def prepared(model: Qwen3Omni) -> OmniPrepared:
    return model.prepare(SpeechRequest("r", "m", "slt", "", text_final=False, rows=True))


def rows(count: int, kind: RowKind = "said", width: int = 24) -> FloatRows:
    return FloatRows.of(kind, np.ones((count, width), np.float32))


def read(prepared: OmniPrepared, *pieces: FloatRows | Text, final: bool = False) -> list[Given]:
    return list(prepared.read(pieces, final=final))


def test_rows_are_passed_on_as_they_came(prepared: OmniPrepared) -> None:
    (context,) = read(prepared, rows(3, "context"))
    (said,) = read(prepared, rows(2))
    (end,) = read(prepared, final=True)
    assert [(one.kind, len(one.rows), one.complete) for one in (context, said, end)] == [
        ("context", 3, False),
        ("said", 2, False),
        ("said", 0, True),
    ]


def test_an_instruction_is_context_before_the_rows(model: Qwen3Omni) -> None:
    request = SpeechRequest("r", "m", "slt", "", rows=True, instructions="Be odd.")
    given = read(model.prepare(request), rows(1))
    assert [one.kind for one in given] == ["context", "said"]
    assert len(given[0].rows) > 5


@pytest.mark.parametrize(
    ("error", "spoil"),
    [
        (BadRequest, lambda prepared: read(prepared, rows(1, width=23))),
        (BadRequest, lambda prepared: read(prepared, _endless())),
        (BadRequest, lambda prepared: read(prepared, rows(1), rows(1, "context"))),
        (BadRequest, lambda prepared: read(prepared, rows(1), rows(1, "media"))),
        (TextTooLong, lambda prepared: read(prepared, rows(MOST_FRAMES + 1))),
        (TextTooLong, lambda prepared: [read(prepared, rows(500, "media")) for _ in range(70)]),
        (NothingToSay, lambda prepared: read(prepared, rows(2, "context"), final=True)),
        (NothingToSay, lambda prepared: read(prepared, final=True)),
    ],
)
def test_rows_that_cannot_be_spoken_are_refused(
    prepared: OmniPrepared, error: type[BadRequest], spoil: Callable[[OmniPrepared], object]
) -> None:
    with pytest.raises(error):
        spoil(prepared)


def test_text_and_rows_are_not_mixed(prepared: OmniPrepared) -> None:
    read(prepared, Text("One word and "))
    with pytest.raises(BadRequest, match="not both"):
        read(prepared, rows(1))


def _endless() -> FloatRows:
    return FloatRows.of("said", np.full((1, 24), np.inf, np.float32))

"""A codec of whole segments is given them whole, and keeps its slot while it works on one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import CodecChunk, SpeechRequest, Tensor
from ttsfamilies.base.codec.base import CodecSpec
from vocoder.decoding import Decoding, Late

SPEC = CodecSpec("m", "f", 24_000, 600, {"left": Field((), "i2")}, context_frames=0, left="left")


class Writer:
    """A listener that takes nothing; `moves`: positions that its audio comes to, one a question."""

    def __init__(self, *moves: int) -> None:
        self.position, self._moves, self.asked = 0, list(moves), 0

    async def room(self, position: int, timeout_s: float | None = None) -> bool:
        self.asked += 1
        if self._moves:
            self.position = self._moves.pop(0)
        return False


def decoding(writer: Any, codes: Any = None, *, final: bool = True) -> Decoding:
    engine = SimpleNamespace(spec=SPEC, feed=lambda key, arrays: None)
    request = SpeechRequest("r", "m", "v", "", text_final=final)
    job = SimpleNamespace(request_id="r", request=request, parkable=True)
    return Decoding(SimpleNamespace(), engine, job, writer, codes)  # type: ignore[arg-type]


def feed(one: Decoding, *left: int) -> None:
    chunk = CodecChunk("r", 0, {"left": Tensor.of(np.array(left, np.int16))})
    one._feed(chunk)
    one._fed = len(left)


async def test_what_belongs_to_a_segment_that_was_begun_is_always_taken() -> None:
    writer = Writer()
    one = decoding(writer)
    feed(one, 3, 2)
    assert await one._has_room(2)
    assert not writer.asked


@pytest.mark.parametrize("moves", [(0, 0, 0, 1200), (0, 1200)])
async def test_a_slot_is_kept_until_the_segment_in_hand_was_heard(moves: tuple[int, ...]) -> None:
    writer = Writer(*moves)
    one = decoding(writer)
    feed(one, 1, 0)
    assert not await one._has_room(2)
    assert writer.asked == len(moves) + 1  # and once more, in which nothing moved


async def test_codes_are_late_only_when_the_segment_in_hand_was_heard() -> None:
    writer, asked = Writer(), 0

    async def next(reader: Any, timeout_s: float | None = None) -> None:
        nonlocal asked
        asked += 1
        writer.position = 1200 * (asked > 2)

    one = decoding(writer, SimpleNamespace(next=next), final=False)
    feed(one, 1, 0)
    assert await one._next_or_late(SimpleNamespace(), 2) == Late(2)  # type: ignore[arg-type]
    assert asked >= 3

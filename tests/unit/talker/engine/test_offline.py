"""A stream that no listener hears as it is made: it makes way for every other."""

from __future__ import annotations

from talker.engine.placement import place
from talker.engine.scheduler import StepLimits, online
from talker.engine.stream import Stream
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, BlockAllocator
from ttsfamilies.base.talker.parts import Parts
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve

LIMITS = StepLimits()


def stream(key: str, priority: int, *, now: float = 0.0) -> Stream:
    """One that is ready to step, `now` seconds after it came."""
    request = SpeechRequest(key, "vesper", "slt", "Hello there.", priority=priority)
    model = FakeModel("vesper", StepCurve(), manner=Manner(cached=True))
    prepared = model.prepare(request)
    units = list(prepared.read([Text(request.text)], final=True))
    one = Stream(request, Parts(model, prepared), 25.0, 0.0, LIMITS.starved_s)
    one.feed(units, final=True)
    assert one.plan(0.0, 100, 1000)
    assert one.plan(now, 100, 1000)
    return one


def test_it_steps_only_beside_listeners_that_need_nothing() -> None:
    book, heard = stream("book", OFFLINE), stream("heard", 5)
    assert [one.key for one in online([book, heard], LIMITS)] == ["heard"]
    heard.sent(50, 0.0)
    heard.plan(0.0, 100, 1000)
    assert [one.key for one in online([book, heard], LIMITS)] == ["heard", "book"]
    heard.plan(1.9, 100, 1000)
    assert [one.key for one in online([book, heard], LIMITS)] == ["heard"]
    assert [one.key for one in online([book], LIMITS)] == ["book"]


def test_it_does_not_starve() -> None:
    book = stream("book", OFFLINE, now=60.0)
    assert (book.waited_s, book.starved, book.startup) == (0.0, False, False)
    assert stream("heard", 5, now=60.0).starved


def test_it_gives_its_blocks_to_listeners_and_not_to_others_like_it() -> None:
    books, heard = [stream(f"book{n}", OFFLINE) for n in range(2)], stream("heard", 5)
    allocator = BlockAllocator(1)
    given: list[str] = []

    def take(key: str) -> None:
        given.append(key)
        allocator.give_back(allocator.take(key))

    def placed(*order: Stream) -> list[str]:
        slacks = [(one.key, one.slack_s) for one in [*books, heard]]
        return [one.key for one in place(order, lambda: slacks, allocator, take, idle=False).run]

    assert BLOCK_POSITIONS > 2
    assert placed(books[0]) == ["book0"]
    assert placed(books[1]) == []
    assert given == []
    assert placed(heard) == ["heard"]
    assert given == ["book0"]

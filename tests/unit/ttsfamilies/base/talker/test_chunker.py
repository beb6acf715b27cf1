"""Chunk sizes: tiny first, then as slack allows."""

from hypothesis import given
from hypothesis import strategies as st

from talker.engine.stream import Stream
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.chunker import ChunkSeconds, ChunkSizes
from ttsfamilies.base.talker.parts import Parts
from ttsfamilies.fake.talker import FakeModel, FakeStream, StepCurve

SIZES = ChunkSizes(initial=2, regular=25)


class Pending(FakeModel):
    """So many frames of every stream wait."""

    def __init__(self, pending: int) -> None:
        super().__init__("m", StepCurve())
        self.pending = pending

    def open(self, prepared: Prepared) -> FakeStream:
        stream = FakeStream(prepared.request, self.manner)
        stream._frames = self.pending
        return stream


def cut(
    pending: int, sent: int, last: int, slack_s: float, *, busy: float = 0.0, done: bool = False
) -> int:
    family, request = Pending(pending), SpeechRequest("r", "m", "slt", "")
    model = Parts(family, family.prepare(request))
    model.feed([0 if done else 1000], final=done)
    stream = Stream(request, model, 25.0, 0.0, 1.0)
    stream.final = done
    stream.sent_chunks, stream.last_frames, stream.sent_frames = sent, last, 0
    stream.playback(slack_s)
    return stream.due(SIZES, 0.0, busy)


def test_the_first_chunk_goes_as_soon_as_it_is_there() -> None:
    assert cut(1, 0, 0, 0.0) == 0
    assert cut(2, 0, 0, 0.0) == 2


def test_a_busy_engine_waits_for_a_longer_first_chunk_and_for_that_alone() -> None:
    assert cut(2, 0, 0, 0.0, busy=0.4) == 2
    assert cut(2, 0, 0, 0.0, busy=0.6) == 0
    assert cut(3, 0, 0, 0.0, busy=0.6) == 3
    assert cut(4, 0, 0, 0.0, busy=1.2) == 4
    assert cut(2, 1, 4, 0.0, busy=1.2) == 2
    assert SIZES.first(busy=1e6) == SIZES.regular


def test_the_first_chunk_has_what_its_gateway_asks_for_or_what_the_load_does() -> None:
    assert SIZES.first(0.0, headroom=0.0) == 2
    assert SIZES.first(0.0, headroom=0.2) == 3
    assert SIZES.first(1.2, headroom=1.0) == 4
    assert SIZES.first(0.6, headroom=2.5) == 5
    assert SIZES.first(0.0, headroom=1e6) == SIZES.regular


def test_a_stream_that_has_the_engine_to_itself_begins_with_less_where_a_family_says_so() -> None:
    sizes = ChunkSizes(2, 25, alone=1)
    alone = sizes.among(1, busy=0.9)
    assert (alone.first(0.9), alone.next(1, 1.0, 0.9)) == (1, 1)
    assert alone.first(0.9, headroom=1.5) == 3
    assert sizes.among(2, busy=0.4) is sizes.among(1, busy=1.0) is sizes
    assert SIZES.among(1, busy=0.0) is SIZES


def test_without_slack_chunks_stay_small() -> None:
    assert cut(2, 3, 8, 0.0) == 2


def test_with_slack_chunks_double_up_to_the_regular_size_of_a_busy_engine() -> None:
    assert cut(3, 1, 2, 10.0, busy=0.5) == 0
    assert cut(4, 1, 2, 10.0, busy=0.5) == 4
    assert cut(60, 9, 25, 10.0, busy=0.5) == 25


def test_a_listener_with_much_in_hand_gets_longer_chunks_that_are_made_soon() -> None:
    assert cut(25, 9, 25, 10.0, busy=0.1) == 0
    assert cut(60, 9, 25, 10.0, busy=0.1) == 50
    assert cut(60, 9, 25, 10.0) == 50
    assert cut(25, 9, 25, 2.0, busy=0.1) == 25
    assert SIZES.most(0.4) == 31
    assert SIZES.most(0.9) == SIZES.regular


def test_the_rest_goes_when_the_stream_is_done() -> None:
    assert cut(1, 5, 25, 10.0, done=True) == 1
    assert cut(0, 5, 25, 10.0, done=True) == 0


def test_a_family_recommends_sizes_in_seconds_and_settings_override_them() -> None:
    recommended = ChunkSeconds(0.12, 1.0)
    assert recommended.sizes(25.0) == ChunkSizes(3, 25)
    assert recommended.sizes(12.5) == ChunkSizes(2, 12)
    assert recommended.sizes(1.0) == ChunkSizes(1, 1)
    assert recommended.sizes(25.0, initial=1, regular=50) == ChunkSizes(1, 50)
    assert recommended.sizes(25.0, regular=2) == ChunkSizes(2, 2)
    assert ChunkSeconds(alone=1).sizes(12.5) == ChunkSizes(2, 12, alone=1)
    assert ChunkSeconds(alone=1).sizes(12.5, initial=3) == ChunkSizes(3, 12)
    assert ChunkSeconds(0.2, busy_growth=10.0).sizes(20.0) == ChunkSizes(4, 20, busy_growth=10.0)


@given(
    st.integers(0, 200), st.integers(0, 20), st.integers(1, 25), st.floats(-5, 60), st.booleans()
)
def test_a_chunk_never_holds_more_than_there_is_or_than_the_longest(
    pending: int, sent: int, last: int, slack_s: float, done: bool
) -> None:
    count = cut(pending, sent, last, slack_s, done=done)
    assert 0 <= count <= min(pending, SIZES.most(0.0))
    if done and pending:
        assert count > 0

"""The merge of live messages and log reads, whatever was dropped, repeated or reordered."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.wire.messages import (
    AudioChunk,
    Chunk,
    End,
    LogRecord,
    Position,
    Takeover,
    Tensor,
)

RATE = 16_000


def audio(start: int, stop: int, epoch: int = 1) -> AudioChunk:
    """Samples whose value is their position, so that any mistake shows in the content."""
    samples = np.arange(start, stop, dtype=np.int16)
    return AudioChunk("r", start, RATE, Tensor.of(samples), epoch=epoch)


def samples(records: list[Chunk | End]) -> list[int]:
    parts = [r.pcm.array() for r in records if isinstance(r, AudioChunk)]
    return [int(v) for part in parts for v in part]


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[tuple[int, int]]:
    marks = draw(st.lists(st.integers(1, length - 1), unique=True, max_size=8))
    edges = [0, *sorted(marks), length]
    return list(itertools.pairwise(edges))


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[LogRecord], list[LogRecord]]:
    """A log that two writers made, and what reached a reader live: lossy, shuffled, repeated.

    The first writer delivered chunks beyond what it committed; the second took over where the
    log ended and cut its chunks elsewhere.
    """
    length = draw(st.integers(2, 60))
    first = draw(cuts(length))
    kept = draw(st.integers(0, len(first)))
    log: list[LogRecord] = [audio(a, b) for a, b in first[:kept]]
    live: list[LogRecord] = [audio(a, b) for a, b in first]
    position = first[kept - 1][1] if kept else 0
    if kept < len(first) or draw(st.booleans()):
        log.append(Takeover("r", position, 2))
        second = [(max(a, position), b) for a, b in draw(cuts(length)) if b > position]
        rest: list[LogRecord] = [audio(a, b, epoch=2) for a, b in second]
        rest.append(End("r", length, "ok", epoch=2))
    else:
        rest = [End("r", length, "ok")]
    log.extend(rest)
    live.extend(rest)
    order = draw(st.permutations(range(len(live))))
    dropped = draw(st.sets(st.sampled_from(range(len(live)))))
    repeated = draw(st.lists(st.sampled_from(range(len(live))), max_size=6))
    return length, log, [live[i] for i in (*order, *repeated) if i not in dropped]


@examples(400)
@given(histories(), st.data())
def test_any_mix_of_live_and_log_gives_every_position_once_and_one_end(
    history: tuple[int, list[LogRecord], list[LogRecord]], data: st.DataObject
) -> None:
    length, log, live = history
    start = data.draw(st.integers(0, length))
    timeline = Timeline(start)
    got: list[Chunk | End] = []
    log_at = 0
    for record in live:
        got += timeline.feed_live(record)
        if data.draw(st.booleans()) and log_at < len(log):
            got += timeline.feed_log(log[log_at])
            log_at += 1
    for record in log[log_at:]:
        got += timeline.feed_log(record)
    assert samples(got) == list(range(start, length))
    assert [type(r) for r in got].count(End) == 1
    assert isinstance(got[-1], End)


def test_a_superseded_writer_is_not_heard_any_more() -> None:
    timeline = Timeline()
    timeline.feed_live(audio(0, 4))
    assert timeline.feed_live(Takeover("r", 4, 2)) == []
    assert timeline.feed_live(audio(4, 8, epoch=1)) == []
    assert samples(timeline.feed_live(audio(4, 6, epoch=2))) == [4, 5]


def test_a_superseded_writers_early_end_is_void() -> None:
    timeline = Timeline()
    timeline.feed_live(End("r", 8, "error"))
    timeline.feed_live(audio(0, 4, epoch=2))
    assert samples(timeline.feed_live(audio(4, 8, epoch=2))) == [4, 5, 6, 7]
    assert not timeline.ended


def test_what_the_log_may_lack_is_offered_and_the_last_of_what_it_has() -> None:
    timeline = Timeline()
    for start in range(0, 40, 4):
        timeline.feed_live(audio(start, start + 4))
    timeline.committed(32)
    assert [c.start for c in timeline.heard(0)] == [16, 20, 24, 28, 32, 36]
    assert [c.start for c in timeline.heard(36)] == [36]


def test_an_end_heard_live_is_offered_with_the_rest() -> None:
    timeline = Timeline()
    timeline.feed_live(audio(0, 4))
    timeline.feed_live(End("r", 4, "ok"))
    assert [type(r).__name__ for r in timeline.heard(0)] == ["AudioChunk", "End"]
    assert timeline.feed_live(End("r", 4, "ok")) == []


def test_what_the_log_has_passed_over_never_comes() -> None:
    timeline = Timeline()
    timeline.feed_live(audio(4, 8))
    assert timeline.gap
    assert not timeline.gone  # the writer may still have what comes before
    timeline.feed_log(audio(4, 8))
    assert bool(timeline.gone)
    timeline.feed_live(audio(0, 4))
    assert not timeline.gap


def test_an_end_behind_what_was_dropped_says_that_it_is_gone() -> None:
    timeline = Timeline()
    timeline.feed_log(End("r", 8, "ok"))
    assert timeline.gone
    assert not timeline.ended


def test_a_position_beyond_what_is_here_is_a_gap_until_the_samples_come() -> None:
    timeline = Timeline()
    timeline.feed_live(audio(0, 4))
    assert not timeline.gap
    timeline.feed_log(Position("r", 8))
    assert bool(timeline.gap)
    assert not timeline.gone
    assert samples(timeline.feed_live(audio(4, 8))) == [4, 5, 6, 7]
    assert not bool(timeline.gap)

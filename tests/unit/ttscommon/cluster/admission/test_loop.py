"""The loop that moves the limit on streams, with a clock of our own."""

from dataclasses import replace

import pytest

from ttscommon.cluster.admission import Loop, LoopTuning, Streams

SEEN = Streams(open=10, silent=0, slack_s=1.0, least=1, most=100, expected=20)
LOOK_S = 0.05


def looked(loop: Loop, seconds: float, streams: Streams = SEEN, *, used: bool = True) -> float:
    """The limit after so long, with as many streams open as it lets in."""
    for number in range(round(seconds / LOOK_S)):
        open_ = int(loop.limit) if used and loop.limit else streams.open
        loop.look(replace(streams, open=open_), number * LOOK_S)
    return loop.limit


def loop() -> Loop:
    return Loop(0.5, LoopTuning())


def test_it_begins_with_a_part_of_what_workers_believe_and_a_stream_a_worker() -> None:
    fresh, many = loop(), loop()
    fresh.look(replace(SEEN, slack_s=None), 0.0)
    many.look(replace(SEEN, slack_s=None, least=16), 0.0)
    assert (fresh.limit, many.limit) == (LoopTuning().first * 20, 16)


def test_the_limit_rises_while_it_is_used_and_listeners_have_enough() -> None:
    assert looked(loop(), 2.0) > 12
    assert looked(loop(), 60.0) == SEEN.most
    assert looked(loop(), 2.0, replace(SEEN, open=5), used=False) == 10


def test_it_rises_more_slowly_once_it_was_too_high() -> None:
    warned = loop()
    looked(warned, 0.1, replace(SEEN, slack_s=0.1))
    before = warned.limit
    assert looked(warned, 2.0) / before < 1.3 < looked(loop(), 2.0) / 10


def test_between_enough_and_too_little_it_stays() -> None:
    steady = loop()
    assert looked(steady, 5.0, replace(SEEN, slack_s=0.5)) == 10


def test_it_falls_below_what_is_open_once_a_second() -> None:
    falling = loop()
    looked(falling, 0.95, replace(SEEN, slack_s=0.3), used=False)
    assert falling.limit == pytest.approx(8.0)
    falling.look(replace(SEEN, slack_s=0.3), 1.0)
    assert falling.limit == pytest.approx(6.4)


def test_the_limit_is_never_less_than_a_stream_a_worker() -> None:
    assert looked(loop(), 30.0, replace(SEEN, slack_s=-1.0, least=3, open=3), used=False) == 3


def test_a_worker_that_is_gone_takes_its_part_of_the_limit() -> None:
    fleet = loop()
    fleet.look(replace(SEEN, least=4, slack_s=None), 0.0)
    fleet.look(replace(SEEN, least=3, slack_s=None), 0.05)
    assert fleet.limit == 7.5


def test_a_new_worker_makes_it_search_again() -> None:
    fleet = loop()
    looked(fleet, 0.1, replace(SEEN, slack_s=0.1))
    before = fleet.limit
    assert looked(fleet, 2.0, replace(SEEN, least=2)) / before > 1.5


@pytest.mark.parametrize(
    ("seen", "sounds", "starts"),
    [
        pytest.param({}, [], 4, id="nothing is known so far"),
        pytest.param({}, [(0.2, 2)], 5, id="first sounds are in time"),
        pytest.param({}, [(0.2, 2), (0.9, 1)], 1, id="they have become late"),
        pytest.param({"least": 8}, [(0.9, 1)], 8, id="as many as there are workers"),
        pytest.param({"expected": 100}, [(2.0, 1)], 5, id="late of something else: a part"),
    ],
)
def test_first_sounds_say_how_many_may_wait_for_theirs(
    seen: dict[str, int], sounds: list[tuple[float, int]], starts: int
) -> None:
    timed = loop()
    timed.look(replace(SEEN, **seen), 0.0)
    for sound in sounds:
        for _ in range(40):
            timed.sounded(*sound)
    assert timed.starts == starts


def test_a_silent_stream_is_given_up_where_another_would_run_dry() -> None:
    late = loop()
    dry = replace(SEEN, slack_s=0.1)
    assert not late.gives_up(SEEN, 0.0)
    assert late.gives_up(dry, 0.0)
    assert not late.gives_up(dry, 0.1)  # what that helps shows a moment later
    assert late.gives_up(dry, 0.2)


def test_the_only_stream_of_a_worker_is_not_given_up() -> None:
    assert not loop().gives_up(replace(SEEN, slack_s=0.0, open=1), 0.0)

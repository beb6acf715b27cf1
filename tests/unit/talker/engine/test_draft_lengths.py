"""DraftLengths: wide where it pays, narrow where it does not, by what was measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from talker.engine.draft_lengths import DraftLengths
from ttsfamilies.base.talker.streams import Plan

Seconds = Callable[[int, int], float]


def free(streams: int, width: int) -> float:
    """A GPU with few streams: a wider step costs nothing."""
    del streams, width
    return 0.005


def paid(streams: int, width: int) -> float:
    """A CPU: every position costs."""
    return 0.003 + 0.001 * streams * width


def drive(
    widths: DraftLengths, streams: int, steps: int, seconds: Seconds, rounds: int = 1
) -> list[int]:
    """The widths of `steps` steps; of four drafted frames half are accepted."""
    chosen = []
    for _ in range(steps):
        width = widths.choose(streams, rounds)
        gained = 1 + (width - 1) // 2 if width > 1 else 1
        widths.add(streams, width, streams * gained, seconds(streams, width), rounds)
        chosen.append(width)
    return chosen


def test_the_choices_are_powers_of_two_and_the_widest() -> None:
    assert DraftLengths(6).choices == (1, 2, 4, 6)
    assert DraftLengths(4).choices == (1, 2, 4)


def test_the_width_follows_the_batch() -> None:
    widths = DraftLengths(4)
    drive(widths, 1, 60, paid)
    assert widths.choose(1) == 4
    drive(widths, 24, 60, paid)
    assert widths.choose(24) == 1
    assert widths.choose(1) == 4


def test_a_large_batch_tries_no_width_that_did_not_pay_in_a_small_one() -> None:
    widths = DraftLengths(4)
    drive(widths, 4, 60, lambda n, w: 0.001 * n * w)
    assert drive(widths, 32, 60, paid) == [1] * 60


def test_times_that_changed_are_found_out() -> None:
    widths = DraftLengths(2)
    drive(widths, 1, 100, lambda n, w: 0.001 * w * w)
    assert widths.choose(1) == 1
    assert drive(widths, 1, 64 * 20, free)[-1] == 1, "half of one draft is no gain"
    wide = DraftLengths(4)
    drive(wide, 1, 100, lambda n, w: 0.001 * w * w)
    assert drive(wide, 1, 64 * 60, free)[-1] == 4


class Stream:
    def __init__(self, *, draftable: bool = True, lacking: int = 0, begins: bool = False) -> None:
        self.draftable, self.lacking, self.begins = draftable, lacking, begins
        self.width = self.rounds = 1

    def widen(self, width: int, limit: int, rounds: int) -> None:
        assert limit == 100
        self.width, self.rounds = width, rounds


def known(streams: int = 2, rounds: int = 1) -> DraftLengths:
    widths = DraftLengths(4)
    drive(widths, streams, 60, free, rounds)
    return widths


@pytest.mark.parametrize(
    ("lacking", "positions", "width"),
    [
        *(((lone,), 512, width) for lone, width in ((0, 4), (1, 1), (2, 2), (3, 4), (9, 4))),
        ((1, 0), 512, 4),  # in company none waits for its own first chunk
        ((0, None), 512, 1),  # nobody drafts beside a prompt
        ((0, 0), 6, 3),
        ((0, 0), 3, 1),
    ],
)
def test_streams_of_a_step_share_a_width_within_what_they_lack_and_may_compute(
    lacking: tuple[int | None, ...], positions: int, width: int
) -> None:
    streams = [Stream(draftable=lack is not None, lacking=lack or 0) for lack in lacking]
    known(len(streams)).widen(streams, positions, 100)
    assert [stream.width for stream in streams] == [width] * len(streams)


@pytest.mark.parametrize(("positions", "rounds"), [(512, 4), (24, 3), (8, 1)])
def test_rounds_have_no_more_positions_than_a_step_may(positions: int, rounds: int) -> None:
    streams = [Stream(), Stream()]
    known(rounds=4).widen(streams, positions, 100, 4)
    assert [(stream.width, stream.rounds) for stream in streams] == [(4, rounds)] * 2


@pytest.mark.parametrize(
    ("lacking", "begins", "rounds"),
    [
        *((0, False, 8), (1, False, 1), (3, False, 2), (5, False, 3), (40, False, 8)),
        *((0, True, 8), (1, True, 1), (3, True, 3), (5, True, 4), (40, True, 8)),
    ],
)
def test_a_first_sound_waits_for_no_more_rounds_than_it_lacks(
    lacking: int, begins: bool, rounds: int
) -> None:
    widths = DraftLengths(2)
    for count in (1, 2, 4, 8):
        for width, gained in ((1, 1.0), (2, 2.0)):
            for _ in range(20):
                widths.add(2, width, 2 * gained, 0.01, count)
    streams = [Stream(lacking=lacking, begins=begins), Stream()]
    widths.widen(streams, 512, 100, 8)
    assert [(stream.width, stream.rounds) for stream in streams] == [(2, rounds)] * 2


def test_a_family_without_drafts_steps_plainly_and_may_have_rounds() -> None:
    stream = Stream()
    DraftLengths(1).widen([stream], 512, 100, 4)
    assert (stream.width, stream.rounds) == (1, 4)


def test_many_rounds_are_measured_by_themselves() -> None:
    """What surrounds a step is paid for once in a launch, and drafts pay where that is much."""
    widths = DraftLengths(4)
    for _ in range(60):
        for rounds in (1, 8):
            width = widths.choose(1, rounds)
            widths.add(1, width, (width + 1) // 2, 0.001 * width + 0.01 / rounds, rounds)
    assert (widths.choose(1), widths.choose(1, 8)) == (4, 1)


@pytest.mark.parametrize(("limit", "count", "rounds"), [(99, 16, 4), (20, 12, 3), (9, 2, 1)])
def test_a_plan_has_whole_rounds(limit: int, count: int, rounds: int) -> None:
    wide = Plan(7, 1, decode=True).widened(4, limit, 4)
    assert (wide.count, wide.rounds) == (count, rounds)


@pytest.mark.parametrize(("limit", "count", "rounds"), [(99, 17, 4), (13, 13, 3), (3, 3, 1)])
def test_a_step_that_begins_has_position_0_besides(limit: int, count: int, rounds: int) -> None:
    wide = Plan(0, 2, begins=True).widened(4, limit, 4)
    assert (wide.count, wide.rounds, wide.width) == (count, rounds, (count - 1) // rounds)
    assert wide.decode
    assert wide.begins


def test_gains_are_told_by_width_a_round_counts_as_a_step_and_prompts_do_not() -> None:
    told: list[tuple[int, float]] = []
    widths = DraftLengths(4, lambda width, frames: told.append((width, frames)))
    for plan, gained in (
        (Plan(7, 4, decode=True), [3, 1]),
        (Plan(7, 8, decode=True, rounds=4), [8, 6]),
        (Plan(0, 9), [1, 1]),
    ):
        widths.account([plan, plan], gained, 0.04)
    assert told == [(4, 3), (4, 1), (2, 2.0), (2, 1.5)]

"""Streams of one and of two branches side by side: who pays for what, and what they share."""

from typing import Any

import pytest

from talker.engine.placement import CacheSpace
from tests.unit.ttsfamilies.test_conformance import Bench, request
from tests.unit.ttsfamilies.toy_guided import VOICE, Guided, GuidedStream
from ttscommon.engine.device.device import HostDevice
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.errors import TextTooLong
from ttsfamilies.base.runners.computation import BranchInputs
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.talker.streams import Plan, Row, sequences

ALONE, GUIDED = 3, 4  # seeds


def row(seed: int, slot: int, blocks: list[int], positions: int = 1) -> Row:
    stream = GuidedStream(request(seed=seed))
    return Row(stream, slot, Plan(0, positions), blocks)


def test_first_branches_come_first_and_each_branch_has_its_blocks() -> None:
    rows = [row(GUIDED, 0, [5, 6, 7, 8]), row(ALONE, 1, [1, 2])]
    found = [(each.slot, each.branch, list(each.blocks)) for each in sequences(rows)]
    assert found == [(0, 0, [5, 7]), (1, 0, [1, 2]), (0, 1, [6, 8])]


def test_a_lone_branch_is_its_own_second() -> None:
    rows = [row(GUIDED, 4, [0, 1], 3), row(ALONE, 6, [2], 2), row(GUIDED, 5, [3, 4])]
    told = BranchInputs(2, 9)
    branches = told.of_rows(rows, told.each(rows), 4, 12)
    assert branches is not None
    assert branches.owners.tolist() == [4, 4, 4, 6, 6, 5, 4, 4, 4, 5, 9, 9]
    assert branches.second.tolist() == [8, 4, 9, 0]


@pytest.mark.parametrize(
    ("seeds", "rows", "tokens"),
    [
        ([ALONE] * 3, 4, 4),
        ([ALONE, GUIDED, ALONE], 4, 4),
        ([GUIDED] * 3, 4, 8),
        ([GUIDED] * 4 + [ALONE], 8, 16),
        ([ALONE] * 7 + [GUIDED], 8, 16),
        ([ALONE] * 8, 8, 8),
    ],
)
def test_a_step_has_a_token_for_each_branch_and_none_for_branches_that_are_not(
    seeds: list[int], rows: int, tokens: int
) -> None:
    family = Guided()
    family.compute_on(HostDevice())
    runner = family.runner(8, 32, 1)
    assert isinstance(runner, DeviceRunner)
    some = [row(seed, slot, [slot]) for slot, seed in enumerate(seeds)]
    assert runner.decodes._shape(some)[:2] == (rows, tokens)


def test_what_branches_and_requests_have_in_common_is_kept_once() -> None:
    bench = Bench(Guided())
    heard: list[Any] = []
    for name, seed in (("a", GUIDED), ("b", GUIDED + 1), ("c", ALONE)):
        heard.append(bench.open(request(name, seed=seed)))
        bench.run()
    assert all(isinstance(one.end, Finished) for one in heard)
    shared = bench.engine.metrics.registry.get_sample_value("tts_shared_positions_total")
    assert shared == 2 * len(VOICE)
    assert bench.engine._room.kept == 1


def test_two_branches_have_half_of_the_cache_each() -> None:
    room = CacheSpace(9, 4096, lambda _: None)
    assert [room.most_positions(branches) for branches in (1, 2)] == [144, 64]
    bench = Bench(Guided(), blocks=9)
    text = "A" * 80
    one, two = (bench.open(request(f"r{seed}", text, seed=seed)) for seed in (ALONE, GUIDED))
    bench.run()
    assert isinstance(one.end, Finished)
    assert isinstance(two.end, Failed)
    assert isinstance(two.end.error, TextTooLong)

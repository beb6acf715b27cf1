"""Host time of turns: what is measured is turns in which every stream gains a frame."""

import pytest

from tests.benchmarks.turns import measure, opened
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.fake.talker import PROMPT


@pytest.mark.parametrize("depth", [0, 1])
def test_every_stream_gains_a_frame_in_every_turn(depth: int) -> None:
    engine = opened(streams=5, turns=30, depth=depth)
    for _ in range(20):
        engine.step()
    free, total = engine.kv_positions
    blocks = -(-(PROMPT + 19) // BLOCK_POSITIONS)
    assert total - free == 5 * blocks * BLOCK_POSITIONS


def test_the_median_is_not_above_the_p95() -> None:
    took = measure(3, 10, warmup=2)
    assert took.turns == 10
    assert 0.0 < took.p50_s <= took.p95_s

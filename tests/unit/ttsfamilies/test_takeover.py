"""A successor stages the state that its predecessor's steps reached: the books and the steps agree.

What a slot carries is written twice, by the device's step and by the stream that stands behind
logged frames (docs/decisions/engine-interface.md). The step that follows a takeover leaves both
alike.
"""

from typing import Final

import numpy as np
import pytest
import torch

from tests.unit.ttsfamilies.test_conformance import FAMILIES, QUICK, request
from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows
from ttscommon.wire.pieces import Text
from ttsfamilies.base.runners.model import SegmentModel, TalkerModel
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.streams import Row, TalkerStream

BLOCKS: Final = 200
# Fields that may differ, as no step reads the difference.
APART: Final[dict[str, set[str]]] = {
    "orpheus": {"codes"},  # of the frame before: a frame's slots are written before they are read
    "higgs-audio": {"left"},  # of no meaning before a first codebook ends
    "zonos": {"left"},
    "cosyvoice": {"early"},  # counts down, and its sign alone is looked at
    "tacotron2": {"ids"},  # behind the passage's length
}
# Steps of one frame or a part of one; segments have none, and drafts are as wide as they pay.
STEPPED: Final = sorted(
    name
    for name in FAMILIES
    if not name.endswith("on a device") and not name.startswith(("fake", "vesper"))
)


def launched(runner: TorchRunner, stream: TalkerStream) -> bool:
    """A launch of one stream; whether there was one."""
    if (plan := stream.plan(0)) is None:
        return False
    results = runner.collect(runner.launch([Row(stream, 0, plan, range(BLOCKS))]))
    stream.accept(plan.start + results.kept[0], results.row(0), results.ended[0])
    return True


def begun(family: TalkerModel, restored: Arrays | None = None) -> TalkerStream:
    prepared = family.prepare(request())
    units = list(prepared.read([Text(request().text)], final=True))
    stream = family.open(prepared)
    if restored is not None:
        stream.restore(restored)
    stream.feed(units, final=True)
    return stream


def slot(family: TalkerModel, runner: TorchRunner) -> dict[str, Array]:
    return {name: runner._state.tensors[name][0].numpy().copy() for name in family.spec.state}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in STEPPED],
)
def test_the_step_behind_a_takeover_leaves_the_state_that_its_predecessors_left(name: str) -> None:
    torch.set_num_threads(1)
    family = FAMILIES[name]()
    assert isinstance(family, TalkerModel)
    if isinstance(family, SegmentModel):
        pytest.skip("segments begin anew")
    runner = family.runner(1, BLOCKS, 0)
    assert isinstance(runner, TorchRunner)
    stream, states = begun(family), list[tuple[int, dict[str, Array]]]()
    taken = list[Arrays]()
    while launched(runner, stream):
        states.append((stream.frames, slot(family, runner)))
        if new := stream.frames - sum(map(rows, taken)):
            taken.append(stream.take(new).frames)
    logged = concatenate(taken)
    told = sorted({frames for frames, _ in states[:-1]} - {0})
    assert told
    for at in sorted({told[0], told[len(told) // 2], told[-1]}):
        reached = next(i for i, (frames, _) in enumerate(states) if frames == at)
        successor = family.runner(1, BLOCKS, 0)
        assert isinstance(successor, TorchRunner)
        assert launched(successor, begun(family, cut(logged, 0, at)))
        staged, known = slot(family, successor), states[reached + 1][1]
        for field in known.keys() - APART.get(name, set()):
            np.testing.assert_array_equal(staged[field], known[field], err_msg=f"{field} at {at}")

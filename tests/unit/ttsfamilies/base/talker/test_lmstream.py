"""The books of a text in passages."""

from types import MappingProxyType

import numpy as np

from ttscommon.wire.fields import Arrays, Field
from ttsfamilies.base.lm.request import IdsPrompt
from ttsfamilies.base.talker.lmstream import LmStream
from ttsfamilies.base.talker.streams import Plan, SlotWriter


class Ids(LmStream):
    """A frame is an id."""

    frame = MappingProxyType({"id": Field((), "i8")})

    def positions(self, branch: int) -> Arrays:
        del branch
        return {"id": np.concatenate([self.passage.array, self.spoken["id"]])}

    def begin(self, write: SlotWriter) -> None:
        write("frame", self.frames)


def test_a_stream_that_forgets_all_of_a_passage_goes_on_behind_the_one_before() -> None:
    stream = Ids()
    stream.feed([IdsPrompt((1, 2), 2), IdsPrompt((3, 4, 5), 9)], final=True)
    for drawn in (7, 8, 9):
        plan = stream.plan(0)
        assert plan is not None
        stream.accept(plan.end, {"id": np.array([drawn])}, False)
    stream.rewind(2)
    assert stream.plan(0) == Plan(0, 3)
    assert stream.inputs(Plan(0, 3))["id"].tolist() == [3, 4, 5]

"""Prompts of thousands of positions: in parts, beside others, and what they will take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from talker.engine.stream import Event
from tests.unit.talker.engine.test_engine import Driven, expected
from tests.unit.ttsfamilies.fish_s2.tiny import parts as fish_s2
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.lm.turns import EncodedTurn
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.streams import Row, Taken
from ttsfamilies.fake.talker import FakeModel, FakeRunner, FakeStream, Manner, StepCurve
from ttsfamilies.fish_s2.family import FishS2

POSITIONS = 2300  # of the voice
BLOCKS = 400
FRAME_S = 1 / 25
TIMEOUT_S = 0.5
LONG, SHORT = 15, 75  # characters; 24 and 120 frames


class Recorded(FakeStream):
    """Goes on behind a recording of thousands of positions."""

    def __init__(self, request: SpeechRequest, manner: Manner) -> None:
        super().__init__(request, manner)
        self._stand(0)

    def _stand(self, frames: int) -> None:
        super()._stand(frames)
        self._steps += POSITIONS


class Runner(FakeRunner):
    """Tells what each launch computed of which stream."""

    launches: list[dict[str, str]]

    def launch(self, batch: Sequence[Row]) -> Any:
        kinds = ["step" if row.plan.decode else "prompt" for row in batch]
        keys = [row.stream.key for row in batch]  # type: ignore[attr-defined]
        self.launches.append(dict(zip(keys, kinds, strict=True)))
        return super().launch(batch)


class Model(FakeModel):
    """A voice whose recording takes thousands of positions, and another without one."""

    def __init__(self, most: int = 4096) -> None:
        manner = Manner(cached=True, max_positions=most)
        super().__init__("m", StepCurve(), lambda _: None, manner)
        self.launches: list[dict[str, str]] = []

    def open(self, prepared: Prepared) -> FakeStream:
        request = prepared.request
        kind = Recorded if request.request_id == "long" else FakeStream
        stream = kind(request, self.manner)
        stream.key = request.request_id  # type: ignore[attr-defined]
        return stream

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        runner = Runner(self, rows, blocks, depth)
        runner.launches = self.launches
        return runner


class Watched(Driven):
    """Stepped by hand at a time of our own."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        self.now = 0.0
        self.model = Model()
        super().__init__(self.model, slots=4, blocks=blocks, clock=lambda: self.now, keep=0)

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.engine.step()

    def spoken(self, name: str) -> list[Event]:
        return [event for event in self.events[name] if isinstance(event, Taken)]

    def parts_of(self, name: str) -> list[int]:
        """Launches that have a part of the stream's prompt."""
        return [i for i, kinds in enumerate(self.model.launches) if kinds.get(name) == "prompt"]


@pytest.mark.parametrize("slow", [True, False], ids=["in need", "well supplied"])
def test_a_long_prompt_never_stands_in_front_of_anothers_frame(slow: bool) -> None:
    run = Watched()
    run.open("short", "x" * SHORT, seed=4)
    while not run.spoken("short"):
        run.step()
    before = len(run.model.launches)
    run.open("long", "x" * LONG, seed=3)
    # As fast as frames are played nothing is gained; else the listener soon has a lot in hand.
    while not run.spoken("long"):
        run.step(FRAME_S if slow else 0.0)
    parts = [i - before for i in run.parts_of("long")]
    assert len(parts) >= POSITIONS // 512
    launches = run.model.launches[before:]
    assert all(launch.get("short") == "step" for launch in launches[: parts[-2]])
    between = np.diff(parts)[:-1]
    if slow:  # frames come first, and yet the prompt gets on
        assert (between >= 2).all()
        assert (between <= TIMEOUT_S / FRAME_S + 2).all()
    else:
        assert (between == 1).all()
    run.run()
    assert run.codes("long") == expected(3, 24)
    assert run.codes("short") == expected(4, 120)


def test_a_newcomer_does_not_wait_for_a_long_prompt() -> None:
    run = Watched()
    run.open("long", "x" * LONG)
    run.step()
    run.open("short", "x" * SHORT)
    run.run()
    (begun, *_), parts = run.parts_of("short"), run.parts_of("long")
    assert begun <= parts[1]
    steps = [i for i, kinds in enumerate(run.model.launches) if kinds.get("short") == "step"]
    assert steps[0] < parts[-1]


def test_what_open_streams_will_take_is_not_free() -> None:
    net, tokenizer = fish_s2()
    codes = np.random.default_rng(1).integers(0, 1024, (POSITIONS, net.config.codebooks))
    family = FishS2("m", net, tokenizer, {"slt": (EncodedTurn(0, "So.", codes),)})
    run = Driven(family, slots=4, blocks=BLOCKS, keep=0)
    total = BLOCKS * BLOCK_POSITIONS
    assert run.engine.kv_positions == (total, total)
    run.open("long", "It is odd.", sampling=Sampling(max_new_tokens=24))
    run.engine.step()
    left, _ = run.engine.kv_positions
    # Of its prompt only a part is computed by now, and of its frames half are expected.
    likely = POSITIONS + 24 // 2
    assert likely < total - left < likely + 150
    run.run()
    run.engine.step()
    assert run.engine.kv_positions == (total, total)

"""Prompts of thousands of positions: in parts, beside others, evicted, resumed, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady, Event
from tests.late import Late
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.fields import Arrays, concatenate, cut
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import EncodedTurn
from ttsfamilies.base.talker.runner import Row
from ttsfamilies.fish_s2.family import FishNet, FishS2, load_net
from ttsfamilies.fish_s2.synthetic import write_checkpoint

POSITIONS = 2300  # of the voice
FRAME_S = 2048 / 44_100
TIMEOUT_S = 0.5
LONG = SpeechRequest(
    "long", "m", "long", "It is odd.", seed=3, sampling=Sampling(max_new_tokens=24)
)
SHORT = SpeechRequest(
    "short", "m", "none", "It is the end.", seed=4, sampling=Sampling(max_new_tokens=120)
)


@cache
def parts() -> tuple[FishNet, TextTokenizer]:
    """Two codebooks, and no end."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3, codebooks=2, ending=0.0)
        return load_net(Path(folder), "cpu", "float32"), TextTokenizer.load(Path(folder))


def model() -> FishS2:
    """A voice whose recording takes thousands of positions, and one of a few."""
    codes = np.random.default_rng(1).integers(0, 1024, (POSITIONS, 2))
    voices = {"long": (EncodedTurn(0, "So.", codes),), "none": (EncodedTurn(0, "So.", codes[:3]),)}
    return FishS2("m", *parts(), voices)


class Watched:
    """An engine stepped by hand at a time of our own; what each launch computed of which stream."""

    def __init__(self, family: FishS2, blocks: int = 400) -> None:
        self.now = 0.0
        self.engine = Engine(
            family,
            slots=4,
            blocks=blocks,
            depth=family.depth,
            metrics=Metrics(),
            clock=lambda: self.now,
            contention=Contention(read=lambda: None),
            keep=0,
        )
        self.engine.listen(self._listen)
        self.launches: list[dict[str, str]] = []
        self.chunks: dict[str, list[Arrays]] = {}
        self.ends: dict[str, Event] = {}
        launch, runner = self.engine._runner.launch, self.engine._runner
        runner.launch = self._watched(launch)  # type: ignore[method-assign]

    def _watched(self, launch: Any) -> Any:
        def watched(rows: Sequence[Row]) -> Any:
            keys = {stream.slot: stream.key for stream in self.engine._slots}
            kinds = {keys[row.slot]: "step" if row.plan.decode else "prompt" for row in rows}
            self.launches.append(kinds)
            return launch(rows)

        return watched

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self.chunks[key].append(event.arrays)
                self.engine.acknowledge(key)
            else:
                self.ends[key] = event

    def open(self, request: SpeechRequest, restored: Arrays | None = None) -> None:
        self.chunks[request.request_id] = [] if restored is None else [restored]
        prepared = self.engine.family.prepare(request)
        units = list(prepared.read([Text(request.text)], final=True))
        self.engine.open(prepared, restored, units, final=True)

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.engine.step()

    def until(self, key: str, seconds: float = 0.0) -> Arrays:
        for _ in range(1000):
            if key in self.ends:
                break
            self.step(seconds)
        assert isinstance(self.ends[key], Finished), self.ends
        return concatenate(self.chunks[key])

    def parts_of(self, key: str) -> list[int]:
        """Launches that have a part of the stream's prompt."""
        return [i for i, launch in enumerate(self.launches) if launch.get(key) == "prompt"]


@cache
def alone(name: str = "long") -> Arrays:
    run = Watched(model())
    run.open(LONG if name == "long" else SHORT)
    return run.until(name)


def same(one: Arrays, other: Arrays) -> None:
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(True, id="in need", marks=pytest.mark.slow),
        pytest.param(False, id="well supplied"),
    ],
)
def test_a_long_prompt_never_stands_in_front_of_anothers_frame(slow: bool) -> None:
    run = Watched(model())
    run.open(SHORT)
    while not run.chunks["short"]:
        run.step()
    before = len(run.launches)
    run.open(LONG)
    # As fast as frames are played nothing is gained; else the listener soon has a lot in hand.
    while not run.chunks["long"]:
        run.step(FRAME_S if slow else 0.0)
    spoken, parts = run.launches[before:], [i - before for i in run.parts_of("long")]
    assert len(parts) >= POSITIONS // 512
    assert all(launch.get("short") == "step" for launch in spoken[: parts[-2]])
    between = np.diff(parts)[:-1]
    if slow:  # frames come first, and yet the prompt gets on
        assert (between >= 2).all()
        assert (between <= TIMEOUT_S / FRAME_S + 2).all()
    else:
        assert (between == 1).all()
    same(run.until("long"), alone())
    same(run.until("short"), alone("short"))


def test_a_newcomer_does_not_wait_for_a_long_prompt() -> None:
    run = Watched(model())
    run.open(LONG)
    run.step()
    run.open(SHORT)
    run.until("long")
    (begun, *_), parts = run.parts_of("short"), run.parts_of("long")
    assert begun <= parts[1]
    steps = [i for i, launch in enumerate(run.launches) if launch.get("short") == "step"]
    assert steps[0] < parts[-1]


@pytest.mark.slow
def test_a_long_stream_is_evicted_and_resumed_and_says_the_same() -> None:
    run = Watched(model())
    run.open(LONG)
    while len(run.parts_of("long")) < 3:
        run.step()
    for stream in run.engine._slots:  # in the middle of its prompt
        stream.evict()
    while not run.chunks["long"]:
        run.step()
    for stream in run.engine._slots:
        stream.evict()
    same(run.until("long"), alone())
    successor = Watched(model())
    successor.open(LONG, cut(alone(), 0, 11))
    same(successor.until("long"), alone())


@pytest.mark.slow
def test_on_a_device_reaches_beyond_the_shortest_say_the_same() -> None:
    family = model()
    family.compute_on(Late())
    run = Watched(family)
    run.open(LONG)
    found = run.until("long")
    # Products over batches of other shapes: as far as ids go the CPU's.
    np.testing.assert_array_equal(found["codes"][:8], alone()["codes"][:8])
    reaches = run.engine._runner.decodes._reaches.sizes  # type: ignore[attr-defined]
    assert reaches[0] == 512
    assert reaches[0] < POSITIONS < reaches[1]


def test_what_open_streams_will_take_is_not_free() -> None:
    run = Watched(model())
    free, total = run.engine.kv_positions
    assert free == total == 400 * 16
    run.open(LONG)
    run.step()
    left, _ = run.engine.kv_positions
    # Of its prompt only a part is computed by now, and of its frames half are expected.
    expected = POSITIONS + 24 // 2
    assert expected < total - left < expected + 150
    run.until("long")
    run.step()
    assert run.engine.kv_positions == (total, total)


def test_what_cannot_fit_is_refused_and_says_what_to_change() -> None:
    small = model()
    small.fit(2048)
    with pytest.raises(TextTooLong, match=r"recording takes 23\d\d of 2048 .* larger KV cache"):
        Watched(small, blocks=128).open(LONG)
    # One that a family let through ends as typed, and alone.
    run = Watched(model(), blocks=128)
    run.open(SHORT)
    run.open(msgspec.structs.replace(LONG, request_id="other"))
    same(run.until("short"), alone("short"))
    failed = run.ends["other"]
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, TextTooLong)
    assert "split the text" in str(failed.error)

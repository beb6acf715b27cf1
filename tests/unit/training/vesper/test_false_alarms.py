"""The default voice ends its texts; nothing of that is taken for a runaway."""

from pathlib import Path

import numpy as np

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttsfamilies.tiny_vesper import tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.torch_runner import TorchRunner
from voicetrain.corpus import held_out
from voicetrain.vesper.false_alarms import GuardedVoice, RunnerOfMany

VOICE = Path(__file__).resolve().parents[4] / "voices/vesper"


def test_endings_at_the_slowest_and_the_hottest_are_no_runaways() -> None:
    shortest = min(held_out("hard"), key=len)
    (found,) = GuardedVoice(VOICE).listen([shortest], [1.2], [0.7])
    assert found.endings == 1
    assert found.seconds > 2
    assert found.caught == ()


def test_many_at_once_take_the_paths_that_each_takes_alone() -> None:
    voice = tiny()
    texts = ["One.", "Two of these. And a third!", "A longer one, that goes on for a while."]
    requests = [SpeechRequest(str(i), "m", "slt", text, seed=i) for i, text in enumerate(texts)]
    runners = (RunnerOfMany(voice, 2), TorchRunner(voice, 2, 96, 0))
    together, alone = (
        synthesise(Engine(voice, slots=2, blocks=96, metrics=Metrics(), runner=runner), requests)
        for runner in runners
    )
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.arrays["move"], other.arrays["move"])

"""The trial before a start finds every kernel that is off its twin, and none that is not."""

from typing import Any

import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.late import Late
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.kernels.choice import Version, only
from ttscommon.engine.kernels.trial import BLOCKS, Trial, problems_of
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.codec.kernels import behind_triton, convolve_triton, ring_triton
from ttsfamilies.base.codec.kernels.trials import CONVOLUTION
from ttsfamilies.base.codec.kernels.trials import TRIALS as OF_CODECS
from ttsfamilies.base.kernels import (
    attention_triton,
    cache_triton,
    frame_triton,
    slots_triton,
    steps_triton,
)
from ttsfamilies.base.kernels.trials import TRIALS as OF_TALKERS
from ttsfamilies.base.sampling import draw_triton

pytest.importorskip("triton")

CPU = torch.device("cpu")
ALL = (*BLOCKS, *OF_TALKERS, *OF_CODECS, CONVOLUTION)


# tests/unit/ttscommon/engine/kernels/test_few_rows.py holds this one against its twin as well.
LONG = {"products of few rows"}


@pytest.mark.parametrize(
    "trial",
    [pytest.param(one, id=one.name, marks=[pytest.mark.slow] * (one.name in LONG)) for one in ALL],
)
def test_a_kernel_that_agrees_has_no_problem(trial: Trial) -> None:
    assert problems_of([trial], CPU) == []


@pytest.mark.parametrize(
    ("module", "name", "trials"),
    [
        (slots_triton, "embed_codes", OF_TALKERS[5:6]),
        (draw_triton, "sample", OF_TALKERS[6:]),
        (behind_triton, "put_behind", OF_CODECS[1:]),
        (convolve_triton, "convolve", (CONVOLUTION,)),
        *(
            pytest.param(*long, marks=pytest.mark.slow)
            for long in (
                (steps_triton, "attend_step", OF_TALKERS[:1]),
                (attention_triton, "attend", OF_TALKERS[1:2]),
                (cache_triton, "rotate_store", OF_TALKERS[2:3]),
                (frame_triton, "attend_frame", OF_TALKERS[3:5]),
                (ring_triton, "attend_ring", OF_CODECS[:1]),
            )
        ),
    ],
)
def test_a_kernel_that_is_off_is_named(
    module: Any, name: str, trials: tuple[Trial, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(module, name)

    def wrong(*args: Any, **told: Any) -> Any:
        found = right(*args, **told)
        return (found[0] + 1, *found[1:]) if isinstance(found, tuple) else found + 1

    monkeypatch.setattr(module, name, wrong)
    problems = problems_of(trials, CPU)
    assert [problem.partition(":")[0] for problem in problems] == [one.name for one in trials]


def spoken(version: Version) -> Arrays:
    """Few frames, few shapes: the interpreter takes many seconds for each."""
    family = tiny()
    family.compute_on(Late())
    sampling = Sampling(top_k=20, max_new_tokens=3)
    request = SpeechRequest("r", "m", "slt", "One step.", seed=1, sampling=sampling)
    with only(version):
        engine = Engine(family, blocks=8, slots=1, depth=family.depth, metrics=Metrics())
        (found,) = synthesise(engine, [request])
    assert found.error is None
    return found.arrays


@pytest.mark.slow
def test_a_stream_of_qwen3_tts_says_the_same_by_kernels_and_by_their_twins() -> None:
    fused, plain = spoken("triton"), spoken("torch")
    assert len(plain["codes"]) == 2
    np.testing.assert_array_equal(fused["codes"], plain["codes"])

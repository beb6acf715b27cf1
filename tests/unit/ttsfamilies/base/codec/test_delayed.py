"""Rows of delayed codes in front of a decoder of frames: what it is shown of them."""

import numpy as np
import torch
from torch import Tensor, nn

from tests.unit.vocoder.test_conformance import request
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Array, Field
from ttsfamilies.base.codec.base import Codec, CodecSpec, Work
from ttsfamilies.base.codec.windowed import DelayedCodec, WindowedCodec, windowed_spec

DELAY_PATTERN = DelayPattern.even(4)
FRAMES = np.random.default_rng(1).integers(0, 512, (9, 4)).astype(np.int16)
_SAMPLES, _AROUND = 8, 11


class Smoothed(nn.Module):
    """Samples that depend on those around them."""

    def __init__(self) -> None:
        super().__init__()
        taps = torch.hann_window(2 * _AROUND + 1) / 40
        self.taps = nn.Parameter(taps[None, None], requires_grad=False)

    def forward(self, codes: Tensor) -> Tensor:
        told = (codes.float() / 512 - 0.5) * torch.arange(1, 5)
        steps = told.sum(1).repeat_interleave(_SAMPLES)[None]
        return nn.functional.conv1d(steps, self.taps, padding=_AROUND)[0]


def spec() -> CodecSpec:
    return windowed_spec("m", "toy", 800, _SAMPLES, _AROUND, Field((4,), "i2", 512))


def smoothed() -> Codec:
    return WindowedCodec(Smoothed(), spec())


def delayed() -> Codec:
    return DelayedCodec(Smoothed(), spec(), 514)


def spoken(codec: Codec, codes: Array) -> list[float]:
    (samples,) = codec.decode([Work(codec.open(request("a")), {"codes": codes}, final=True)])
    return list(samples)


def test_rows_sound_like_their_frames_in_which_an_id_that_is_no_code_counts_as_the_first() -> None:
    frames = FRAMES.copy()
    frames[4, 2] = 513
    rows = DELAY_PATTERN.rows(frames, 512, 513)
    frames[4, 2] = 0
    assert spoken(delayed(), rows) == spoken(smoothed(), frames)
    assert spoken(delayed(), rows[:3]) == [], "no frame is complete"


def test_a_step_is_measured_with_rows_that_complete_frames() -> None:
    codec = delayed()
    state = codec.example(request("a"))
    (sound,) = codec.decode([Work(state, codec.example_frames(4), final=False)])
    assert len(sound) == 4 * _SAMPLES - _AROUND

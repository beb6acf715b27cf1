"""What a step of Qwen3-TTS's published codec launches and moves, counted without a GPU."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest
import torch

from tests.launches import META, Launches, WithoutValues, counted, size_of
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.qwen3_tts.codec import Qwen3Codec, Windows
from ttsfamilies.qwen3_tts.codec_net import CodecConfig, CodecDecoder, FusedDecoder
from ttsfamilies.qwen3_tts.sizes import codec_config

pytest.importorskip("triton")

ROWS: Final = 64
FRAMES: Final = 4
MOST_LAUNCHES: Final = 220
MOST_BYTES_A_FRAME: Final = 70e6


def behind(told: Mapping[str, Any]) -> int:
    """Tails are read and written for the launch's rows alone."""
    rows, channels, _ = told["out"].shape
    moved = size_of(told["out"]) + size_of(told["x"])
    moved += size_of(told["added"]) if told["HAS_ADDED"] else 0
    moved += size_of(told["summed_out"]) if told["HAS_SUM"] else 0
    return moved + 2 * rows * channels * told["TAIL"] * told["out"].element_size()


def ring(told: Mapping[str, Any]) -> int:
    """The ring is read for the launch's rows alone, and a place written for each new step."""
    rows, steps, _, dim = told["q"].shape
    fresh = sum(size_of(told[name]) for name in ("q", "k", "v", "out"))
    held = 2 * rows * told["RING"] * told["KV_HEADS"] * dim * 4
    return fresh + held + 2 * rows * min(steps, told["RING"]) * told["KV_HEADS"] * dim * 4


def published() -> CodecDecoder:
    sizes = msgspec.convert(codec_config("1.7b"), CodecConfig).decoder_config
    with META:
        net = CodecDecoder(sizes)
        net.quantizer.freeze()
    return net.eval().requires_grad_(False)


def step() -> Launches:
    """A step of 256 frames, as a graph records it."""
    net = published()
    state = [
        x.expand(ROWS + 1, *x.shape[1:]).contiguous() for x in net.new_state().named().values()
    ]
    codes = torch.zeros(ROWS, FRAMES, 16, dtype=torch.int64, device=META)
    numbers = torch.zeros(ROWS, dtype=torch.int64, device=META)
    fused, rows = FusedDecoder(net), StateRows(numbers, numbers.bool(), numbers)
    kernels = {"put_behind_tails": behind, "attend_rings": ring}
    with counted(kernels) as launches:
        samples = fused.step(codes, rows, state)
    assert samples.shape == (ROWS, FRAMES * 1920)
    return launches


def test_a_step_of_the_codec_launches_and_moves_no_more_than_this() -> None:
    launches = step()
    assert launches.count <= MOST_LAUNCHES, launches.names.most_common(20)
    moved = launches.total_bytes / (ROWS * FRAMES)
    assert moved <= MOST_BYTES_A_FRAME, launches.bytes.most_common(20)


@pytest.mark.parametrize(
    "windows",
    [
        pytest.param(None, id="exact"),
        pytest.param(Windows(), id="windows", marks=pytest.mark.slow),
    ],
)
def test_every_shape_that_is_recorded_is_computed_by_kernels(windows: Windows | None) -> None:
    """A row of one frame was refused: torch calls any strides of a size of 1 contiguous."""
    how = CodecOptions((windows.size, windows.context) if windows else None, WithoutValues())
    codec = Qwen3Codec("m", published(), 24_000, how)
    shapes = codec.on_device.shapes.expected()
    assert {shape.frames for shape in shapes} >= ({1, 2} if windows is None else {32})
    for shape in shapes:
        with counted() as launches:
            recorded = codec.on_device.launches.recorded(shape)
        assert launches.names["attend_rings"] == codec.net.transformer.config.layers
        assert recorded.result.layout is not None
        told = recorded.result.layout.fields["samples"]
        assert told[0] == (shape.frames * codec.spec.samples_per_frame,)

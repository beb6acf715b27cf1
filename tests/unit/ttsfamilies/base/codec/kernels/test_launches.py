"""A step of Qwen3-TTS's codec by fused kernels: its launches, what they move and compute."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
import torch
from torch import Tensor

from tests.launches import META, Launches, WithoutValues, counted, size_of
from tests.unit.ttsfamilies.qwen3_tts.codec.tiny import SIZES, drawn
from ttscommon.engine.kernels.choice import only
from ttsfamilies.base.codec.executor import StateSlots
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.qwen3_tts.codec import Qwen3Codec, Windows
from ttsfamilies.qwen3_tts.codec_net import CodecConfig, CodecDecoder, FusedDecoder, SnakeBeta
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
        told = recorded.result.fields["samples"]
        assert told[0] == (shape.frames * codec.spec.samples_per_frame,)


# Few samples a frame: the interpreter is slow.
SMALL = replace(SIZES, upsample_rates=(2, 3, 2, 2), num_hidden_layers=1)
STATES = 3
# Real frames of the rows of each launch, in the slots below; the ring holds 4 steps.
LENGTHS = ((2, 1), (6, 3), (1, 6), (3, 0), (1, 1))
SLOTS = ((2, 0), (2, 0), (0, 2), (2, 0), (0, 2))


def net(dtype: torch.dtype) -> CodecDecoder:
    found, g = drawn(torch.float32, SMALL), torch.Generator().manual_seed(5)
    for module in found.modules():
        if isinstance(module, SnakeBeta):
            for parameter in (module.alpha, module.beta):
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=g))
    return found.to(dtype)


def codes(g: torch.Generator, rows: int, steps: int) -> Tensor:
    shape = rows, steps, SIZES.num_quantizers
    return torch.randint(0, SIZES.codebook_size, shape, generator=g)


@pytest.mark.slow
@pytest.mark.parametrize("tensor_cores", [False, True])
@torch.inference_mode()
def test_streams_go_on_from_states_that_stay_where_they_are_as_the_network_does(
    tensor_cores: bool,
) -> None:
    fused = FusedDecoder(net(torch.float32), tensor_cores=tensor_cores)
    exact = net(torch.float64)
    exact.quantizer.freeze()
    blank = {name: x[0] for name, x in net(torch.float32).new_state().named().items()}
    resident = StateSlots(blank, STATES, torch.device("cpu"))
    for tensor in resident.tensors.values():
        tensor.fill_(1 if tensor.dtype == torch.int64 else torch.nan)  # of others before them
    g, begun = torch.Generator().manual_seed(0), set[int]()
    said: dict[int, list[Tensor]] = {0: [], 2: []}
    found: dict[int, list[Tensor]] = {0: [], 2: []}
    for slots, lengths in zip(SLOTS, LENGTHS, strict=True):
        told, fresh = codes(g, 2, max(lengths)), [slot not in begun for slot in slots]
        begun |= set(slots)
        rows = StateRows(torch.tensor(slots), torch.tensor(fresh), torch.tensor(lengths))
        with only("triton"):
            samples = fused.step(told, rows, list(resident.tensors.values()))
        for row, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
            said[slot].append(told[row, :length])
            found[slot].append(samples[row, : length * (samples.shape[1] // told.shape[1])])
    for slot in said:
        wanted = exact(torch.cat(said[slot])[None])[0]
        assert (torch.cat(found[slot]) - wanted).abs().max() < 1e-5
        assert wanted.abs().max() > 1e-2
    assert resident.tensors["1"][1].isnan().all(), "no launch was told of this slot"

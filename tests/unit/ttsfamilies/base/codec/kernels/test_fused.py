"""A step of Qwen3-TTS's codec by fused kernels, in Triton's interpreter, against the network's."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.unit.ttsfamilies.qwen3_tts.codec.tiny import SIZES, drawn
from ttscommon.engine.kernels.choice import only
from ttsfamilies.base.codec.executor import StateSlots
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.qwen3_tts.codec_net import CodecDecoder, FusedDecoder, SnakeBeta

pytest.importorskip("triton")

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
def test_streams_go_on_from_states_that_stay_where_they_are(tensor_cores: bool) -> None:
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

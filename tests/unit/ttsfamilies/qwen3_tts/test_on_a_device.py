"""Qwen3-TTS through the runner of a device: the whole frame is one recording."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.kernels.choice import only
from ttscommon.wire.fields import Field
from ttsfamilies.base.kernels.attention import prompt_tiles
from ttsfamilies.base.runners.computation import Prompts, Rows
from ttsfamilies.base.runners.kv import DeviceCache
from ttsfamilies.qwen3_tts.family import Qwen3Tts

META = torch.device("meta")
KINDS = {"i8": torch.int64, "i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}


def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=META)


def fields(told: Mapping[str, Field], rows: int) -> dict[str, Tensor]:
    return {n: zeros(rows, *f.shape, dtype=KINDS[f.dtype]) for n, f in told.items()}


@pytest.fixture
def without_values() -> Any:
    """The family on a device whose tensors have shapes alone: a read, or a shape that hangs on a
    value, raises.
    """
    family = tiny()
    cache = DeviceCache(family.spec.caches["backbone"], 8, torch.float32, META)
    net = family._net
    with torch.device("meta"):
        family._net = type(net)(net.config)
    family._net.eval().requires_grad_(False)
    family.make_frames_of(family._net)
    return family, cache


def test_a_decode_step_reads_nothing_back(without_values: tuple[Qwen3Tts, DeviceCache]) -> None:
    family, cache = without_values
    slots, positions, tables = zeros(4), zeros(4), zeros(4, 8, dtype=torch.int32)
    with torch.inference_mode(), only("torch"):
        attend = {"backbone": cache.decode(tables, positions, 128)}
        out = family.decode(Rows(slots, positions, 4), fields(family.spec.state, 9), attend)
    assert out.frames["codes"].shape == (4, 1, 4)
    assert {tensor.device for tensor in (out.gained, out.ended, out.bad)} == {META}


def test_a_prompt_reads_nothing_back(without_values: tuple[Qwen3Tts, DeviceCache]) -> None:
    family, cache = without_values
    assert family.fixed_prompts
    slots, tables = zeros(2), zeros(2, 8, dtype=torch.int32)
    tiles = torch.tensor(prompt_tiles([0, 0], [20, 12]), dtype=torch.int32).view(-1, 4).to(META)
    rows = Prompts(
        *(slots, zeros(32), 2, fields(family.spec.inputs, 32), zeros(2)),
        zeros(2, dtype=torch.bool),
    )
    with torch.inference_mode(), only("torch"):
        attend = {"backbone": cache.prompts(tables, tiles, zeros(32), 128)}
        out = family.prefill(rows, fields(family.spec.state, 9), attend)
    assert out.gained.device == META

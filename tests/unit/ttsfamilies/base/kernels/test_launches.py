"""How often a decode step of the published 1.7B shape launches a kernel, counted without a GPU."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest
import torch

from antiphon_bench.gpu.engines import STEP_LAUNCHES
from tests.launches import META, Launches, WithoutValues, counted, size_of
from tests.unit.ttsfamilies.qwen3_tts.test_frame import fields, zeros
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttsfamilies.base.runners.computation import Rows
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.resident import DeviceCache
from ttsfamilies.qwen3_tts.config import GenerationConfig, TalkerConfig
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import TalkerNet
from ttsfamilies.qwen3_tts.sizes import PUBLISHED_TEXT_VOCABULARY, model_config

pytest.importorskip("triton")

MOST: Final = {1: 610, 64: 580}
AROUND: Final = 20
"""Launches that are no layer's, no head's and no next input's."""
MOST_BYTES: Final = {1: 5.4e9, 64: 8.8e9}
_POSITION: Final = 300


def few(told: Mapping[str, Any]) -> int:
    """Of a table the rows that are meant, of what there is none of nothing."""
    names = ["out", *(["x"] if not told["HAS_IDS"] else ["ids"])]
    names += [n for n in ("bias", "norm", "added", "factors") if told[f"HAS_{n.upper()}"]]
    taken = told["rows"] * told["INPUTS"] * told["x"].element_size() if told["HAS_IDS"] else 0
    return size_of(told["weight"]) + sum(size_of(told[name]) for name in names) + taken


def attended(told: Mapping[str, Any]) -> int:
    """Keys and values of _POSITION positions of each row, whatever the cache holds."""
    new = sum(size_of(told[name]) for name in ("q", "k", "v", "out", "mixed_out", "stats_out"))
    cached = 2 * len(told["q"]) * _POSITION * told["KV_HEADS"] * told["DIM"]
    return new + cached * told["keys"].element_size()


def embedded(told: Mapping[str, Any]) -> int:
    """Of two tables the rows that are meant."""
    return (told["CODEBOOKS"] + 1) * size_of(told["out"])


KERNELS: Final = {"multiply_rows": few, "attend_rows": attended, "embed_rows": embedded}


def published() -> Qwen3Tts:
    """Weights of bfloat16 that have shapes alone."""
    told = model_config("1.7b", "custom_voice", PUBLISHED_TEXT_VOCABULARY)
    with META:
        net = TalkerNet(msgspec.convert(told, TalkerConfig)).to(torch.bfloat16)
    net.keep_float32(META)
    tokenizer = tiny()._tokenizer
    family = Qwen3Tts("m", net.eval().requires_grad_(False), tokenizer, GenerationConfig())
    family._never = type(family._never).of(net.config.talker_config, META)
    return family


def step(rows: int) -> Launches:
    """A step of so many streams, as a graph records it."""
    family = published()
    cache = DeviceCache(family.spec.caches["backbone"], 8, torch.bfloat16, META)
    slots, positions, tables = zeros(rows), zeros(rows), zeros(rows, 32, dtype=torch.int32)
    state = fields(family.spec.state, rows + 1)
    with counted(KERNELS) as launches:
        attend = {"backbone": cache.decode(tables, positions, 512)}
        out = family.decode(Rows(slots, positions, rows), state, attend)
    assert out.frames["codes"].shape == (rows, 1, 16)
    return launches


@pytest.mark.parametrize("rows", [1, 64])
def test_a_step_launches_no_more_kernels_than_this(rows: int) -> None:
    launches = step(rows)
    assert launches.count <= MOST[rows], launches.names.most_common(20)
    assert launches.total_bytes <= MOST_BYTES[rows], launches.bytes.most_common(20)
    assert launches.names["attend_frames"] == 15 * 5
    # Five a layer, of which four are products; a head, a draw and a next input a codebook.
    layers = 5 * (28 + 15 * 5) + (28 if rows == 1 else 0)
    assert launches.count - layers - (15 + 16 + 14) + 1 <= AROUND, launches.names
    assert launches.names["clone"] <= 5, "nothing is copied to be contiguous"


def test_what_is_predicted_of_a_step_has_its_launches() -> None:
    assert step(64).count == STEP_LAUNCHES


def test_every_shape_that_is_recorded_is_computed_by_kernels() -> None:
    """Steps, prompts, and turns of both."""
    family = published()
    runner = DeviceRunner(family, 4, 512, WithoutValues())
    with counted() as launches:
        runner.record(4, 64)
    assert launches.names["sample_rows"] > 0
    assert launches.names["attend_tiles"] > 0
    assert runner.mixed is not None
    for kind in (runner.decodes, runner.mixed.prompts, runner.mixed.steps, runner.mixed.frames):
        assert kind._launches._recorded, type(kind).__name__

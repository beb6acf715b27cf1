"""A frame of Qwen3-TTS: which ids may be drawn, what ends it, what of it stays exact, and that a
device computes all of it without a read back.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.kernels.choice import only
from ttscommon.wire.fields import Field
from ttsfamilies.base.kernels.attention import prompt_tiles
from ttsfamilies.base.kernels.slots import FED, move_on
from ttsfamilies.base.runners.computation import Prompts, Rows
from ttsfamilies.base.runners.resident import DeviceCache
from ttsfamilies.base.sampling import Rules
from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import CodePredictor, TalkerNet
from ttsfamilies.qwen3_tts.sizes import model_config
from ttsfamilies.qwen3_tts.stream import Prohibitions

NEVER = float("-inf")
META = torch.device("meta")
KINDS = {"i8": torch.int64, "i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}


def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=META)


def fields(told: Mapping[str, Field], rows: int) -> dict[str, Tensor]:
    return {n: zeros(rows, *f.shape, dtype=KINDS[f.dtype]) for n, f in told.items()}


def constrained(config: TalkerConfig, logits: Tensor, made: int, penalty: float = 1.0) -> Tensor:
    seen = torch.zeros(1, 3072, dtype=torch.bool)
    seen[0, [5, 6]] = True
    never = Prohibitions.of(config.talker_config)
    rules = never.rules(seen, torch.tensor([made]), torch.tensor([penalty]))
    return rules.applied(logits[None])[0]


def test_control_ids_are_never_chosen_and_the_end_is_behind_two_frames(
    config: TalkerConfig,
) -> None:
    out = constrained(config, torch.zeros(3072), made=2)
    assert torch.isfinite(out).nonzero()[:, 0].tolist() == [*range(2048), 2150]
    ends = [float(constrained(config, torch.ones(3072), made)[2150]) for made in range(4)]
    assert ends == [NEVER, NEVER, 1.0, 1.0]


def test_ids_heard_before_are_punished_on_either_side_of_zero(config: TalkerConfig) -> None:
    logits = torch.zeros(3072)
    logits[[5, 6, 7]] = torch.tensor([2.0, -2.0, 2.0])
    out = constrained(config, logits, 5, penalty=4.0)
    assert out[[5, 6, 7]].tolist() == [0.5, -8.0, 2.0]


def test_the_predictors_bits_do_not_depend_on_its_batch_at_published_widths() -> None:
    c = msgspec.convert(model_config("1.7b", "base", 8), TalkerConfig).talker_config
    small = replace(c.code_predictor_config, num_hidden_layers=1, num_code_groups=4)
    c = replace(c, num_code_groups=4, code_predictor_config=small)
    torch.manual_seed(0)
    net = CodePredictor(c)
    torch.nn.init.normal_(net.heads)
    hidden, first = torch.randn(12, 2048), torch.randn(12, 2048)
    kept: list[Tensor] = []

    def pick(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        del codebook, rules
        kept.append(logits)
        return logits.argmax(-1)

    with torch.inference_mode():
        net(hidden, first, pick)
        whole, kept = kept, []
        net(hidden[4:8], first[4:8], pick)
    assert all(torch.equal(a[4:8], b) for a, b in zip(whole, kept, strict=True))


def test_the_end_is_no_frame_and_a_row_that_is_not_finite_is_bad_alone() -> None:
    """Four rows: a frame, the end, one that was over, one that is not finite."""
    c = tiny().spec
    state = {n: torch.zeros(5, *f.shape, dtype=KINDS[f.dtype]) for n, f in c.state.items()}
    state["over"][2] = 1
    codes, logits = torch.full((4, 4), 3), torch.zeros(4, 9)
    codes[1, 0], logits[3, 4] = 7, torch.nan
    told = torch.arange(4), 4, torch.full((4,), FED), torch.ones(4).bool()
    moved = move_on(state, *told, logits, codes, 7)
    assert moved.gained.tolist() == [1, 0, 0, 1]
    assert moved.ended.tolist() == [False, True, False, False]
    assert moved.bad.tolist() == [False, False, False, True]
    assert state["frame"].tolist() == [1, 0, 0, 1, 0]
    assert state["told"].tolist() == [1, 1, 0, 1, 0]
    assert state["over"].tolist() == [0, 1, 1, 0, 0]
    assert state["seen"].nonzero().tolist() == [[0, 3], [3, 3]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_narrow_weights_only_the_predictors_queries_stay_exact(
    config: TalkerConfig, dtype: torch.dtype
) -> None:
    with torch.device("meta"):
        net = TalkerNet(config).to(dtype)
    net.keep_float32()
    exact = [name for name, p in net.named_parameters() if p.dtype == torch.float32]
    assert exact
    assert all(name.startswith("predictor.decoder.blocks") for name in exact)
    assert {name.split(".")[-2] for name in exact} == {"qkv", "q_norm", "k_norm"}


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

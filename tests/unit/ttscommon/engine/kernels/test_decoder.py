"""A stack of blocks: what stays exact, and fused kernels (Triton's interpreter) against torch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import only
from ttscommon.engine.kernels.few_rows import none_are_few
from ttscommon.engine.nn import Decoder, DecoderConfig, RMSNorm, RopeConfig, dense_attention
from ttscommon.engine.nn.decoder import Scale

pytest.importorskip("triton")

QWEN = DecoderConfig(
    dim=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=48, qk_norm=True
)  # fmt: skip
PREDICTOR = replace(QWEN, fp32_qkv=True)
# float16 stands for bfloat16, whose products Triton's interpreter cannot compute.
TYPES = {torch.float32: 2e-6, torch.float16: 6e-3}


def drawn(config: DecoderConfig, dtype: torch.dtype) -> Decoder:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Decoder(config)
    for module in net.modules():
        if isinstance(module, (RMSNorm, Scale)):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    net = net.to(dtype)
    net.keep_float32()
    return net


@torch.inference_mode()
def run(net: Decoder, x: Tensor, last: Tensor | None = None) -> Tensor:
    count = x.shape[-2]
    visible = torch.ones(count, count, dtype=torch.bool).tril()
    positions = torch.arange(3, 3 + count)
    return net(x, positions, lambda _, q, k, v: dense_attention(q, k, v, visible), last)


@pytest.mark.parametrize("rows", [nullcontext, none_are_few], ids=["few rows", "many"])
@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("shape", [(5, 32), pytest.param((3, 2, 32), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "config",
    [
        QWEN,
        PREDICTOR,
        replace(QWEN, qk_norm=False, qkv_bias=True, out_bias=True),
        replace(QWEN, layer_scale=True),
        # What the kernels do not know is left to torch.
        replace(QWEN, norm="layer"),
        replace(QWEN, mlp="gelu"),
        replace(QWEN, final_norm=False),
        replace(QWEN, rope=RopeConfig(interleaved=True)),
    ],
)
def test_fused_blocks_are_the_blocks(
    config: DecoderConfig,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    rows: Callable[[], AbstractContextManager[None]],
) -> None:
    net, exact = drawn(config, dtype), drawn(config, torch.float32).double()
    exact.load_state_dict({name: w.double() for name, w in net.state_dict().items()})
    x = torch.randn(shape).to(dtype)
    with only("triton"), rows():
        fused = run(net, x)
    plain, wanted = run(net, x), run(exact, x.double())
    assert fused.dtype == plain.dtype == dtype
    scale = wanted.abs().max()
    assert (fused.double() - wanted).abs().max() < TYPES[dtype] * scale
    assert (plain.double() - wanted).abs().max() < TYPES[dtype] * scale


def test_training_is_left_to_torch() -> None:
    """Kernels know no gradients."""
    net = drawn(QWEN, torch.float32)
    with only("triton"):
        out = net(torch.randn(5, 32), torch.arange(5), lambda _, q, k, v: q)
    out.sum().backward()
    assert net.blocks[0].mlp.down.weight.grad is not None  # type: ignore[union-attr]


def test_queries_and_keys_stay_float32_under_narrow_weights_where_asked() -> None:
    types: set[torch.dtype] = set()

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        types.update((q.dtype, k.dtype, v.dtype))
        return q

    net = drawn(PREDICTOR, torch.bfloat16)
    out = net(torch.randn(3, 32).bfloat16(), torch.arange(3), attend)
    assert types == {torch.float32}
    assert out.dtype == net.state_dict()["blocks.0.mlp.down.weight"].dtype == torch.bfloat16


@pytest.mark.parametrize("kernels", [nullcontext, lambda: only("triton")], ids=["torch", "triton"])
def test_some_states_are_those_among_all(
    kernels: Callable[[], AbstractContextManager[None]],
) -> None:
    net, x, last = drawn(QWEN, torch.float32), torch.randn(5, 32), torch.tensor([1, 4])
    with kernels():
        torch.testing.assert_close(run(net, x, last), run(net, x)[last])


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of KV heads"):
        replace(QWEN, kv_heads=3)
    with pytest.raises(ValueError, match="even head_dim"):
        replace(QWEN, head_dim=7)

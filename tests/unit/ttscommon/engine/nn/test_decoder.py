"""The shared block: its switches, and what stays exact under narrow weights."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ttscommon.engine.nn import Decoder, DecoderConfig, RMSNorm, dense_attention

SMALL = DecoderConfig(dim=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=48)


def causal(count: int) -> Tensor:
    return torch.ones(count, count, dtype=torch.bool).tril()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)


def test_queries_and_keys_stay_float32_under_narrow_weights_where_asked() -> None:
    net = Decoder(replace(SMALL, qk_norm=True, fp32_qkv=True)).to(torch.bfloat16)
    net.keep_float32()
    types: set[torch.dtype] = set()

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        types.update((q.dtype, k.dtype, v.dtype))
        return dense_attention(q, k, v, causal(3))

    out = net(torch.randn(3, 32).bfloat16(), torch.arange(3), attend)
    assert types == {torch.float32}
    assert out.dtype == torch.bfloat16
    assert net.state_dict()["blocks.0.mlp.down.weight"].dtype == torch.bfloat16


def test_the_variance_of_a_narrow_norm_is_summed_in_float32() -> None:
    x = (torch.randn(64, 4096) * 30).bfloat16()
    exact = x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    narrow = RMSNorm(4096, 1e-6).bfloat16()(x).float()
    assert ((narrow - exact).abs() <= exact.abs() * 2**-8).all()


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of KV heads"):
        replace(SMALL, kv_heads=3)
    with pytest.raises(ValueError, match="even head_dim"):
        replace(SMALL, head_dim=7)

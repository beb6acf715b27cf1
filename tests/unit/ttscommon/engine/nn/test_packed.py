"""Language models in fewer bytes: what is packed when it is loaded, what is not, and how near it
stays.
"""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import save_file
from structlog.testing import capture_logs
from torch import nn

from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.kernels import choice
from ttscommon.engine.kernels.few_rows import none_are_few
from ttscommon.engine.nn import Decoder, DecoderConfig, HalfLinear, halve
from ttscommon.engine.nn.experts import ExpertMixture, ExpertSizes, expert_sources
from ttscommon.engine.nn.linears import Float8Linear
from ttscommon.engine.nn.packed import PackedLinear, Weights, packed_on, packing
from ttscommon.engine.nn.weights import Shards, decoder_sources, filled, published_shapes, unfilled

SMALL = DecoderConfig(dim=32, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=48)
OF_A_BLOCK = 4
# How far from float32 a state may be, of states near 1.
CLOSE: dict[Weights, float] = {
    "bfloat16": 0.05, "float16": 0.01, "int8": 0.1, "fp8": 0.3, "auto": 1e-4,
}  # fmt: skip


class Speaks(nn.Module):
    """A language model with a table and a head; experts: in place of its feed-forward networks."""

    def __init__(self, c: DecoderConfig, experts: ExpertSizes | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(10, c.dim)
        self.stack = Decoder(c, None if experts is None else lambda _: ExpertMixture(experts))
        self.head = nn.Linear(c.dim, 10, bias=False)


def loaded(
    folder: Path,
    weights: Weights | None,
    config: DecoderConfig = SMALL,
    *,
    stored: torch.dtype = torch.float32,
) -> Speaks:
    net = unfilled(Speaks, config)
    sources = decoder_sources(config, "stack.", "m.")
    sources |= {name: replace(sources["stack.norm.weight"], names=(name,)) for name in OTHERS}
    if not any(folder.iterdir()):
        generator = torch.Generator().manual_seed(1)
        shapes = published_shapes(net, sources).items()
        numbers = {n: torch.randn(s, generator=generator) / s[-1] ** 0.5 for n, s in shapes}
        tensors = {n: t.to(stored) for n, t in numbers.items()}
        save_file(tensors, folder / "model.safetensors")
    with packing(weights) if weights else nullcontext():
        return filled(net, sources, Shards((folder / "model.safetensors",)))


OTHERS = ("table.weight", "head.weight")


def states(net: Speaks, rows: int = 3) -> torch.Tensor:
    x = torch.randn(rows, SMALL.dim, generator=torch.Generator().manual_seed(2))

    def alone(_: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        del k
        return v.repeat_interleave(q.shape[-2] // v.shape[-2], -2)

    with torch.inference_mode():
        found: torch.Tensor = net.stack(x, torch.arange(rows), alone)
    return found


def kinds(net: nn.Module) -> Counter[str]:
    return Counter(type(module).__name__ for module in net.modules())


@pytest.mark.parametrize("weights", CLOSE)
def test_products_of_blocks_are_packed_and_stay_near(weights: Weights, tmp_path: Path) -> None:
    stored = torch.bfloat16 if weights == "auto" else torch.float32
    plain, packed = (loaded(tmp_path, w, stored=stored) for w in (None, weights))
    kind = "Float8Linear" if weights == "fp8" else "PackedLinear"
    assert kinds(packed)[kind] == SMALL.layers * OF_A_BLOCK
    assert [type(packed.table), type(packed.head)] == [nn.Embedding, nn.Linear]
    off = (states(packed) - states(plain)).abs().max()
    assert 0 < off < CLOSE[weights] or (weights == "auto" and off < CLOSE[weights])


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (torch.bfloat16, "BrainProduct"),
        (torch.float16, "Product"),
        (torch.float32, None),
    ],
)
def test_auto_loses_nothing(stored: torch.dtype, kind: str | None, tmp_path: Path) -> None:
    plain, packed = (loaded(tmp_path, w, stored=stored) for w in (None, "auto"))
    layers = dict(packed.named_modules())
    for name, layer in plain.named_modules():
        if isinstance(layer, nn.Linear) and name != "head":
            found = layers[name]
            if kind is None:
                assert type(found) is nn.Linear
            else:
                assert isinstance(found, PackedLinear)
                assert type(found.product).__name__ == kind
                assert torch.equal(found.numbers()[0], layer.weight)


def test_neither_a_codec_nor_what_follows_the_block_is_packed(tmp_path: Path) -> None:
    """A codec's residuals have scales, a language model's do not."""
    net = loaded(tmp_path, "int8", replace(SMALL, layer_scale=True))
    assert kinds(net)["PackedLinear"] == 0
    (tmp_path / "model.safetensors").unlink()
    with packing("int8"), pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    assert kinds(loaded(tmp_path, None))["PackedLinear"] == 0


def test_experts_and_what_chooses_them_stay(tmp_path: Path) -> None:
    experts = ExpertSizes(dim=32, experts=4, chosen=2, hidden=16, shared=24)
    net = unfilled(Speaks, SMALL, experts)
    stack = decoder_sources(SMALL, "stack.", "m.")
    sources = {name: source for name, source in stack.items() if ".mlp." not in name}
    sources |= {name: replace(sources["stack.norm.weight"], names=(name,)) for name in OTHERS}
    for layer in range(SMALL.layers):
        sources |= expert_sources(experts, f"stack.blocks.{layer}.mlp.", f"m.{layer}.mlp.")
    tensors = {name: torch.ones(s) for name, s in published_shapes(net, sources).items()}
    save_file(tensors, tmp_path / "model.safetensors")
    with packing("int8"):
        filled(net, sources, Shards((tmp_path / "model.safetensors",)))
    for block in net.stack.blocks:
        mixture = block.mlp
        assert isinstance(mixture, ExpertMixture)
        assert type(mixture.router) is nn.Linear
        assert isinstance(mixture.shared.down, PackedLinear)


def test_float8_weights_are_near_whichever_way_they_are_multiplied() -> None:
    linear = nn.Linear(48, 20)
    packed, x = Float8Linear(linear), torch.randn(5, 48)
    assert packed.weight.dtype == torch.float8_e4m3fn
    assert packed.nbytes < linear.weight.nbytes / 2
    with torch.inference_mode():
        few, wanted = packed(x), linear(x)
        with none_are_few():
            many = packed(x)
    assert torch.allclose(few, many, atol=1e-5)
    assert 0 < (few - wanted).abs().max() < 0.1


def test_float8_blocks_fuse_as_others_do(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    net, found = loaded(tmp_path, "fp8"), []
    for version in ("torch", "triton"):
        with choice.only(version):
            found.append(states(net))
    assert torch.allclose(found[0], found[1], atol=1e-4)


@pytest.mark.parametrize(
    ("device", "weights", "said"),
    [
        ("cpu", "fp8", "need a GPU: a CPU has bfloat16, float16 and int8"),
        ("cuda:0", "float16", "are a CPU's: a GPU has bfloat16 and fp8"),
        ("cuda:0", "int8", "are a CPU's: a GPU has bfloat16 and fp8"),
        ("cuda:0", "fp8", r"need compute capability 8\.9; cuda:0 has 8\.0"),
    ],
)
def test_what_a_device_does_not_compute_with_is_refused(
    device: str, weights: Weights, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    with pytest.raises(DeviceError, match=said):
        packed_on(device, weights)


def test_what_a_device_computes_with_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for weights in (None, *get_args(Weights)):
        assert weights == "fp8" or packed_on("cpu", weights) == weights
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    assert packed_on("cuda:0", "fp8") == "fp8"
    monkeypatch.setattr("ttscommon.engine.nn.packed.compiles", lambda: False)
    assert packed_on("cpu", "auto") is None
    with pytest.raises(DeviceError, match="int8 weights need kernels"):
        packed_on("cpu", "int8")


@torch.inference_mode()
def test_no_rows_give_no_rows() -> None:
    assert HalfLinear(nn.Linear(48, 40))(torch.empty(0, 48)).shape == (0, 40)


def test_every_linear_layer_of_a_module_is_halved() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4)))
    assert halve(module)
    assert not [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def test_where_nothing_can_be_compiled_layers_stay_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str) -> None:
        raise OSError(f"no LLVM for {name}")

    monkeypatch.setattr(choice, "import_module", broken)
    choice.compiles.cache_clear()
    module = nn.Sequential(nn.Linear(8, 8))
    try:
        with capture_logs() as logs, torch.inference_mode():
            assert not halve(module)
            assert not choice.use_numba(torch.zeros(1))
    finally:
        choice.compiles.cache_clear()
    assert [type(layer) for layer in module] == [nn.Linear]
    assert [log["event"] for log in logs] == ["kernels.not_compiled"]

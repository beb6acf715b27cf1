"""Loading by name: what does not fit is named."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import Decoder, DecoderConfig
from ttscommon.engine.nn.weights import (
    PAIRS,
    Shards,
    Source,
    decoder_sources,
    digest,
    fill,
    folded,
    named,
    published_shapes,
    same,
    unfilled,
)

SOURCES = {"weight": Source(("up", "down"), (2, 3)), "bias": same("shift")}


def tensors() -> dict[str, Tensor]:
    return {"up": torch.ones(2, 4), "down": torch.zeros(3, 4), "shift": torch.arange(5.0)}


def load(folder: Path, content: dict[str, Tensor], others: tuple[str, ...] = ()) -> nn.Linear:
    save_file(content, folder / "model.safetensors")
    net = nn.Linear(4, 5)
    fill(net, SOURCES, Shards.of(folder), others=others)
    return net


def test_parts_are_joined_and_cast(tmp_path: Path) -> None:
    content = {name: tensor.bfloat16() for name, tensor in tensors().items()}
    net = load(tmp_path, content)
    assert net.weight.dtype == torch.float32
    assert net.weight[:, 0].tolist() == [1, 1, 0, 0, 0]
    assert net.bias.tolist() == [0, 1, 2, 3, 4]


def test_places_name_parameters_of_layers_by_number() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2, bias=False), nn.PReLU()))
    places = {"0": "first", "*.0": "block.*-1.linear", "*.*.weight": "block.*.act.*+1"}
    assert named(net, places, "net.", "model.") == {
        "net.0.weight": same("model.first.weight"),
        "net.0.bias": same("model.first.bias"),
        "net.1.0.weight": same("model.block.0.linear.weight"),
        "net.1.1.weight": same("model.block.1.act.2"),
    }


@pytest.mark.parametrize(
    "switches",
    [
        {"qk_norm": True},
        {"mlp": "gelu", "norm": "layer", "layer_scale": True},
        {"mlp": "gelu_tanh", "qkv_bias": True, "out_bias": True, "final_norm": False},
    ],
)
def test_every_parameter_of_a_decoder_has_a_published_name(switches: dict[str, Any]) -> None:
    c = DecoderConfig(dim=8, layers=2, heads=2, kv_heads=1, head_dim=4, hidden=16, **switches)
    net, sources = unfilled(Decoder, c), decoder_sources(c, "", "m.")
    assert sources.keys() == net.state_dict().keys()
    shapes = published_shapes(net, sources)
    rise = "gate_proj" if c.mlp == "swiglu" else "fc1"
    assert shapes[f"m.layers.1.mlp.{rise}.weight"] == (16, 8)


def test_parameters_of_other_places_are_left_out() -> None:
    assert named(nn.Linear(2, 2), {"weigh": "a", "bias": "b"}) == {"bias": same("b")}


def test_weights_are_folded_and_the_rest_stays() -> None:
    stated = {"up.weight": same("conv.weight"), "up.bias": same("conv.bias")}
    names = ("conv.weight_g", "conv.weight_v")
    assert folded(stated, PAIRS[1]) == stated | {"up.weight": Source(names, folded=True)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"down": None}, "lacks down"),
        ({"lora.a": torch.ones(1)}, r"has lora\.a"),
        ({"down": torch.zeros(3, 5)}, r"down is \[3, 5\], but config.json makes it \[3, 4\]"),
        ({"shift": torch.arange(5, dtype=torch.int8)}, "quantised"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, change: dict[str, Tensor | None], said: str
) -> None:
    content = {name: t for name, t in (tensors() | change).items() if t is not None}
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path, content)


@pytest.mark.parametrize("keep", [0, 4, 40, 150])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    save_file(tensors(), tmp_path / "model.safetensors")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        Shards.of(tmp_path)


def test_a_digest_changes_with_every_bit() -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 5).bfloat16()
    before = digest([net])
    assert digest([net]) == before
    net.weight.data[3, 2] += 0.25
    assert digest([net]) != before

"""Compiled loops of the vesper talker against the network in torch, which says what they mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.unit.ttsfamilies.base.runners.test_kv import part
from tests.unit.ttsfamilies.tiny_vesper import Letters
from ttscommon.engine.kernels.integer_products_numba import LARGEST
from ttscommon.engine.nn import HalfLinear, halve, integers_in
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.runners.computation import Prompts
from ttsfamilies.base.runners.kv import AttendsByQuery, PagedCache
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.vesper.drafts import Drafts
from ttsfamilies.vesper.family import Vesper, spec_of
from ttsfamilies.vesper.frame import CHANGING, FrameChoice
from ttsfamilies.vesper.net import MOVES, VesperConfig, VesperNet, token_contexts
from ttsfamilies.vesper.stream import VesperSampling
from ttsfamilies.vesper.text import VesperTextEncoder
from ttsfamilies.vesper.text_numba import CompiledContexts, CompiledEncoder

ROWS, TOKENS, POSITIONS = 40, 12, 64
FRAMES, SILENCE = 50, (9, 8, 7, 6)
CACHED, BLOCKS = 39, [2, 0, 1]
TOLERANCE = 2e-3
"""Of numbers up to 8, with weights that make softmaxes steep: where sums differ by a last bit, a
number may be rounded to the next whole one.
"""


def net() -> VesperNet:
    torch.manual_seed(3)
    made = VesperNet(
        VesperConfig(codebook_size=48, dim=32, layers=1, heads=2, hidden=48, positions=POSITIONS)
    )
    for parameter in made.parameters():
        parameter.data *= 4.0
    assert halve(made)
    return made.eval()


def state(net: VesperNet, top_k: int, warmth: float) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(top_k)
    whole = {
        name: torch.randint(0, high, (ROWS + 1,), generator=g)
        for name, high in {
            "code": 48, "pointer": TOKENS + 2, "held": 9, "frame": 300, "seed": 1 << 40,
            "least": 3,
        }.items()
    }  # fmt: skip
    known = {
        **whole,
        "tokens": torch.full((ROWS + 1,), TOKENS),
        "longest": torch.full((ROWS + 1,), 8),
        "temperature": torch.full((ROWS + 1,), warmth),
        "move_temperature": torch.full((ROWS + 1,), warmth),
        "top_k": torch.full((ROWS + 1,), top_k),
        "hidden": torch.zeros(ROWS + 1, net.config.dim),
        "begin": torch.zeros(ROWS + 1, net.config.dim),
        "told": torch.zeros(ROWS + 1, TOKENS + 1, net.config.dim),
    }
    # As those of slots lie: strided.
    return {name: torch.stack([one, one], 1)[:, 0] for name, one in known.items()}


@pytest.mark.parametrize(("top_k", "warmth"), [(0, 1.0), (5, 3.0), (1, 2.0), (50, 0.0)])
@torch.inference_mode()
def test_a_frame_is_the_one_that_torch_would_choose(top_k: int, warmth: float) -> None:
    voice, g = net(), torch.Generator().manual_seed(1)
    hidden = 3 * torch.randn(ROWS, voice.config.dim, generator=g)
    hidden[7] = torch.nan
    positions = torch.randint(1, POSITIONS, (ROWS,), generator=g)
    samples = torch.rand(ROWS, generator=g) > 0.2
    rows = Prompts(torch.arange(ROWS), positions, ROWS, {}, torch.arange(ROWS), samples)
    expected_state, own_state = state(voice, top_k, warmth), state(voice, top_k, warmth)
    choice = FrameChoice(voice, POSITIONS)
    expected = choice.plain(hidden, positions, rows, expected_state, samples)
    out = Drafts(voice, POSITIONS).first(hidden.numpy(), positions, rows, own_state)
    gained = expected.gained > 0
    assert 5 < int(gained.sum()) < ROWS
    assert torch.equal(out.gained, expected.gained)
    assert torch.equal(out.ended, expected.ended)
    assert torch.equal(out.bad & gained, expected.bad & gained)
    well = gained & ~expected.bad
    for name in ("code", "move", "hidden"):
        assert torch.equal(out.frames[name][well], expected.frames[name][well]), name
    left = torch.cat([well | ~gained, torch.tensor([True])])
    for name in CHANGING:
        assert torch.equal(own_state[name][left], expected_state[name][left]), name


class ByTorch(Vesper):
    """The same frames without the compiled call."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._codes = None


def voices(**sampling: float) -> list[Vesper]:
    torch.manual_seed(3)
    net = VesperNet(VesperConfig(codebook_size=48, text_codes=37, text_dim=16, layers=1))
    for parameter in net.parameters():
        parameter.data *= 3.0
    torch.nn.init.normal_(net.text_table)
    spec = spec_of(net, "m", (Voice("a", "a", "en"),), 24_000, 20.0, (0.7, 1.4))
    told = spec, net, Letters(), VesperSampling(**sampling), {"a": 1.0}, SILENCE  # type: ignore[arg-type]
    return [Vesper(*told), ByTorch(*told)]


def raw(dim: int) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(1)

    def whole(high: int) -> torch.Tensor:
        return torch.randint(0, high, (FRAMES,), generator=g)

    numbers = {"code": 48, "move": MOVES, "frame": 300, "seed": 1 << 40}
    return {
        **{name: whole(high) for name, high in numbers.items()},
        "silent": (whole(5) == 0).long(),
        "hidden": torch.randn(FRAMES, dim, generator=g),
        "text": torch.randn(FRAMES, 2, 16, generator=g),
    }


@pytest.mark.parametrize(("top_k", "warmth"), [(0, 1.0), (5, 3.0), (1, 2.0), (50, 0.0)])
@torch.inference_mode()
def test_frames_are_rendered_as_torch_would(top_k: int, warmth: float) -> None:
    compiled, plain = voices(top_k=top_k, energy_temperature=warmth)
    frames = raw(256)
    found, expected = compiled.render(frames), plain.render(frames)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].dtype == tensor.dtype
    codes = expected["codes"]
    assert len(codes[:, 1].unique()) > 5
    assert len(codes[:, 3].unique()) > 5
    assert 0 < int((codes == torch.tensor(SILENCE)).all(1).sum()) < FRAMES


def round_products(module: nn.Module, *, narrow: bool = False) -> None:
    """Replace every halved layer inside. narrow: see `integers_in`."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, HalfLinear):
                setattr(parent, name, _Rounded(child, narrow))


class _Rounded(nn.Module):
    dtype = torch.float32

    def __init__(self, layer: HalfLinear, narrow: bool) -> None:
        super().__init__()
        product = integers_in(layer, narrow=narrow)
        tiles, pairs, columns, both = product.weight.shape
        whole = product.weight.transpose(0, 2, 1, 3).reshape(tiles * columns, pairs * both)
        self._weight = torch.from_numpy(whole * product.scale[:, None].astype("f8"))
        self._weight = self._weight[: layer.out_features, : layer.in_features]
        self._bias = torch.from_numpy(product.bias)[: layer.out_features]

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        whole = torch.round(x * (LARGEST / largest)).double()
        made = whole @ self._weight.T * (largest.double() / LARGEST) + self._bias
        return made.float()


@torch.inference_mode()
def test_positions_go_through_the_blocks_as_in_torch() -> None:
    voice, g = net(), torch.Generator().manual_seed(0)
    c = voice.config
    spec, rows = CacheSpec(c.layers, c.heads, c.heads, c.head_dim), [part(BLOCKS, 0, CACHED)]
    x, positions = torch.randn(CACHED, c.dim, generator=g), torch.arange(CACHED)
    plain, compiled = PagedCache(spec, 3), PagedCache(spec, 3)
    attending = compiled.attend(rows)
    assert isinstance(attending, AttendsByQuery)
    hidden = Drafts(voice, POSITIONS).hidden(x, positions, attending.cached)
    round_products(voice, narrow=True)
    expected = voice.backbone(x, positions, plain.attend(rows))
    assert torch.allclose(torch.from_numpy(hidden), expected, atol=TOLERANCE)
    assert torch.allclose(compiled.keys, plain.keys, atol=TOLERANCE)
    assert torch.allclose(compiled.values, plain.values, atol=TOLERANCE)
    assert compiled.keys.any()


@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 61])
@torch.inference_mode()
def test_an_utterance_is_encoded_as_torch_does(tokens: int) -> None:
    torch.manual_seed(tokens)
    encoder = VesperTextEncoder(20, 24, 3).eval()
    for parameter in encoder.parameters():
        parameter.data = (2.0 * parameter.data + 0.02 * torch.randn_like(parameter)).half().float()
    ids = torch.randint(0, 20, (1, tokens))
    assert halve(encoder)
    compiled = CompiledEncoder(encoder)
    round_products(encoder)
    expected = encoder(ids)
    out = compiled(ids)
    assert out.shape == expected.shape
    assert torch.allclose(out, expected, atol=TOLERANCE)
    assert torch.equal(compiled(ids), out)


@pytest.mark.parametrize("tokens", [1, 2, 5, 61])
@torch.inference_mode()
def test_contexts_are_those_of_torch(tokens: int) -> None:
    voice, g = net(), torch.Generator().manual_seed(tokens)
    ids = torch.randint(0, voice.config.symbols, (1, tokens), generator=g)
    prosody = torch.randn(1, tokens, voice.config.prosody_dim, generator=g)
    (expected,) = token_contexts(voice, ids, prosody)
    assert torch.equal(torch.from_numpy(CompiledContexts(voice)(ids, prosody)), expected)

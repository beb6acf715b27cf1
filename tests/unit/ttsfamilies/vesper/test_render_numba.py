"""Frames rendered in one compiled call, against what torch makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.unit.ttsfamilies.tiny_vesper import Letters
from ttscommon.wire.replicas import Voice
from ttsfamilies.vesper.family import Vesper, spec_of
from ttsfamilies.vesper.net import MOVES, VesperConfig, VesperNet
from ttsfamilies.vesper.stream import VesperSampling

FRAMES, SILENCE = 50, (9, 8, 7, 6)


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


@torch.inference_mode()
def test_a_frame_has_the_codes_that_it_has_beside_others() -> None:
    compiled, _ = voices()
    frames = raw(256)
    together = compiled.render(frames)["codes"]
    for at in range(FRAMES):
        alone = compiled.render({name: one[at : at + 1] for name, one in frames.items()})
        assert torch.equal(alone["codes"][0], together[at]), at

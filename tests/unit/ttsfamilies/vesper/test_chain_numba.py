"""Compiled draws and moves against `FrameChoice`, which says in torch what they mean."""

from __future__ import annotations

import pytest
import torch

from ttscommon.engine.nn import halve
from ttsfamilies.base.runners.computation import Prompts
from ttsfamilies.vesper.drafts import Drafts
from ttsfamilies.vesper.frame import CHANGING, FrameChoice
from ttsfamilies.vesper.net import VesperConfig, VesperNet

ROWS, TOKENS, POSITIONS = 40, 12, 64


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

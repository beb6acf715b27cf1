"""Small networks and readings that need no teacher."""

from itertools import count

import numpy as np
import pytest
import torch

from ttsfamilies.vesper.codec.net import VesperCodecConfig, VesperDecoder
from ttsfamilies.vesper.net import VesperConfig, VesperNet


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def net() -> VesperNet:
    """A talker of 20,000 parameters."""
    config = VesperConfig(
        codebook_size=32, text_codes=32, text_dim=16, prosody_dim=16, text_rounds=1,
        prosody_rounds=1, dim=32, layers=2, heads=2, hidden=32, energy_hidden=16, draft_hidden=16,
        positions=512,
    )  # fmt: skip
    made = VesperNet(config)
    made.text_table.data = torch.randn_like(made.text_table)
    return made.eval()


@pytest.fixture
def decoder() -> VesperDecoder:
    """A decoder that fits the talker."""
    config = VesperCodecConfig(codebook_size=32, text_codes=32, text_dim=16, dim=32)
    made = VesperDecoder(config)
    made.pitch_table.data[1:] = torch.tensor([0.0, 2.0])
    made.energy_table.data = torch.randn_like(made.energy_table)
    made.text_table.data = torch.randn_like(made.text_table)
    return made.eval()


@pytest.fixture
def generator() -> np.random.Generator:
    """The same numbers each time."""
    return np.random.default_rng(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a training, which reads the clock twice, takes a second."""
    monkeypatch.setattr("voicetrain.loop.time.process_time", count().__next__)

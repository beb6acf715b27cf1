"""The compiled encoders against their network in torch."""

from __future__ import annotations

import pytest
import torch

from tests.unit.ttsfamilies.vesper.rounded import round_products
from ttscommon.engine.nn import halve
from ttsfamilies.vesper.text import VesperTextEncoder
from ttsfamilies.vesper.text_numba import CompiledEncoder


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
    # Where sums differ by a last bit, a number may be rounded to the next whole one.
    assert torch.allclose(out, expected, atol=2e-3)
    assert torch.equal(compiled(ids), out)

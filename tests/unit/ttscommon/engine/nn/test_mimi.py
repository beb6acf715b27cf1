"""Encoders of recordings: long ones attend piece by piece, with the same result."""

import msgspec
import pytest
import torch

from ttscommon.engine.nn import mimi
from ttsfamilies.pocket_tts.net import PocketEncoder
from ttsfamilies.pocket_tts.sizes import PocketConfig
from ttsfamilies.pocket_tts.synthetic import tiny


@pytest.mark.parametrize("piece", [7, 100])
def test_a_long_recording_attends_piece_by_piece_and_hears_the_same(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    encoder = PocketEncoder(msgspec.convert(tiny(), PocketConfig).mimi).eval()
    wav = 0.3 * torch.randn(24_000)
    with torch.inference_mode():
        whole = encoder(wav)
        monkeypatch.setattr(mimi, "_MOST_STEPS", 50)
        monkeypatch.setattr(mimi, "_PIECE_STEPS", piece)
        pieces = encoder(wav)
        encoder.window = None
        unlimited = encoder(wav)
    torch.testing.assert_close(pieces, whole, atol=1e-6, rtol=0)
    assert not torch.allclose(unlimited, whole, atol=1e-4)

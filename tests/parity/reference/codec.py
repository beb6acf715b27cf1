"""Goldens of the codec's decoder: one shot, and the official windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.parity.material import frames
from tests.parity.reference.official import load

FRAMES = 24
WINDOW, CONTEXT = 10, 4


def goldens(checkpoints: Path) -> dict[str, Any]:
    """Every third sample of the same codes decoded at once, and in windows with left context."""
    decoder = load(checkpoints / "custom").model.speech_tokenizer.model.decoder
    codes = torch.from_numpy(frames(FRAMES, 9)).T[None]
    with torch.inference_mode():
        once = decoder(codes)[0, 0]
        windowed = decoder.chunked_decode(codes, WINDOW, CONTEXT)[0, 0]
    return {"once": once[::3].numpy(), "windowed": windowed[::3].numpy()}

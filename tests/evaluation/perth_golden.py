"""The authors' code on tiny weights: python -m tests.evaluation.perth_golden PACKAGE

PACKAGE is the folder `perth` of resemble-perth 1.0.1. Of its code only the two networks run; what
its packages import at their top (librosa, torchaudio, pkg_resources) is left out.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tests.unit.gateway.audio.tiny_perth import (
    BINS,
    COMPARED,
    GOLDEN,
    RATE,
    SECONDS,
    sound,
    weights,
)

_WINDOW: Final = 2048
_HOP: Final = 320


def networks(package: Path) -> tuple[Any, Any]:
    """Encoder and decoder."""
    place, name = package, "perth"
    for below in ("", "perth_net", "perth_net_implicit"):
        place, name = (place / below, f"{name}.{below}") if below else (place, name)
        empty = types.ModuleType(name)
        empty.__path__ = [str(place)]
        sys.modules[name] = empty
    found = [importlib.import_module(f"{name}.model.{part}") for part in ("encoder", "decoder")]
    hidden = weights()["encoder.layers.0.conv.weight"].shape[0]
    made = found[0].Encoder(hidden, BINS), found[1].Decoder(hidden, BINS)
    for prefix, net in zip(("encoder.", "decoder."), made, strict=True):
        own = {n.removeprefix(prefix): w for n, w in weights().items() if n.startswith(prefix)}
        net.load_state_dict({n: torch.from_numpy(w) for n, w in own.items()})
    return made


def levels(spectra: torch.Tensor) -> torch.Tensor:
    """As its `cx_to_magphase` has them: 1e-9 is 0, and 15 dB are 1."""
    return (20 * torch.log10(spectra.abs().clip(1e-9)) + 180) / 195


@torch.inference_mode()
def main() -> None:
    encoder, decoder = networks(Path(sys.argv[1]))
    pcm = sound(SECONDS, RATE)
    window = torch.hann_window(_WINDOW)
    spectra = torch.stft(
        torch.from_numpy(pcm / np.float32(32_768)), _WINDOW, _HOP, window=window,
        pad_mode="reflect", return_complex=True,
    )  # fmt: skip
    marked, _ = encoder(levels(spectra)[None])
    raised = torch.polar(10 ** ((marked[0] * 195 - 180) / 20), spectra.angle())
    out = torch.istft(raised, _WINDOW, _HOP, window=window, length=len(pcm)).numpy() * 32_768
    # Its detector hears the frames that are whole without padding, as ours does.
    heard = [
        decoder(levels(torch.stft(torch.from_numpy(x / np.float32(32_768)), _WINDOW, _HOP,
                                  window=window, center=False, return_complex=True))[None])
        for x in (pcm, np.rint(out).astype(np.float32))
    ]  # fmt: skip
    GOLDEN.parent.mkdir(exist_ok=True)
    np.savez(GOLDEN, marked=out[COMPARED].astype(np.float32), heard=torch.cat(heard).numpy())


if __name__ == "__main__":
    main()

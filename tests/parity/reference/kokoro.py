"""Goldens of Kokoro: the published package on a synthetic checkpoint, with noise that is ours.

Its decoder's widths are numbers in its code: a small one is put together of the package's blocks.
Its text frontend is left out: it needs a tagger's model and eSpeak.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from loguru import logger

from tests.parity.kokoro_cases import CASES, Case, noise
from tests.parity.reference.bare import bare


def package() -> Any:
    """The package's network, without what its __init__ imports."""
    bare("kokoro")
    return import_module("kokoro.model")


def load(folder: Path) -> Any:
    """The package's model of a checkpoint as it is published."""
    logger.disable("kokoro")
    model, config = package(), json.loads((folder / "config.json").read_text("utf-8"))
    decoder = model.Decoder
    if "decoder_dim" in config:
        decoder = _small(decoder, config)
    files = folder / "config.json", folder / "kokoro-v1_0.pth"
    with patch.object(model, "Decoder", decoder):
        return model.KModel("synthetic", *map(str, files)).eval()


def _small(plain: Any, config: dict[str, Any]) -> Any:
    blocks = import_module("kokoro.istftnet")
    width, extra = config["decoder_dim"], config["decoder_residual"]
    last, told = config["istftnet"]["upsample_initial_channel"], width + extra + 2
    hidden, style = config["hidden_dim"], config["style_dim"]

    class Small(plain):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            block = blocks.AdainResBlk1d
            self.encode = block(hidden + 2, width, style)
            self.decode = torch.nn.ModuleList(block(told, width, style) for _ in range(3))
            self.decode.append(block(told, last, style, upsample=True))
            narrow = torch.nn.utils.weight_norm(torch.nn.Conv1d(hidden, extra, kernel_size=1))
            self.asr_res = torch.nn.Sequential(narrow)

    return Small


@contextmanager
def golden_noise() -> Iterator[None]:
    """What is drawn of nine harmonics is ours; what else is drawn has no effect."""

    def randn_like(x: torch.Tensor, **_: Any) -> torch.Tensor:
        if x.shape[-1] != 9:
            return torch.zeros_like(x)
        return torch.from_numpy(noise(x.shape[1])).to(x.dtype)[None]

    with patch.object(torch, "randn_like", randn_like):
        yield


def style(folder: Path, case: Case) -> torch.Tensor:
    """The row of the blended table, as the package and servers around it choose it."""
    packs = [(torch.load(folder / "voices" / f"{name}.pt"), share) for name, share in case.voices]
    whole = sum(share for _, share in packs)
    return sum(pack * (share / whole) for pack, share in packs)[len(case.phones) - 1]


def _uncut(size: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A real number below 0 has the angle pi: which sign it comes with is rounding."""
    return size, torch.where(angle < 1e-4 - torch.pi, angle + 2 * torch.pi, angle)


@torch.inference_mode()
def spoken(model: Any, folder: Path, case: Case) -> dict[str, np.ndarray[Any, Any]]:
    """Durations and samples in float64, curves in float32, and two steps of the way between."""
    found, kept = {}, {}
    generator = model.decoder.generator

    def keep(module: Any, given: Any, out: Any) -> None:
        kept["asr"], kept["pitch"], kept["energy"] = (x.numpy() for x in given[:3])

    hook = model.decoder.register_forward_hook(keep)
    reference = style(folder, case)
    with golden_noise():
        plain = model(case.phones, reference, case.speed, return_output=True)
        found["durations"] = plain.pred_dur.numpy()
        found["pitch"], found["energy"] = kept["pitch"][0], kept["energy"][0]
        wide = generator.f0_upsamp(torch.from_numpy(kept["pitch"])[:, None]).transpose(1, 2)
        found["source"] = generator.m_source(wide)[0][0, :, 0].numpy()
        torch.set_default_dtype(torch.float64)
        window, generator.stft.window = generator.stft.window, torch.hann_window(20)
        transform = generator.stft.transform
        generator.stft.transform = lambda source: _uncut(*transform(source))
        try:
            exact = model.double()(case.phones, reference.double(), case.speed, return_output=True)
        finally:
            torch.set_default_dtype(torch.float32)
            generator.stft.window, generator.stft.transform = window, transform
            model.float()
        assert torch.equal(exact.pred_dur, plain.pred_dur)
        found["samples"] = exact.audio.numpy().astype(np.float32)
    hook.remove()
    if not case.heard:
        del found["samples"]
    if case is not CASES[0]:
        del found["source"]
    return found


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    folder = checkpoints / "kokoro"
    model, found = load(folder), {}
    for case in CASES:
        for name, array in spoken(model, folder, case).items():
            found[f"{case.name}/{name}"] = array
    np.savez_compressed(goldens / "kokoro.npz", **found)
    for name, array in found.items():
        print(name, array.shape, float(np.abs(array).max()), float(array.std()))

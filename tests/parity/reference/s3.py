"""Goldens of what hears recordings for CosyVoice and Chatterbox: tokens, mel frames, a speaker.

The packages `s3tokenizer`, with its own reading of ONNX files, and `chatterbox-tts`, of which only
the two modules are imported; torchaudio's resampling and filter banks.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import load_file

from tests.parity.cosyvoice_cases import RATES, SEED, STRIDE
from tests.parity.material import audio
from tests.parity.reference.bare import bare, without_libraries

_S3GEN: Final = "chatterbox.models.s3gen"
_PACKAGES: Final = ("chatterbox", "chatterbox.models", _S3GEN, f"{_S3GEN}.utils")


bare("torchaudio")
without_libraries()
v2, v3, utils, functional = (
    importlib.import_module(name)
    for name in (
        "s3tokenizer.model_v2",
        "s3tokenizer.model_v3",
        "s3tokenizer.utils",
        "torchaudio.functional",
    )
)

_HIGHEST: Final = {2: 8000, 3: None}
_SMALL: Final = {"n_audio_state": 64, "n_audio_head": 1, "n_audio_layer": 2}


def _module(name: str) -> Any:
    """A module of chatterbox without what its packages import."""
    bare(*_PACKAGES)
    return importlib.import_module(f"{_S3GEN}.{name}")


def tokenizer(folder: Path, version: int) -> Any:
    """The package's, with the file's weights as the package reads them."""
    path = str(folder / f"speech_tokenizer_v{version}.onnx")
    made: Any = v2.S3TokenizerV2("speech_tokenizer_v2_25hz", v2.ModelConfig(**_SMALL))
    tensors = utils.onnx2torch(path) if version == 2 else utils.onnx2torch_v3(path)
    if version == 3:
        made = v3.S3TokenizerV3("speech_tokenizer_v3_25hz", v3.ModelConfigV3(**_SMALL))
    missing, surplus = made.load_state_dict(tensors, strict=False)
    assert not missing, missing
    assert not surplus, surplus
    return made.eval()


def speaker(folder: Path) -> Any:
    """The network before its norms were folded."""
    sizes = {"growth_rate": 4, "bn_size": 2, "init_channels": 8}
    made = _module("xvector").CAMPPlus(**sizes, memory_efficient=False)
    tensors = load_file(folder / "speaker.safetensors")
    missing, surplus = made.load_state_dict(tensors, strict=False)
    assert not surplus
    assert all(name.endswith("num_batches_tracked") for name in missing)
    return made.eval()


@torch.inference_mode()
def heard(folder: Path) -> dict[str, Any]:
    """By rate: tokens and mel frames of both versions, and the speaker's vector."""
    found: dict[str, Any] = {}
    xvector, mel = _module("xvector"), _module("utils.mel").mel_spectrogram
    voice, tokenizers = speaker(folder), {v: tokenizer(folder, v) for v in _HIGHEST}
    for rate, seconds in RATES.items():
        wave = torch.from_numpy(audio(seconds, SEED, rate))[None]
        low, high = (functional.resample(wave, rate, wanted) for wanted in (16_000, 24_000))
        frames = utils.log_mel_spectrogram(low[0])[None]
        bands, _, _ = xvector.extract_feature(low)
        found[f"{rate}/speaker"] = voice(bands)[0].numpy()
        for version, highest in _HIGHEST.items():
            codes, count = tokenizers[version].quantize(frames, torch.tensor([frames.shape[2]]))
            found[f"{rate}/token{version}"] = codes[0, : count[0]].numpy().astype(np.int16)
            prompt = mel(high, fmax=highest)[0].T[::STRIDE]
            found[f"{rate}/mel{version}"] = prompt.numpy()
    return found

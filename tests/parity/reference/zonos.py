"""Goldens of Zonos and of DAC at 44.1 kHz.

The authors' code, which is no package: `zonos` of github.com/Zyphra/Zonos lies in a folder that
ZONOS_SOURCE names. What is checked in was made with model.py of Worthify-AI/Zonos at 711654aa,
backbone/_torch.py of the same at c7a34bd8 (with `enable_gqa`, as the authors have it), sampling.py
of kaushalag29/Zonos at 15ce44d4, codebook_pattern.py of langfod/Zonos at 15276d81, conditioning.py
and config.py of Zyphra/Zonos at 3293154b and caf3157a, speaker_cloning.py and autoencoder.py of
weedge/Zonos at 43e4848b and 2690316e: copies of the authors' own. The codec is transformers'.

Phones are given instead of eSpeak's, draws take the goldens' noise, and a column's draws are placed
by their codebooks: behind the most frames the authors' code gives a codebook those of another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import DacModel

from tests.parity.material import SAMPLE_RATE, gumbel
from tests.parity.reference.bare import without_libraries
from tests.parity.zonos_cases import CASES, PHONES, SAID, SPEED, Case, codes, recording

CODEBOOKS, IDS, MASK = 9, 1026, 1025
EMOTIONS = ("happiness", "sadness", "disgust", "fear", "surprise", "anger", "other", "neutral")
PLAIN = (0.3077, 0.0256, 0.0256, 0.0256, 0.0256, 0.0256, 0.2564, 0.3077)

Columns = torch.Tensor


def source() -> tuple[ModuleType, ModuleType, ModuleType]:
    """The authors' modules: model, conditioning and speaker_cloning."""
    without_libraries()
    sys.path.insert(0, os.environ["ZONOS_SOURCE"])
    from zonos import conditioning, model, speaker_cloning

    return model, conditioning, speaker_cloning


class Autoencoder:
    """Stands for the codec where the model asks for its codebooks."""

    num_codebooks = CODEBOOKS


@cache
def model_of(folder: Path) -> Any:
    """The reference in float32, its heads padded as by the hook of its loader."""
    modeling, conditioning, _ = source()
    modeling.DACAutoencoder = Autoencoder
    conditioning.phonemize = lambda texts, _: texts
    said = json.loads((folder / "config.json").read_text("utf-8"))
    found = modeling.Zonos(modeling.ZonosConfig.from_dict(said))
    found.load_state_dict(load_file(folder / "model.safetensors"))
    narrow = found.setup_cache
    found.setup_cache = lambda **sizes: narrow(**sizes, dtype=torch.float32)
    return found.eval()


@cache
def codec_of(folder: Path) -> Any:
    """The reference's codec."""
    found, told = DacModel.from_pretrained(folder, output_loading_info=True)
    assert not any(told[f"{what}_keys"] for what in ("missing", "unexpected", "mismatched"))
    return found.eval()


@cache
def heard(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the recording: the speaker's vector [1, 1, 128], and codes [1, CODEBOOKS, frames]."""
    import torchaudio

    _, _, cloning = source()
    wav = torch.from_numpy(recording().astype(np.float32) / 32_768)[None]
    published = load_file(folder / "speaker" / "model.safetensors")
    planes = published["front.conv1.weight"].shape[0]
    net = cloning.ResNet293_based(planes, published["bottleneck.weight"].shape[0])
    net.front = cloning.ResNet(planes, cloning.SimAMBasicBlock, [1, 1, 1, 1])
    width = published["pooling.attention.0.weight"].shape[0]
    net.pooling.attention[0] = torch.nn.Conv1d(net.pooling.out_dim // 2, width, 1)
    net.pooling.attention[2] = torch.nn.BatchNorm1d(width)
    net.pooling.attention[3] = torch.nn.Conv1d(width, net.pooling.out_dim // 2, 1)
    counted = {name for name in net.state_dict() if name.endswith("num_batches_tracked")}
    missing, surplus = net.load_state_dict(published, strict=False)
    assert set(missing) <= counted
    assert not surplus
    net.featCal = cloning.logFbankCal()
    lda = load_file(folder / "lda" / "model.safetensors")
    net.eval()
    slow = torchaudio.transforms.Resample(SAMPLE_RATE, 16_000)(wav)
    vector = torch.nn.functional.linear(net(slow), lda["weight"], lda["bias"])
    whole = torchaudio.functional.resample(wav, SAMPLE_RATE, 44_100)
    whole = torch.nn.functional.pad(whole, (0, -whole.shape[-1] % 512))
    return vector[None], codec_of(folder / "dac").encode(whole[None]).audio_codes


@contextmanager
def as_ours(seed: int) -> Iterator[list[Columns]]:
    """Draws become a function of (seed, row, codebook), and each is put where it belongs. Yields
    the columns that are undelayed at the end.
    """
    modeling, *_ = source()
    revert, row, seen = modeling.revert_delay_pattern, 0, list[Columns]()

    def exponential(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        nonlocal row
        each = [gumbel(seed, row * CODEBOOKS + c, 0, IDS) for c in range(CODEBOOKS)]
        row += 1
        return torch.exp(-torch.from_numpy(np.stack(each)))[None, :, : self.shape[-1]]

    def masked_scatter(self: torch.Tensor, mask: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        if self.numel():
            self.copy_(torch.where(mask, drawn, self))
        return self

    def reverted(delayed: torch.Tensor) -> torch.Tensor:
        seen.append(delayed[0].T.clone())
        found: torch.Tensor = revert(delayed)
        return found

    with (
        patch.multiple(torch.Tensor, exponential_=exponential, masked_scatter_=masked_scatter),
        patch.object(modeling, "revert_delay_pattern", reverted),
    ):
        yield seen


def conditions(folder: Path, case: Case) -> dict[str, Any]:
    """As the authors' helper makes them of a case."""
    _, conditioning, _ = source()
    shares = dict(zip(EMOTIONS, PLAIN, strict=True)) | case.settings
    numbers = {n: case.settings[n] for n in case.settings if n not in EMOTIONS}
    made: dict[str, Any] = conditioning.make_cond_dict(
        text=f"{SAID} {PHONES}" if case.goes_on else PHONES,
        language=case.language,
        speaker=heard(folder)[0] if case.heard else None,
        emotion=[shares[name] for name in EMOTIONS],
        **numbers,
    )
    return made


def sampling(case: Case) -> dict[str, Any]:
    """In the authors' terms."""
    names = ("temperature", "top_p", "top_k", "min_p")
    return {name: getattr(case, name) for name in names} | {"repetition_penalty": case.penalty}


def generated(folder: Path, case: Case) -> np.ndarray[Any, Any]:
    """Rows behind the prompt, [rows, CODEBOOKS] int16, as far as they complete frames."""
    model = model_of(folder)
    prefix = heard(folder)[1] if case.goes_on else None
    begin = 0 if prefix is None else prefix.shape[2]
    with torch.inference_mode(), as_ours(case.seed) as seen:
        told = model.prepare_conditioning(conditions(folder, case))
        found = model.generate(
            told,
            audio_prefix_codes=prefix,
            max_new_tokens=case.frames,
            cfg_scale=case.guidance,
            sampling_params=sampling(case),
            progress_bar=False,
            disable_torch_compile=True,
        )
    frames = found.shape[2] - begin
    return seen[0][begin + 1 : begin + 1 + frames + CODEBOOKS - 1].numpy().astype(np.int16)


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py. The authors' code takes no batch: texts are spoken one after the other."""
    model = model_of(folder)
    told = model.prepare_conditioning(conditions(folder, SPEED))

    def speak(count: int) -> tuple[int, float]:
        made, began_s = 0, time.perf_counter()
        for _ in range(count):
            found = model.generate(
                told, max_new_tokens=SPEED.frames, progress_bar=False, disable_torch_compile=True
            )
            made += found.shape[2]
        return made, time.perf_counter() - began_s

    return speak


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case, and the codec."""
    found = {case.name: generated(checkpoints / case.checkpoint, case) for case in CASES}
    cloned = next(case for case in CASES if case.heard)
    with torch.inference_mode():
        vector, prefix = heard(checkpoints / cloned.checkpoint)
        ids = torch.from_numpy(codes().T[None].astype(np.int64))
        samples = codec_of(checkpoints / "dac").decode(audio_codes=ids).audio_values[0]
    found |= {"speaker": vector[0].numpy(), "heard": prefix[0].T.numpy().astype(np.int16)}
    np.savez_compressed(goldens / "zonos.npz", samples=samples.numpy()[::3], **found)
    print({name: rows.shape for name, rows in found.items()})

"""Goldens of VoxCPM2: the authors' package, computed in float64.

The package goes to float32 for norms and rotations; here it stays in float64. Draws take the
goldens' noise, and a recording is given as samples in place of a file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from tests.parity.material import hashed
from tests.parity.reference.bare import bare, quiet
from tests.parity.voxcpm_cases import (
    ALPHA,
    CASES,
    EXACT,
    RANK,
    SPEED_FRAMES,
    STRIDE,
    TEXT,
    VALUES,
    Case,
    noise,
    patches,
    published,
    recording,
)

# Without the demonstrations that the package imports first.
bare("voxcpm", "voxcpm.model")
quiet("librosa")
quiet("torchaudio")
ours = import_module("voxcpm.model.voxcpm2")
minicpm = import_module("voxcpm.modules.minicpm4.model")


def _norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * weight


def _rotated(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    turned = minicpm.rotate_half
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def exact() -> None:
    """Everything stays in float64."""
    minicpm.rms_layernorm, minicpm.apply_rotary_pos_emb = _norm, _rotated
    ours.get_dtype = lambda _: torch.float64


class Tokenizer:
    """In place of the class that the package reads tokenizers by."""

    @classmethod
    def from_pretrained(cls, path: str) -> PreTrainedTokenizerFast:
        return PreTrainedTokenizerFast(tokenizer_file=f"{path}/tokenizer.json", unk_token="<unk>")


def model_of(folder: Path, lora: Path | None = None, *, double: bool = True) -> Any:
    """The reference, in float64 unless it is asked otherwise."""
    ours.LlamaTokenizerFast = Tokenizer
    config = None
    if lora is not None:
        told = json.loads((lora / "lora_config.json").read_text("utf-8"))["lora_config"]
        config = ours.LoRAConfig(**told)
    model = ours.VoxCPM2Model.from_local(
        str(folder), optimize=False, device="cpu", lora_config=config
    )
    if lora is not None:
        loaded, skipped = model.load_lora_weights(str(lora))
        assert loaded
        assert not skipped
    if not double:
        return model
    model.double()
    for lm in (model.base_lm, model.residual_lm):
        lm.setup_cache(1, model.config.max_length, "cpu", torch.float64)
    decode = model.audio_vae.decode
    model.audio_vae.decode = lambda z, *rest: decode(z.double(), *rest)
    return model


@contextmanager
def keyed_noise(model: Any, case: Case) -> Iterator[None]:
    """Draws become a function of seed and patch; the noise is scaled as the solver allows it."""
    forward, count = model.feat_decoder.forward, 0

    def randn(shape: Any, **how: Any) -> torch.Tensor:
        nonlocal count
        found = torch.from_numpy(noise(case.seed, count).T[None].copy())
        assert tuple(shape) == tuple(found.shape)
        count += 1
        return found.to(how["dtype"])

    def scaled(**told: Any) -> torch.Tensor:
        return forward(**told, temperature=case.noise)

    decoder = patch.object(model.feat_decoder, "forward", scaled)
    with patch.object(torch, "randn", randn), decoder:
        yield


def heard(case: Case) -> Any:
    """Instead of reading a file."""
    samples = recording(case).astype(np.float64) / 32_768
    return SimpleNamespace(load=lambda *_, **__: (samples, 16_000))


def remembered(model: Any, case: Case) -> Any:
    """What the package keeps of a recording; None without one."""
    if not case.seconds:
        return None
    ours.librosa = heard(case)
    if case.said:
        return model.build_prompt_cache(prompt_text=case.said, prompt_wav_path="r")
    return model.build_prompt_cache(reference_wav_path="r")


def generated(model: Any, case: Case) -> dict[str, Any]:
    """Patches, whether each was followed by the end, and what was heard of the recording."""
    flags: list[bool] = []
    hook = model.stop_head.register_forward_hook(
        lambda _, __, said: flags.append(bool(said.argmax(-1)[0]))
    )
    kept = remembered(model, case)
    with keyed_noise(model, case), torch.inference_mode():
        told = {} if case.frames is None else {"max_len": case.frames}
        samples, _, found = model.generate_with_prompt_cache(
            target_text=case.target, prompt_cache=kept, cfg_value=case.guidance, **told
        )
    hook.remove()
    stops = np.array(flags) & (np.arange(len(flags)) > 2)
    assert len(stops) == len(found)
    arrays = {"patches": found.numpy(), "stops": stops.astype(np.uint8)}
    if kept is not None:
        arrays["heard"] = kept["audio_feat" if case.said else "ref_audio_feat"].numpy()
    del samples
    return arrays


def sound(model: Any) -> Any:
    """Samples of the codec's patches."""
    latents = torch.from_numpy(patches().astype(np.float64)).reshape(1, -1, VALUES)
    with torch.inference_mode():
        return model.audio_vae.decode(latents.transpose(1, 2))[0, 0].numpy()


def published_shapes() -> str:
    """Names and shapes of the tensors of the published sizes, as one hash."""
    config = ours.VoxCPMConfig.model_validate(published())
    with (
        torch.device("meta"),
        patch.object(minicpm.MiniCPMModel, "setup_cache", lambda *_: None),
        patch.object(minicpm.MiniCPMLongRoPE, "_set_cos_sin_cache", lambda *_, **__: None),
    ):
        vae = ours.AudioVAEV2(config=config.audio_vae_config)
        tokenizer = SimpleNamespace(vocab={})
        model = ours.VoxCPM2Model(config, tokenizer, vae, device="cpu")
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    return hashed({name: shape for name, shape in found.items() if "cached" not in name})


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py. The package takes no batch: texts are spoken one after the other."""
    model = model_of(folder, double=False)
    ids = torch.tensor([[*model.text_tokenizer(TEXT), model.audio_start_token]])
    mask = torch.ones_like(ids, dtype=torch.int32)
    blank = torch.zeros(1, ids.shape[1], model.patch_size, model.feat_dim)
    model.stop_head.weight.data.zero_()  # it speaks until it has to end

    def speak(count: int) -> tuple[int, float]:
        made, began_s = 0, time.perf_counter()
        for _ in range(count):
            _, found = model.inference(
                ids, mask, blank, torch.zeros_like(mask), max_len=SPEED_FRAMES
            )
            made += len(found)
        return made, time.perf_counter() - began_s

    return speak


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case, and the codec."""
    exact()
    arrays = {}
    models = {name: model_of(checkpoints / name) for name in {case.checkpoint for case in EXACT}}
    for case in EXACT:
        found = generated(models[case.checkpoint], case)
        arrays |= {f"{case.name}/{name}": array for name, array in found.items()}
    adapted = model_of(checkpoints / "voxcpm", checkpoints / "voxcpm-adapter")
    assert adapted.lora_config.r == RANK
    assert adapted.lora_config.alpha == ALPHA
    case = next(case for case in CASES if case.checkpoint == "voxcpm")
    arrays["adapted/patches"] = generated(adapted, case)["patches"]
    arrays["samples"] = sound(models["voxcpm"])[::STRIDE].astype(np.float32)
    arrays["shapes"] = np.array(published_shapes())
    np.savez_compressed(goldens / "voxcpm2.npz", **arrays)
    print({case.name: len(arrays[f"{case.name}/stops"]) for case in EXACT})

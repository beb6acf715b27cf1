"""Goldens of Step-Audio 2's flow, in float64.

The authors' encoder, estimator and solver as `stepaudio2-minicpmo` has them, of small widths and
with the weights of a synthetic codec. Replaced are the noise, which they draw without a seed, the
buffers of the published sizes, and compilation. The loop around them, whose cut the package has
changed, is written here as the authors' own has it: github stepfun-ai/Step-Audio2, token2wav.py, at
b1bb23c4 (read in weedge/Step-Audio2, 12e1a56dde116ac325754c0f5de588300d77d827).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch._dynamo  # it looks at all modules that there are when it is imported
from torch import Tensor

from tests.parity import step_flow_cases as cases
from tests.parity.reference.bare import bare, quiet
from tests.parity.reference.s3_flow import load_one, loaded

STEPS, WIDTH, HEADS, LAYERS = 10, 64, 2, 2
MOST = 1000
ENCODER = {
    "input_size": WIDTH,
    "output_size": WIDTH,
    "attention_heads": 2,
    "linear_units": 96,
    "num_blocks": 2,
    "num_up_blocks": 2,
}


def networks(tensors: dict[str, Tensor]) -> Any:
    """The flow."""
    torch.compile = lambda *_, **__: lambda function: function  # type: ignore[assignment]
    bare("stepaudio2")
    quiet("onnxruntime")
    from stepaudio2.cosyvoice2.flow.decoder_dit import DiT
    from stepaudio2.cosyvoice2.flow.flow import CausalMaskedDiffWithXvec
    from stepaudio2.cosyvoice2.flow.flow_matching import CausalConditionalCFM
    from stepaudio2.cosyvoice2.transformer.upsample_encoder_v2 import UpsampleConformerEncoderV2

    with patch.object(torch, "zeros", _little):  # their buffers have the published sizes
        estimator = DiT(4 * cases.MELS, cases.MELS, 1.5, LAYERS, HEADS, 64, WIDTH)
        cfm = CausalConditionalCFM(estimator)
    encoder = UpsampleConformerEncoderV2(**ENCODER)
    flow = CausalMaskedDiffWithXvec(
        WIDTH, cases.MELS, vocab_size=6561, encoder=encoder, decoder=cfm
    )
    loaded(flow, tensors, "input_embedding", "spk_embed", "encoder", "decoder.")
    buffers(cfm)
    return flow


def _little(*size: Any, **_: Any) -> Tensor:
    return torch.empty(0)


def buffers(cfm: Any) -> None:
    """Of these widths, and noise that is drawn from a seed."""
    estimator = cfm.estimator
    estimator.att_cache_buffer = torch.zeros(LAYERS, 2, HEADS, MOST, 128)
    estimator.cnn_cache_buffer = torch.zeros(LAYERS, 2, 2 * WIDTH, 2)
    cfm.att_cache_buffer = torch.zeros(STEPS, LAYERS, 2, HEADS, MOST, 128)
    cfm.cnn_cache_buffer = torch.zeros(STEPS, LAYERS, 2, 2 * WIDTH, 2)
    seeded = torch.Generator().manual_seed(0)
    noise = torch.randn(1, cases.MELS, 15_000, generator=seeded, dtype=torch.float32)
    cfm.rand_noise = noise.double()


def streamed(flow: Any, name: str) -> np.ndarray:  # type: ignore[type-arg]
    """The mel frames of an answer."""
    said = cases.recording()
    prompt = torch.from_numpy(said["token"].astype(np.int64))[None]
    mel = torch.from_numpy(said["mel"])[None].double()
    speaker = torch.from_numpy(said["speaker"]).double()
    ahead = prompt[:, : cases.LOOKAHEAD]
    cache = flow.setup_cache(torch.cat([prompt, ahead], 1), mel, speaker, STEPS)
    found, tokens = [], torch.from_numpy(cases.tokens(name).astype(np.int64))[None]
    for first, last, final in cases.chunks(tokens.shape[1]):
        made, cache = flow.inference_chunk(tokens[:, first:last], speaker, cache, final, STEPS)
        found.append(made[0].clone())
        cache["estimator_att_cache"] = cut(cache["estimator_att_cache"], mel.shape[1])
    return torch.cat(found, 1).numpy()


def cut(kept: Tensor, prompt: int) -> Tensor:
    """What `Token2wav.stream` leaves of keys and values: the first `prompt` and the last 100."""
    if kept.shape[4] <= prompt + 100:
        return kept
    return torch.cat([kept[:, :, :, :, :prompt], kept[:, :, :, :, -100:]], 4)


def write(checkpoints: Path, goldens: Path) -> None:
    """Mel frames of every answer."""
    torch.set_default_dtype(torch.float64)
    tensors = {n: t.double() for n, t in load_one(checkpoints / cases.NAME).items()}
    flow = networks(tensors)
    found = {name: streamed(flow, name)[:: cases.MEL_STRIDE] for name in cases.LENGTHS}
    np.savez_compressed(
        goldens / f"{cases.NAME}.npz",
        **{name: mel.astype(np.float32) for name, mel in found.items()},
    )
    for name, mel in found.items():
        print(name, mel.shape, mel.mean(), mel.std())

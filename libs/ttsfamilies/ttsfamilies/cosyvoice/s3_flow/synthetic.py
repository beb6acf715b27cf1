"""A flow of S3 tokens and HiFT: published names, small widths, weights drawn from a seed.

As CosyVoice 2, Fun-CosyVoice 3 and Step-Audio 2 have them, and as Chatterbox and its Turbo have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ttscommon.engine.nn.adain import NormedConv1d, NormedConvTranspose1d
from ttscommon.engine.nn.weights import unfilled
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import spread_out
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import (
    ConvDiTSizes,
    DiTSizes,
    EncoderSizes,
    FlowSizes,
    HiftSizes,
    UNetSizes,
)

KINDS: Final = ("cosyvoice2", "cosyvoice3", "chatterbox", "chatterbox_turbo", "step_audio2")
_MELS: Final = 80
_SPEAKER: Final = 192
_PITCH_HZ: Final = 140.0
_LENGTH: Final = 0.7


def flow_sizes(kind: str) -> FlowSizes:
    """Widths for tests."""
    if kind == "cosyvoice3":
        dit = DiTSizes(4 * _MELS, _MELS, 64, 128, 96, 2, 31)
        return FlowSizes(TOKENS, _MELS, _SPEAKER, _MELS, None, 48, dit)
    encoder = EncoderSizes(64, 2, 96, 2, 4)
    if kind == "step_audio2":
        convdit = ConvDiTSizes(4 * _MELS, _MELS, 64, 128, 96, 2)
        # The reference takes no more layers behind the middle than before it.
        few = EncoderSizes(64, 2, 96, 2, 2)
        return FlowSizes(TOKENS, 64, _SPEAKER, _MELS, few, 64, convdit)
    width = 32
    meanflow = kind == "chatterbox_turbo"
    unet = UNetSizes(4 * _MELS, _MELS, width, 64, 4 * width, 4 * width, 1, 2, meanflow)
    return FlowSizes(TOKENS, 64, _SPEAKER, _MELS, encoder, 64, unet)


def hift_sizes(kind: str) -> HiftSizes:
    """As above, with the published kernels."""
    causal = kind == "cosyvoice3"
    return HiftSizes(_MELS, 16, 16, 9, causal, 16, (16, 11, 7), (3, 7, 11), (7, 7, 11))


def write_codec(folder: Path, kind: str, *, seed: int = 0) -> None:
    """Files as they are published, or, for CosyVoice's, converted: see `antiphon convert`."""
    folder.mkdir(parents=True, exist_ok=True)
    own = kind.startswith("chatterbox")
    flow, hift = unfilled(FlowNet, flow_sizes(kind)), unfilled(Hift, hift_sizes(kind))
    parts = [("flow.", flow), ("mel2wav.", hift)] if own else [("", flow), ("", hift)]
    tensors: dict[str, Tensor] = {}
    for prefix, net in parts:
        tensors |= dict(published_tensors(net, prefix, seed))
    mean = "_meanflow" if kind == "chatterbox_turbo" else ""
    name = f"s3gen{mean}.safetensors" if own else "model.safetensors"
    save_file(tensors, folder / name, {"format": "pt"})


def published_tensors(net: nn.Module, prefix: str, seed: int) -> Iterator[tuple[str, Tensor]]:
    """A network's tensors by their published names; weights of normed convolutions in two."""
    for place, module in net.named_modules():
        normed = isinstance(module, NormedConv1d | NormedConvTranspose1d)
        for part, parameter in module.named_parameters(recurse=False):
            name, shape = f"{place}.{part}", tuple(parameter.shape)
            drawn = spread_out(name, shape, seed, _spread)
            if part == "weight" and normed:
                stem = f"{prefix}{place}.parametrizations.weight.original"
                yield f"{stem}0", torch.full((shape[0], 1, 1), _LENGTH)
                yield f"{stem}1", drawn
            else:
                yield prefix + name, drawn


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep signals of about unit size, and a voice's pitch."""
    if name == "f0_predictor.classifier.bias":
        return 0.0, _PITCH_HZ
    if name == "f0_predictor.classifier.weight":
        return 8.0, 0.0
    if name.startswith("conv_post") and name.endswith("bias"):
        return 0.3, 0.3
    if name.endswith("alpha"):
        return 0.2, 1.0
    if name.endswith("bias"):
        return 0.05, 0.0
    if len(shape) == 1:
        return 0.1, 1.0
    if "pos_bias" in name:
        return 0.1, 0.0
    return float(np.prod(shape[1:])) ** -0.5, 0.0


FAMILY: Final = SyntheticFamily(
    lambda folder, size, kind, seed: write_codec(folder, kind, seed=seed), "a codec", kinds=KINDS
)

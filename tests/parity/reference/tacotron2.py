"""Goldens of Tacotron 2 and HiFi-GAN, in float64.

torchaudio's own Tacotron 2, told what its prenet drops, and transformers' own generator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file

from tests.parity.reference.bare import without_libraries
from tests.parity.tacotron2_cases import CASES, HEARD, STRIDE, WIDE, Case, drawn, ids

LIMIT = 2000


def tacotron() -> ModuleType:
    """torchaudio's module, whose dropout is to be told."""
    from torchaudio.models import tacotron2

    return tacotron2


def talker_of(module: ModuleType, folder: Path, case: Case) -> Any:
    """The reference, whose names lack the parts that NVIDIA's have."""
    told = load_file(folder / "model.safetensors")
    tensors = {
        name.replace(".linear_layer.", ".").replace(".conv.", "."): tensor
        for name, tensor in told.items()
        if name.startswith(("embedding.", "encoder.", "decoder.", "postnet."))
    }
    convolutions = "{}.convolutions.{}.0.weight"

    def count(part: str) -> int:
        return sum(convolutions.format(part, i) in tensors for i in range(9))

    model = module.Tacotron2(
        n_mels=tensors["decoder.linear_projection.weight"].shape[0],
        n_symbol=tensors["embedding.weight"].shape[0],
        symbol_embedding_dim=tensors["embedding.weight"].shape[1],
        encoder_embedding_dim=tensors["embedding.weight"].shape[1],
        encoder_n_convolution=count("encoder"),
        encoder_kernel_size=tensors[convolutions.format("encoder", 0)].shape[2],
        decoder_rnn_dim=tensors["decoder.decoder_rnn.weight_hh"].shape[1],
        decoder_max_step=case.limit or LIMIT,
        attention_rnn_dim=tensors["decoder.attention_rnn.weight_hh"].shape[1],
        attention_hidden_dim=tensors["decoder.attention_layer.query_layer.weight"].shape[0],
        attention_location_n_filter=tensors[
            "decoder.attention_layer.location_layer.location_conv.weight"
        ].shape[0],
        attention_location_kernel_size=tensors[
            "decoder.attention_layer.location_layer.location_conv.weight"
        ].shape[2],
        prenet_dim=tensors["decoder.prenet.layers.0.weight"].shape[0],
        postnet_n_convolution=count("postnet"),
        postnet_kernel_size=tensors[convolutions.format("postnet", 0)].shape[2],
        postnet_embedding_dim=tensors[convolutions.format("postnet", 0)].shape[0],
        gate_threshold=case.threshold,
    )
    model.load_state_dict(tensors)
    return model.double().eval()


@contextmanager
def keyed(module: ModuleType, case: Case, begun: int) -> Iterator[None]:
    """What is dropped becomes a function of seed, frame and layer."""
    plain, calls = module.F.dropout, [0]

    def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True) -> torch.Tensor:
        if not training:
            return plain(x, p, training)
        frame, layer = divmod(calls[0], 2)
        calls[0] += 1
        noise = drawn(case.seed, begun + frame, layer, x.shape[-1])
        kept = torch.from_numpy(noise >= np.float32(case.dropout))
        return x * kept / (1 - case.dropout)

    with patch.object(module.F, "dropout", dropout):
        yield


@torch.no_grad()
def said(module: ModuleType, folder: Path, case: Case) -> dict[str, Any]:
    """Frames as they are fed back and as the postnet leaves them, and where the attention was."""
    model = talker_of(module, folder, case)
    told: list[torch.Tensor] = []
    model.postnet.register_forward_pre_hook(lambda _, args: told.append(args[0]))
    mels, restored, places, of, ends = [], [], [], [], []
    for number, sentence in enumerate(case.told):
        begun = sum(map(len, mels))
        tokens = torch.tensor([ids(sentence)])
        with keyed(module, case, begun):
            found, lengths, attended = model.infer(tokens, torch.tensor([tokens.shape[1]]))
        count = int(lengths[0])
        mels.append(told[-1][0, :, :count].T.numpy())
        restored.append(found[0, :, :count].T.numpy())
        places.append(attended[0, :count].argmax(-1).numpy())
        of.append(np.full(count, number))
        fired = count < model.decoder.decoder_max_step
        ends.append(np.arange(count) == (count - 1 if fired else -1))
    return {
        "mel": np.concatenate(mels),
        "restored": np.concatenate(restored),
        "place": np.concatenate(places).astype(np.int16),
        "of": np.concatenate(of).astype(np.int16),
        "ends": np.concatenate(ends).astype(np.uint8),
    }


def generator_of(folder: Path) -> Any:
    """transformers' own, with the weights' norms folded."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    config = json.loads((folder / "config.json").read_text("utf-8"))
    names = ("upsample_initial_channel", "upsample_rates", "upsample_kernel_sizes")
    blocks = ("resblock_kernel_sizes", "resblock_dilation_sizes")
    told = SpeechT5HifiGanConfig(
        model_in_dim=config["num_mels"],
        sampling_rate=config["sampling_rate"],
        normalize_before=False,
        **{name: config[name] for name in (*names, *blocks)},
    )
    model, tensors = SpeechT5HifiGan(told), load_file(folder / "model.safetensors")
    missing, surplus = model.load_state_dict(dict(_folded(tensors)), strict=False)
    assert {*missing} <= {"mean", "scale"}
    assert not surplus
    return model.double().eval()


def _folded(tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in tensors.items():
        if not name.startswith(("conv_pre.", "conv_post.", "ups.", "resblocks.")):
            continue
        ours = name.replace("ups.", "upsampler.") if name.startswith("ups.") else name
        if name.endswith(".weight_v"):
            length = tensors[f"{name[:-1]}g"].double()
            others = tuple(range(1, tensor.ndim))
            whole = tensor.double()
            yield ours[:-2], length * whole / whole.norm(dim=others, keepdim=True)
        elif name.endswith(".bias"):
            yield ours, tensor.double()


@torch.no_grad()
def sounds(folder: Path, found: dict[str, Any]) -> Any:
    """Samples of all sentences, each decoded by itself."""
    model, parts = generator_of(folder), []
    for number in np.unique(found["of"]):
        mel = torch.from_numpy(found["restored"][found["of"] == number]).double()
        parts.append(model(mel).numpy())
    return np.concatenate(parts)


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    without_libraries()
    module, arrays, counts = tacotron(), {}, {}
    for case in (*CASES, WIDE):
        found = said(module, checkpoints / case.checkpoint, case)
        counts[case.name] = len(found["of"])
        if case is HEARD:
            whole = sounds(checkpoints / case.checkpoint, found)
            arrays["samples"] = whole[::STRIDE].astype(np.float32)
        arrays |= {f"{case.name}/{name}": found[name] for name in found if name != "restored"}
    np.savez_compressed(goldens / "tacotron2.npz", **arrays)
    print(counts)

"""Tacotron 2 with HiFi-GAN: published names, small or published widths, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.weights import published_shapes, unfilled
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, save
from ttsfamilies.tacotron2.codec import MelVocoder, sources
from ttsfamilies.tacotron2.facts import HifiganConfig, TacotronSizes, load_config
from ttsfamilies.tacotron2.net import TacotronNet
from ttsfamilies.tacotron2.net import sources as talker_sources
from ttsfamilies.tacotron2.request import SYMBOLS

TINY: Final = TacotronSizes(
    symbols=SYMBOLS,
    mels=16,
    text=32,
    reading=(2, 5),
    prenet=(32, 32),
    listening=32,
    speaking=32,
    attention=32,
    filters=4,
    taps=7,
    restoring=(3, 5, 32),
)
PUBLISHED: Final = TacotronSizes(
    symbols=SYMBOLS,
    mels=80,
    text=512,
    reading=(3, 5),
    prenet=(256, 256),
    listening=1024,
    speaking=1024,
    attention=128,
    filters=32,
    taps=31,
    restoring=(5, 5, 512),
)
_VOICE: Final = {"sampling_rate": 22_050, "hop_size": 256, "voice": "slt"}
_BLOCKS: Final = {
    "resblock": "1",
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
}
_UPS: Final = {"upsample_rates": [8, 8, 2, 2], "upsample_kernel_sizes": [16, 16, 4, 4]}
# The published generators, by their authors' names, and one for tests.
GENERATORS: Final[Mapping[str, dict[str, Any]]] = {
    "v1": {**_BLOCKS, **_UPS, "upsample_initial_channel": 512},
    "v2": {**_BLOCKS, **_UPS, "upsample_initial_channel": 128},
    "v3": {
        "resblock": "2",
        "resblock_kernel_sizes": [3, 5, 7],
        "resblock_dilation_sizes": [[1, 2], [2, 6], [3, 12]],
        "upsample_rates": [8, 8, 4],
        "upsample_kernel_sizes": [16, 16, 8],
        "upsample_initial_channel": 256,
    },
    "tiny": {
        **_UPS,
        "resblock": "1",
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3]] * 2,
        "upsample_initial_channel": 32,
    },
}
# Drawn as they are, every step would be the one before it: what is dropped has to be heard.
_LOUDER: Final = {
    "_rnn.weight": 3.0,
    "prenet.": 2.0,
    "linear_projection.": 3.0,
    "attention_layer.v.": 6.0,
    "gate_layer.": 12.0,
}
_ENDING: Final = -4.5


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    ending: float = _ENDING,
    sizes: TacotronSizes = TINY,
    generator: str = "tiny",
) -> None:
    """Write both halves. ending: the gate's bias; the lower, the longer."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {**GENERATORS[generator], **_VOICE, "num_mels": sizes.mels}
    dump_json(folder / "config.json", told)
    found = dict(drawn(shapes_of(load_config(folder), sizes), seed))
    for part, factor in _LOUDER.items():
        found |= {name: factor * tensor for name, tensor in found.items() if part in name}
    found["decoder.gate_layer.linear_layer.bias"][:] = ending
    save(folder, _sound(found))


def shapes_of(config: HifiganConfig, sizes: TacotronSizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a folder."""
    talker, vocoder = unfilled(TacotronNet, sizes), unfilled(MelVocoder, config, sizes)
    shapes = published_shapes(talker, talker_sources(talker))
    weights = [name for name in vocoder.generator.state_dict() if name.endswith(".weight")]
    apart = {f"{name}_g" for name in weights}
    return shapes | published_shapes(vocoder, sources(vocoder, apart))


def _sound(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """With norms that keep what passes through them of unit size."""
    for name, tensor in tensors.items():
        if name.endswith("running_var"):
            yield name, 0.5 + tensor.abs().clamp(max=1.0)
            yield f"{name.removesuffix('running_var')}num_batches_tracked", torch.tensor(1000)
        elif name.endswith("weight_g"):
            others = tuple(range(1, tensor.ndim))
            yield name, tensors[f"{name[:-1]}v"].norm(dim=others, keepdim=True)
        elif ".1." in name and name.endswith((".1.weight", "running_mean")):
            yield name, name.endswith("weight") + 0.1 * tensor
        else:
            yield name, tensor


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A talker with its generator: tiny, or with one of the published ones."""
    if size == "tiny":
        write_checkpoint(folder, seed=seed)
    else:
        write_checkpoint(folder, seed=seed, sizes=PUBLISHED, generator=kind)


FAMILY: Final = SyntheticFamily(
    write_family, "a talker and its generator", ("tiny", "published"), ("v1", "v2", "v3")
)

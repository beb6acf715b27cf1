"""Higgs Audio's tensors by the names that its authors published them under, in transformers' names.

The names were read in transformers' own programs of conversion, which are under Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.nn.weights import Shards, Tensors

_TALKER: Final = "audio_codebook_embeddings.weight"
_CODEC: Final = "decoder_2.model.0."
_UNIT: Final = ("snake1", "conv1", "snake2", "conv2")
_UNUSED: Final = ("audio_codebook_weights", "rotary_emb.inv_freq", "rotary_emb.original_inv_freq")
_LENGTH, _DIRECTION = ".weight_g", ".weight_v"
_FROZEN: Final = re.compile(r"\.(embedding|linear)_(frozen|trainable)\.")
_NAMES: Final = (
    (r"^audio_codebook_embeddings\.", "model.embed_audio_tokens.embed_audio_tokens."),
    (r"^(embed_tokens|layers|norm)\.", r"model.\1."),
    (r"^audio_decoder_proj\.", ""),
    (r"^quantizer\.vq\.layers\.", "quantizer.quantizers."),
    (r"\._codebook\.", ".codebook."),
    (r"^fc1\.", "unused."),
    (r"^fc_prior\.", "fc."),
    (r"^fc_post1\.", "fc1."),
    (r"^fc_post2\.", "fc2."),
    (r"\.(conv[12]?)\.conv\.", r".\1."),
)
# Of DAC's halves: what stands first and last, and in a block before its units and behind them.
_ENDS: Final = {"0": "conv1", "6": "snake1", "7": "conv2"}
_ENCODER: Final = re.compile(r"^encoder\.block\.(\d)\.(?:block\.(\d)\.(?:block\.(\d)\.)?)?")
_DECODER: Final = re.compile(r"^decoder_2\.model\.(\d)\.(?:block\.(\d)\.(?:block\.(\d)\.)?)?")


class Renamed:
    """See Tensors. Each is made of one published tensor or more."""

    def __init__(self, published: Tensors) -> None:
        self._published = published
        self._parts: dict[str, list[str]] = {}
        for name in sorted(published.shapes):
            if not name.endswith(_UNUSED):
                self._parts.setdefault(renamed(name), []).append(name)

        self._sizes = dict(self._sized())

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._sizes

    def _sized(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for name, parts in self._parts.items():
            shapes = [self._published.shapes[part] for part in parts]
            rows = shapes[-1][0] if _folded(parts) else sum(shape[0] for shape in shapes)
            yield name, (rows, *shapes[-1][1:]) if shapes[-1] else ()

    def read(self, name: str) -> Tensor:
        parts = self._parts[name]
        found = [self._published.read(part) for part in parts]
        if not _folded(parts):
            return found[0] if len(found) == 1 else torch.cat(found)
        length, direction = found
        folded: Tensor = (
            length * direction / torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)
        )
        return folded

    def where(self, name: str) -> Path:
        return self._published.where(self._parts.get(name, [""])[0])


def _folded(parts: Sequence[str]) -> bool:
    return parts[0].endswith(_LENGTH)


def renamed(name: str) -> str:
    """A published name as transformers has it; of the parts of a tensor, that of the whole."""
    for ending in (_LENGTH, _DIRECTION):
        if name.endswith(ending):
            name = f"{name.removesuffix(ending)}.weight"
    name = _FROZEN.sub(".", name)
    name = _ENCODER.sub(lambda m: f"acoustic_encoder.{_encoding(*m.groups())}.", name)
    name = _DECODER.sub(lambda m: f"acoustic_decoder.{_decoding(*m.groups())}.", name)
    for old, new in _NAMES:
        name = re.sub(old, new, name)
    return name


def _encoding(at: str, inner: str | None, layer: str | None) -> str:
    return _placed(at, inner, layer, ("3", "conv1"), 1)


def _decoding(at: str, inner: str | None, layer: str | None) -> str:
    return _placed(at, inner, layer, ("0", "conv_t1"), -1)


def _placed(
    at: str, inner: str | None, layer: str | None, around: tuple[str, str], shift: int
) -> str:
    """around: where a block has its snake, and the name of its own convolution. shift: from a
    unit's place in the block to its number.
    """
    if inner is None:
        return _ENDS[at]
    block = f"block.{int(at) - 1}"
    if layer is None:
        snake, convolution = around
        return f"{block}.{'snake1' if inner == snake else convolution}"
    return f"{block}.res_unit{int(inner) + shift}.{_UNIT[int(layer)]}"


def tensors_of(folder: Path) -> Tensors:
    """The tensors of a talker's folder or a codec's; raises CheckpointError."""
    found = Shards.of(folder)
    authors = any(name == _TALKER or name.startswith(_CODEC) for name in found.shapes)
    return Renamed(found) if authors else found

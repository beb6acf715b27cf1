"""Sizes of Higgs Audio's codec, as transformers writes them. No torch.

Defaults are the published codec's, but for the class's own, which describe another one.

The names were read in transformers' own programs of conversion, which are under Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2, prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import size_problems
from ttscommon.engine.nn.weights import Shards, Tensors, relocated
from ttsfamilies.base.codec.dac import UNIT

KIND: Final = "higgs_audio_v2_tokenizer"
# The third version's checkpoint holds the codec too, and says nothing of its sizes.
THIRD_KIND: Final = "higgs_multimodal_qwen3"
_THIRD_PREFIX: Final = "tied.embedding.modality_embeddings.0.model."
_PARTS: Final = (
    *("acoustic_encoder.", "acoustic_decoder.", "encoder_semantic.", "decoder_semantic."),
    *("semantic_model.", "fc.", "fc1.", "fc2.", "quantizer.", "unused."),
)


@dataclass(frozen=True)
class AcousticSizes:
    """Of DAC's two halves."""

    encoder_hidden_size: int = 64
    downsampling_ratios: tuple[int, ...] = (8, 5, 4, 2, 3)
    decoder_hidden_size: int = 1024
    upsampling_ratios: tuple[int, ...] = (8, 5, 4, 2, 3)
    hidden_size: int = 256


@dataclass(frozen=True)
class HubertSizes:
    """Of HuBERT (Hsu et al., 2021)."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    conv_dim: tuple[int, ...] = (512,) * 7
    conv_stride: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_kernel: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    do_stable_layer_norm: bool = False
    conv_bias: bool = False
    feat_proj_layer_norm: bool = True
    hidden_act: str = "gelu"
    feat_extract_activation: str = "gelu"
    conv_pos_batch_norm: bool = False


@dataclass(frozen=True)
class HiggsCodecSizes:
    """config.json."""

    acoustic_model_config: AcousticSizes = field(default_factory=AcousticSizes)
    semantic_model_config: HubertSizes = field(default_factory=HubertSizes)
    sample_rate: int = 24_000
    semantic_sample_rate: int = 16_000
    downsample_factor: int = 320
    target_bandwidths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)
    codebook_size: int = 1024
    codebook_dim: int = 64
    kernel_size: int = 3
    unit_kernel_size: int = 3
    channel_ratios: tuple[float, ...] = (1.0, 1.0)
    strides: tuple[int, ...] = (1, 1)
    block_dilations: tuple[int, ...] = (1, 1)

    @property
    def frame_samples(self) -> int:
        return prod(self.acoustic_model_config.upsampling_ratios)

    @property
    def latent(self) -> int:
        """Channels of what is quantised."""
        return self.acoustic_model_config.hidden_size + self.semantic_model_config.hidden_size

    @property
    def codebooks(self) -> int:
        """By the highest of the bandwidths, which are in kbit/s."""
        rate_hz = ceil(self.sample_rate / self.frame_samples)
        return int(1000 * self.target_bandwidths[-1] // (rate_hz * ceil(log2(self.codebook_size))))

    @property
    def semantic_step(self) -> int:
        """HuBERT's frames in one of the codec's."""
        heard = self.frame_samples * self.semantic_sample_rate / self.sample_rate
        return int(heard / self.downsample_factor)

    def problems(self) -> Iterator[str]:
        """What no codec can have, and kinds of it that are not served."""
        acoustic, semantic = self.acoustic_model_config, self.semantic_model_config
        for part in (self, acoustic, semantic):
            yield from size_problems(part)
        if prod(acoustic.downsampling_ratios) != prod(acoustic.upsampling_ratios):
            yield "encoder and decoder disagree on a frame's samples"
        if acoustic.decoder_hidden_size % 2 ** len(acoustic.upsampling_ratios):
            yield f"decoder_hidden_size {acoustic.decoder_hidden_size} cannot be halved so often"
        if not self.target_bandwidths or self.codebooks < 1:
            yield "its bandwidths leave no codebook"
        plain = ("group", "gelu", "gelu", False, False, False, True)
        if plain != (
            *(semantic.feat_extract_norm, semantic.hidden_act, semantic.feat_extract_activation),
            *(semantic.do_stable_layer_norm, semantic.conv_bias, semantic.conv_pos_batch_norm),
            semantic.feat_proj_layer_norm,
        ):
            yield "another kind of HuBERT is not served"
        if set(self.channel_ratios) != {1.0} or set(self.strides) != {1}:
            yield "an encoder of features that changes their width or rate is not served"


@dataclass(frozen=True)
class _AuthorsSizes:
    """config.json of the authors' own, whose class has the other sizes."""

    ratios: tuple[int, ...]
    target_bandwidths: tuple[float, ...]
    D: int = 256
    sample_rate: int = 24_000
    bins: int = 1024
    codebook_dim: int = 64

    def sizes(self) -> HiggsCodecSizes:
        """In transformers' terms."""
        acoustic = AcousticSizes(
            downsampling_ratios=self.ratios, upsampling_ratios=self.ratios, hidden_size=self.D
        )
        return HiggsCodecSizes(
            acoustic,
            sample_rate=self.sample_rate,
            target_bandwidths=self.target_bandwidths,
            codebook_size=self.bins,
            codebook_dim=self.codebook_dim,
        )


def load_sizes(folder: Path) -> tuple[HiggsCodecSizes, str]:
    """A codec's config.json, checked, and what the names of its tensors begin with.

    Raises CheckpointError.
    """
    path = folder / "config.json"
    said = read_json(path, dict[str, Any])
    if said.get("model_type") == THIRD_KIND:
        return HiggsCodecSizes(), _THIRD_PREFIX
    if "ratios" in said:
        sizes = read_json(path, _AuthorsSizes).sizes()
    else:
        sizes = read_json(path, HiggsCodecSizes)
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: {wrong}")
    return sizes, ""


def parts(theirs: str) -> tuple[str, ...]:
    """What names of a codec's tensors begin with, those of unused parts too; theirs: see above."""
    beside = ("body.", "tied.") if theirs else ()
    return (*(f"{theirs}{part}" for part in _PARTS), *beside)


_TALKER: Final = "audio_codebook_embeddings.weight"
_CODEC: Final = "decoder_2.model.0."
_ENDS: Final = (("0", "conv1"), ("6", "snake1"), ("7", "conv2"))
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
# DAC's halves, whose blocks have their own convolution and its snake before or behind three units.
_DAC: Final = {
    **{f"encoder.block.{at}": f"acoustic_encoder.{name}" for at, name in _ENDS},
    **{f"decoder_2.model.{at}": f"acoustic_decoder.{name}" for at, name in _ENDS},
    "encoder.block.*.block.3": "acoustic_encoder.block.*-1.snake1",
    "encoder.block.*.block.4": "acoustic_encoder.block.*-1.conv1",
    "decoder_2.model.*.block.0": "acoustic_decoder.block.*-1.snake1",
    "decoder_2.model.*.block.1": "acoustic_decoder.block.*-1.conv_t1",
    **{
        f"encoder.block.*.block.*.{at}": f"acoustic_encoder.block.*-1.res_unit*+1.{name}"
        for at, name in UNIT.items()
    },
    **{
        f"decoder_2.model.*.block.*.{at}": f"acoustic_decoder.block.*-1.res_unit*-1.{name}"
        for at, name in UNIT.items()
    },
}


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
        return length * direction / torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)

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
    name = relocated(name, _DAC)
    for old, new in _NAMES:
        name = re.sub(old, new, name)
    return name


def tensors_of(folder: Path) -> Tensors:
    """The tensors of a talker's folder or a codec's; raises CheckpointError."""
    found = Shards.of(folder)
    authors = any(name == _TALKER or name.startswith(_CODEC) for name in found.shapes)
    return Renamed(found) if authors else found

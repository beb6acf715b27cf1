"""A Fish Audio S2 checkpoint's config.json. No torch.

Names of tensors are the published ones; the codec's are those of `codec.pth`, which is converted
to `codec.safetensors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError, checked_config, read_json
from ttscommon.engine.codec_sizes import head_problems, size_problems
from ttscommon.wire.fields import Array
from ttsfamilies.base.lm.turns import EncodedTurn

CODEC: Final = "codec"
"""What the codec's files are called, up to their ending."""


@dataclass(frozen=True)
class FishCodecSizes:
    """The codec's, by our names, as published; config.json says nothing of them, but it may, under
    `codec_config`.

    latent: channels between its parts. inner: of a codebook. decoder: channels behind its first
    convolution. ratios: up from frames to the decoder's steps. rates: up from there to samples.
    """

    sample_rate: int = 44_100
    latent: int = 1024
    inner: int = 8
    semantic_codes: int = 4096
    codes: int = 1024
    residuals: int = 9
    layers: int = 8
    heads: int = 16
    head_dim: int = 64
    hidden: int = 3072
    window: int = 128
    eps: float = 1e-5
    theta: float = 10_000.0
    decoder: int = 1536
    ratios: tuple[int, ...] = (2, 2)
    rates: tuple[int, ...] = (8, 8, 4, 2)

    @property
    def codebooks(self) -> int:
        return 1 + self.residuals

    @property
    def frame_samples(self) -> int:
        return prod(self.ratios) * prod(self.rates)

    def problems(self) -> list[str]:
        """What no such codec can have."""
        found = [*size_problems(self), *head_problems(self.heads, self.heads, self.head_dim)]
        if self.decoder % (1 << len(self.rates)):
            found.append(f"decoder {self.decoder} cannot be halved at every rate")
        return found


@dataclass(frozen=True)
class _Codec:
    codec_config: FishCodecSizes = field(default_factory=FishCodecSizes)


def load_sizes(folder: Path) -> FishCodecSizes:
    """Read and check what a folder says of its codec; raises CheckpointError."""
    path = folder / "config.json"
    sizes = read_json(path, _Codec).codec_config
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: codec_config: {wrong}")
    return sizes


# Ids that repetition is looked for among.
WINDOW: Final = 10


@dataclass(frozen=True)
class FishStack:
    """A transformer, by its published names."""

    dim: int
    intermediate_size: int
    n_layer: int
    n_head: int
    n_local_heads: int
    head_dim: int
    vocab_size: int
    rope_base: float
    norm_eps: float = 1e-6
    max_seq_len: int = 32_768
    attention_qk_norm: bool = False
    attention_qkv_bias: bool = False
    attention_o_bias: bool = False
    tie_word_embeddings: bool = False
    use_moe: bool = False

    def problems(self) -> list[str]:
        """What is wrong with it, and kinds of it that are not served."""
        heads = head_problems(self.n_head, self.n_local_heads, self.head_dim)
        found = [*size_problems(self), *heads]
        if self.attention_qkv_bias or self.attention_o_bias or self.use_moe:
            found.append("biases and experts are not served")
        return found


@dataclass(frozen=True)
class FastStack(FishStack):
    """The transformer of a frame. num_codebooks: the semantic one included."""

    num_codebooks: int = 10
    text_dim: int = 0


@dataclass(frozen=True)
class _File:
    text_config: FishStack
    audio_decoder_config: FastStack
    semantic_start_token_id: int
    semantic_end_token_id: int
    eos_token_id: int


@dataclass(frozen=True)
class FishConfig:
    """first, end: the ids of the semantic codebook's first code, and of a turn's end."""

    slow: FishStack
    fast: FastStack
    first: int
    end: int
    codec: FishCodecSizes

    @property
    def codebooks(self) -> int:
        return self.fast.num_codebooks

    @property
    def codes(self) -> int:
        """Of each codebook, as they are embedded; the codec has fewer of the residual ones."""
        return self.fast.vocab_size


def load_config(folder: Path) -> FishConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    told = checked_config(folder, _File, _problems)
    return FishConfig(
        told.text_config,
        told.audio_decoder_config,
        told.semantic_start_token_id,
        told.eos_token_id,
        load_sizes(folder),
    )


def _problems(c: _File) -> list[str]:
    slow, fast = c.text_config, c.audio_decoder_config
    found = [f"text_config: {wrong}" for wrong in slow.problems()]
    found += [f"audio_decoder_config: {wrong}" for wrong in fast.problems()]
    if not slow.tie_word_embeddings or fast.tie_word_embeddings:
        found.append("other ties between heads and embeddings are not served")
    if fast.dim != slow.dim or fast.text_dim not in (0, slow.dim):
        found.append("a fast transformer of another width is not served")
    if c.semantic_end_token_id - c.semantic_start_token_id + 1 != fast.vocab_size:
        found.append("as many semantic ids as codes are due")
    if not 0 <= c.semantic_start_token_id <= slow.vocab_size - fast.vocab_size:
        found.append("semantic ids are none of the vocabulary's")
    if not 0 <= c.eos_token_id < slow.vocab_size:
        found.append(f"the id of the end, {c.eos_token_id}, is none of the vocabulary's")
    if fast.num_codebooks < 2:
        found.append(f"{fast.num_codebooks} codebooks are not served")
    return found


# Voices of a checkpoint: codes of recordings, with what is said in them. No torch.
#
# The authors' encoder writes codes as `.npy`, [codebooks, frames]. A voice is NAME.npy with
# NAME.txt in the folder `voices`, or a folder of such pairs there, one for each of several
# speakers.


FOLDER: Final = "voices"
CODES: Final = ".npy"
WORDS: Final = ".txt"

Voices = Mapping[str, tuple[EncodedTurn, ...]]


def load_voices(checkpoint: Path, c: FishConfig) -> Voices:
    """By name, each speaker's recording; raises CheckpointError."""
    found = {}
    for path in sorted((checkpoint / FOLDER).glob("*")):
        if path.is_dir():
            found[path.name] = _speakers(sorted(path.glob(f"*{CODES}")), c)
        elif path.suffix == CODES:
            found[path.stem] = _speakers([path], c)
    return found


def _speakers(files: list[Path], c: FishConfig) -> tuple[EncodedTurn, ...]:
    return tuple(EncodedTurn(i, _words(path), _codes(path, c)) for i, path in enumerate(files))


def _words(path: Path) -> str:
    try:
        return path.with_suffix(WORDS).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} has no transcript in {path.with_suffix(WORDS).name} beside it"
        raise CheckpointError(message) from error


def _codes(path: Path, c: FishConfig) -> Array:
    """[frames, codebooks] int64."""
    try:
        codes: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{path} is truncated or damaged: encode it again") from error
    if codes.ndim != 2 or len(codes) != c.codebooks or codes.dtype.kind not in "iu":
        raise CheckpointError(f"{path} holds {codes.dtype} {list(codes.shape)}, no codes")
    if codes.size and not 0 <= codes.min() <= codes.max() < c.codes:
        raise CheckpointError(f"{path} holds codes beyond 0 to {c.codes - 1}")
    return codes.T.astype(np.int64)

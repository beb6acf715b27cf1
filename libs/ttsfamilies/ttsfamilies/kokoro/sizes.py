"""Kokoro's config and voices, which both of its stages read. No torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from ttscommon.engine.checkpoint import VOICES, CheckpointError, checked_config
from ttscommon.engine.codec_sizes import size_problems
from ttscommon.wire import parameters
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.replicas import Gender, Voice

SAMPLE_RATE: Final = 24_000
# Curves (pitch, energy) have two values a frame.
HALVES: Final = 2
_MOST_FRAMES: Final = 32_767
# Language by a voice's first letter.
LANGUAGES: Final[Mapping[str, str]] = {
    "a": "en-US",
    "b": "en-GB",
    "e": "es",
    "f": "fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-BR",
    "z": "zh",
}
# The config of the one model that is published, beside its vocabulary.
SIZES_82M: Final[Mapping[str, Any]] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12], "upsample_rates": [10, 6], "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20, "resblock_dilation_sizes": [[1, 3, 5]] * 3,
        "resblock_kernel_sizes": [3, 7, 11], "upsample_initial_channel": 512,
    },
    "dim_in": 64, "dropout": 0.2, "hidden_dim": 512, "max_conv_dim": 512, "max_dur": 50,
    "multispeaker": True, "n_layer": 3, "n_mels": 80, "n_token": 178, "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 2048,
        "max_position_embeddings": 512, "num_hidden_layers": 12, "dropout": 0.1,
    },
}  # fmt: skip


@dataclass(frozen=True)
class AlbertSizes:
    """`plbert`. embedding_size: ALBERT's own default."""

    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    num_hidden_layers: int
    embedding_size: int = 128


@dataclass(frozen=True)
class GeneratorSizes:
    """`istftnet`."""

    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_initial_channel: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    gen_istft_n_fft: int
    gen_istft_hop_size: int

    @property
    def half_samples(self) -> int:
        """Samples of half a frame."""
        return prod(self.upsample_rates) * self.gen_istft_hop_size


@dataclass(frozen=True)
class KokoroConfig:
    """config.json. Not in published files: decoder_dim, decoder_residual (widths), gains_db (what
    brings a voice to LOUDNESS_LUFS), paces (of voices that speak better faster or slower).
    """

    n_token: int
    hidden_dim: int
    style_dim: int
    n_layer: int
    max_dur: int
    text_encoder_kernel_size: int
    plbert: AlbertSizes
    istftnet: GeneratorSizes
    vocab: dict[str, int]
    decoder_dim: int = 1024
    decoder_residual: int = 64
    gains_db: dict[str, float] = field(default_factory=dict)
    paces: dict[str, float] = field(default_factory=dict)

    @property
    def frame_samples(self) -> int:
        return HALVES * self.istftnet.half_samples

    @property
    def most_symbols(self) -> int:
        """Of a segment, without the silence at both ends."""
        return self.plbert.max_position_embeddings - 2


def load_config(folder: Path) -> KokoroConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, KokoroConfig, _problems)


def _problems(c: KokoroConfig) -> list[str]:
    found = [*size_problems(c), *size_problems(c.plbert), *size_problems(c.istftnet)]
    if found:
        return found
    generator = c.istftnet
    if c.plbert.hidden_size % c.plbert.num_attention_heads:
        found.append("plbert's hidden_size is no multiple of its heads")
    pairs = tuple(zip(generator.upsample_rates, generator.upsample_kernel_sizes, strict=False))
    if len(generator.upsample_rates) != 2 or len(generator.upsample_kernel_sizes) != 2:
        found.append("only two upsampling stages are served")
    if any(kernel < rate or (kernel - rate) % 2 for rate, kernel in pairs):
        found.append("an upsampling kernel does not fit its rate")
    if len(generator.resblock_kernel_sizes) != len(generator.resblock_dilation_sizes):
        found.append("residual kernels and dilations differ in number")
    if not c.vocab or not all(0 < id < c.n_token for id in c.vocab.values()):
        found.append(f"the vocabulary's ids are not within 1 .. {c.n_token - 1}")
    if not all(0.5 <= pace <= 2 for pace in c.paces.values()):
        found.append("a pace is not within 0.5 .. 2")
    return found


def voice_of(name: str, gain_db: float = 0.0) -> Voice:
    """A voice as it is listed: its letters say its language and who it sounds like."""
    genders: Mapping[str, Gender] = {"f": "female", "m": "male"}
    return Voice(name, name, LANGUAGES[name[0]], genders.get(name[1:2]), gain_db=gain_db)


class Voices:
    """Tables of style vectors by the length of a segment: the file that `convert` makes."""

    def __init__(self, packs: Mapping[str, Array], config: KokoroConfig) -> None:
        """packs: [lengths, 2 * style_dim] float32 by name."""
        self._packs, self._config = dict(sorted(packs.items())), config

    @classmethod
    def load(cls, folder: Path, config: KokoroConfig) -> Voices:
        """Read and check a checkpoint's voices; raises CheckpointError."""
        path = folder / VOICES
        try:
            packs = load_file(path)
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{folder} has no {VOICES}: make it of voices/*.pt with `antiphon convert {folder}`"
            ) from error
        except (SafetensorError, OSError, KeyError) as error:
            raise CheckpointError(f"{path} is truncated or damaged ({error})") from error
        checked = {name: _checked(path, name, pack, config) for name, pack in packs.items()}
        return cls(checked, config)

    @property
    def listed(self) -> tuple[Voice, ...]:
        gains = self._config.gains_db
        return tuple(voice_of(name, gains.get(name, 0.0)) for name in self._packs)

    def language(self, voice: str) -> str:
        """Of a voice, or of the first of a blend; raises UnknownVoice."""
        return LANGUAGES[parameters.parse(voice, self._packs)[0][0][0]]

    def pace(self, voice: str) -> float:
        """How many times as fast as it is predicted a voice speaks; a blend by its shares."""
        blend = parameters.parse(voice, self._packs)
        return sum(share * self._config.paces.get(name, 1.0) for name, share in blend)

    def pack(self, voice: str, known: Collection[str] | None = None) -> Array:
        """The table of a voice or a blend, [lengths, 2 * style_dim].

        Raises UnknownVoice, also for voices that are not `known`.
        """
        blend = parameters.parse(voice, self._packs if known is None else known)
        return np.sum([np.float32(s) * self._packs[name] for name, s in blend], 0)


def _checked(path: Path, name: str, pack: Array, c: KokoroConfig) -> Array:
    width = HALVES * c.style_dim
    if name[:1] not in LANGUAGES:
        raise CheckpointError(f"{path}: the first letter of {name} is that of no known language")
    if (
        pack.size != c.most_symbols * width
        or pack.shape[-1] != width
        or len(pack) != c.most_symbols
    ):
        raise CheckpointError(
            f"{path}: {name} is {list(pack.shape)}, but config.json makes it"
            f" {[c.most_symbols, 1, width]}"
        )
    if not np.isfinite(pack).all():
        raise CheckpointError(f"{path}: {name} holds values that are no finite numbers")
    return pack.reshape(c.most_symbols, width).astype(np.float32)


def frame_of(c: KokoroConfig) -> dict[str, Field]:
    """What a talker says of a frame, beside the place of its symbol in the segment.

    symbol: what it is of. row: of the voice's table. left: frames of the segment that follow.
    curves: pitch in Hz and energy, two of each.
    """
    return {
        "symbol": Field((), "i2", c.n_token),
        "row": Field((), "i2", c.most_symbols),
        "left": Field((), "i2", _MOST_FRAMES),
        "curves": Field((2 * HALVES,), "f4"),
    }


def style_row(symbols: int, rows: int) -> int:
    """The row of a voice's table for a segment of so many symbols."""
    return min(max(symbols, 1), rows) - 1

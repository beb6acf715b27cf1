"""VoxCPM2: its codec, a VAE of floats, is a file beside the talker's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import checked_config
from ttscommon.engine.codec_sizes import head_problems, size_problems
from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs


def _fits(signs: Signs) -> bool:
    return str(signs.config.get("architecture", "")).lower() == ARCHITECTURE


FAMILY = FamilyFacts(
    name="voxcpm2",
    title="VoxCPM2",
    fits=_fits,
    codec=CodecFacts(
        name="voxcpm2",
        title="AudioVAE, 48 kHz",
        fits=_fits,
        sample_rate=48_000,
        frame_rate_hz=6.25,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
    ),
    accepts=(
        *("adapter", "instructions", "ref_audio", "ref_text", "x_vector_only_mode"),
        *("temperature", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("openbmb/VoxCPM2",),
    files=("*.json", "*.txt", "*.safetensors", "audiovae.pth"),
)


ARCHITECTURE: Final = "voxcpm2"
# Of a decoder's convolutions: taps, and how far apart those of the residual units are.
_TAPS: Final = 7
_DILATIONS: Final = (1, 3, 9)


@dataclass(frozen=True)
class LongRope:
    """Stretched rotations. long_factor, short_factor: of each pair of channels."""

    long_factor: tuple[float, ...]
    short_factor: tuple[float, ...]
    original_max_position_embeddings: int


@dataclass(frozen=True)
class LanguageModelSizes:
    """lm_config: both causal language models, and what the local ones take from them.

    use_mup: the package's default is true.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rope_scaling: LongRope
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    kv_channels: int | None = None
    use_mup: bool = True

    @property
    def head_dim(self) -> int:
        return self.kv_channels or self.hidden_size // max(1, self.num_attention_heads)

    @property
    def factors(self) -> tuple[float, ...]:
        """The long ones wherever the model was made for more than it was first trained with."""
        rope = self.rope_scaling
        longer = self.max_position_embeddings > rope.original_max_position_embeddings
        return rope.long_factor if longer else rope.short_factor

    @property
    def gain(self) -> float:
        """Of cosines and sines."""
        original = self.rope_scaling.original_max_position_embeddings
        more = math.log(self.max_position_embeddings / original)
        return math.sqrt(1 + more / math.log(original))

    def problems(self) -> list[str]:
        rope = self.rope_scaling
        found = [*size_problems(self), *size_problems(rope)]
        if min(rope.original_max_position_embeddings, self.max_position_embeddings) < 2:
            return [*found, "one position is no sequence"]
        if len(self.factors) * 2 != self.head_dim:
            found.append(f"{len(self.factors)} factors do not rotate {self.head_dim} channels")
        if self.use_mup:
            found.append("use_mup is not served")
        return found + head_problems(
            self.num_attention_heads, self.num_key_value_heads, self.head_dim
        )


@dataclass(frozen=True)
class LocalSizes:
    """encoder_config and dit_config: the transformers within a patch."""

    hidden_dim: int = 1024
    ffn_dim: int = 4096
    num_heads: int = 16
    num_layers: int = 4
    kv_channels: int | None = None
    dit_mean_mode: bool = False

    @property
    def head_dim(self) -> int:
        return self.kv_channels or self.hidden_dim // max(1, self.num_heads)


@dataclass(frozen=True)
class VaeSizes:
    """audio_vae_config; defaults are the package's."""

    encoder_dim: int = 128
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 2048
    decoder_rates: tuple[int, ...] = (8, 6, 5, 2, 2, 2)
    sample_rate: int = 16_000
    out_sample_rate: int = 48_000
    sr_bin_boundaries: tuple[int, ...] = (20_000, 30_000, 40_000)
    depthwise: bool = True
    use_noise_block: bool = False
    cond_type: str = "scale_bias"
    cond_out_layer: bool = False

    @property
    def heard_samples(self) -> int:
        """Of a latent, at the rate of recordings."""
        return prod(self.encoder_rates)

    @property
    def samples(self) -> int:
        """Of a latent, at the rate of the sound."""
        return prod(self.decoder_rates)

    @property
    def reach(self) -> int:
        """Latents that a sample depends on, but its own."""
        found = _TAPS - 1
        for rate in reversed(self.decoder_rates):
            found += (_TAPS - 1) * sum(_DILATIONS)
            found = -(-found // rate) + 1
        return found + _TAPS - 1

    def problems(self) -> list[str]:
        found = size_problems(self)
        plain = self.depthwise and not self.use_noise_block and not self.cond_out_layer
        if not plain or self.cond_type not in ("scale_bias", "scale_bias_init"):
            found.append("this kind of VAE is not served")
        if self.decoder_dim % 2 ** len(self.decoder_rates):
            found.append(f"decoder_dim {self.decoder_dim} cannot be halved so often")
        if self.samples * self.sample_rate != self.heard_samples * self.out_sample_rate:
            found.append("encoder and decoder disagree on how long a latent lasts")
        return found


@dataclass(frozen=True)
class VoxcpmConfig:
    """config.json. A frame is a patch of `patch_size` latents of `feat_dim` values."""

    lm_config: LanguageModelSizes
    encoder_config: LocalSizes
    dit_config: LocalSizes
    audio_vae_config: VaeSizes = field(default_factory=VaeSizes)
    patch_size: int = 4
    feat_dim: int = 64
    residual_lm_num_layers: int = 8
    residual_lm_no_rope: bool = False
    scalar_quantization_latent_dim: int = 512
    scalar_quantization_scale: int = 9
    max_length: int = 8192

    @property
    def frame_samples(self) -> int:
        return self.patch_size * self.audio_vae_config.samples

    @property
    def frame_rate_hz(self) -> float:
        return self.audio_vae_config.out_sample_rate / self.frame_samples

    @property
    def context_frames(self) -> int:
        """Patches that a patch's samples depend on, but itself."""
        return -(-self.audio_vae_config.reach // self.patch_size)

    def problems(self) -> list[str]:
        """What no checkpoint can have, and kinds that are not served."""
        lm, vae = self.lm_config, self.audio_vae_config
        found = [*size_problems(self), *lm.problems(), *vae.problems()]
        for local in (self.encoder_config, self.dit_config):
            found += size_problems(local)
            if local.head_dim != lm.head_dim:
                found.append("all networks of a model share their rotations")
            found += head_problems(local.num_heads, lm.num_key_value_heads, local.head_dim)
        if self.dit_config.dit_mean_mode:
            found.append("dit_mean_mode is not served")
        if vae.latent_dim != self.feat_dim:
            found.append(f"latents of {vae.latent_dim} values are no patches of {self.feat_dim}")
        return found


def load_config(folder: Path) -> VoxcpmConfig:
    """Read and check a folder's config.json; raises CheckpointError."""
    return checked_config(folder, VoxcpmConfig, VoxcpmConfig.problems)

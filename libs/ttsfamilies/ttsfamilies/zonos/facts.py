"""Zonos v0.1: its codec, DAC at 44.1 kHz, is published by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ttscommon.engine.checkpoint import checked_config
from ttscommon.engine.codec_sizes import head_problems
from ttsfamilies.base.facts import Beside, CodecFacts, FamilyFacts, Marks

_SAMPLE_RATE: Final = 44_100
_FRAME_SAMPLES: Final = 512
_SPEAKER: Final = "Zyphra/Zonos-v0.1-speaker-embedding"
_DAC: Final = "descript/dac_44khz"


FAMILY = FamilyFacts(
    name="zonos",
    title="Zonos",
    fits=Marks(keys=("backbone", "prefix_conditioner")),
    codec=CodecFacts(
        name="dac",
        package="ttsfamilies.zonos",
        title="DAC, 44.1 kHz",
        fits=Marks(("dac",)),
        sample_rate=_SAMPLE_RATE,
        frame_rate_hz=_SAMPLE_RATE / _FRAME_SAMPLES,
        code="MIT",
        weights="MIT",
        published=_DAC,
    ),
    accepts=(
        *("language", "ref_audio", "ref_text", "x_vector_only_mode", "speed"),
        *("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("Zyphra/Zonos-v0.1-transformer",),
    beside=(
        Beside("speaker", _SPEAKER, ("ResNet293_SimAM_ASP_base.pt",), needed=False),
        Beside("lda", _SPEAKER, ("ResNet293_SimAM_ASP_base_LDA-128.pt",), needed=False),
        Beside("dac", _DAC, ("config.json", "model.safetensors"), needed=False),
    ),
)


CODEBOOKS: Final = 9
CODES: Final = 1024
# Ids of a codebook behind its codes: the end of speech, and what stands where no code is.
END: Final = 1024
MASK: Final = 1025
IDS: Final = 1026
SAMPLE_RATE: Final = 44_100
SPEAKER: Final = 128
EMOTIONS: Final = (
    *("happiness", "sadness", "disgust", "fear"),
    *("surprise", "anger", "other", "neutral"),
)
PHONES: Final = "espeak"
Kind = Literal[
    "EspeakPhonemeConditioner", "PassthroughConditioner", "FourierConditioner", "IntegerConditioner"
]
Projection = Literal["none", "linear", "mlp"]
# Values of each condition that requests give.
_GIVEN: Final[Mapping[str, int]] = {
    "speaker": SPEAKER,
    "emotion": len(EMOTIONS),
    **dict.fromkeys(("fmax", "pitch_std", "speaking_rate", "language_id"), 1),
}


@dataclass(frozen=True)
class Backbone:
    """The stack of blocks; `attn_cfg` has its heads."""

    d_model: int
    n_layer: int
    attn_mlp_d_intermediate: int
    attn_cfg: Mapping[str, Any]
    d_intermediate: int = 0
    ssm_cfg: Mapping[str, Any] = field(default_factory=dict)
    rms_norm: bool = False
    norm_epsilon: float = 1e-5

    @property
    def heads(self) -> int:
        return int(self.attn_cfg["num_heads"])

    @property
    def kv_heads(self) -> int:
        return int(self.attn_cfg["num_heads_kv"])

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads


@dataclass(frozen=True)
class ConditionConfig:
    """One condition: how its values become a row of the prefix."""

    name: str
    type: Kind
    projection: Projection = "none"
    uncond_type: Literal["learned", "none"] = "none"
    cond_dim: int | None = None
    input_dim: int = 1
    min_val: float = 0.0
    max_val: float = 1.0

    @property
    def values(self) -> int:
        """How many it takes."""
        return self.input_dim if self.type == "FourierConditioner" else self.cond_dim or 1


@dataclass(frozen=True)
class Prefix:
    conditioners: tuple[ConditionConfig, ...]
    projection: Projection

    @property
    def rows(self) -> tuple[ConditionConfig, ...]:
        """Those of one row each."""
        return tuple(one for one in self.conditioners if one.name != PHONES)


@dataclass(frozen=True)
class ZonosConfig:
    backbone: Backbone
    prefix_conditioner: Prefix
    eos_token_id: int = END
    masked_token_id: int = MASK


def load_config(folder: Path) -> ZonosConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, ZonosConfig, _problems)


def _problems(c: ZonosConfig) -> list[str]:
    b = c.backbone
    if b.ssm_cfg:
        return [
            "this is the hybrid of Zonos, whose Mamba layers need kernels of their own; the"
            " transformer is served"
        ]
    heads = (b.attn_cfg.get("num_heads"), b.attn_cfg.get("num_heads_kv"))
    if not all(isinstance(n, int) and n > 0 for n in heads):
        return [f"attn_cfg has heads {heads}"]
    found = [*head_problems(b.heads, b.kv_heads, b.head_dim)]
    sizes = ("d_model", "n_layer", "attn_mlp_d_intermediate")
    found += [f"{name} is {getattr(b, name)}" for name in sizes if not _sane(getattr(b, name))]
    if b.d_model % b.heads or b.rms_norm or b.d_intermediate:
        found.append("other kinds of blocks are not served")
    if (c.eos_token_id, c.masked_token_id) != (END, MASK):
        found.append("other control ids are not served")
    return found + _of_conditions(c.prefix_conditioner)


def _sane(size: int) -> bool:
    return 1 <= size <= 1 << 20


def _of_conditions(prefix: Prefix) -> list[str]:
    found = [f"{one.name}: {wrong}" for one in prefix.conditioners for wrong in _of_condition(one)]
    names = [one.name for one in prefix.conditioners]
    if names.count(PHONES) != 1 or len(set(names)) != len(names):
        found.append("the prefix needs the phones of a text once, and no condition twice")
    return found


def _of_condition(one: ConditionConfig) -> list[str]:
    if one.name == PHONES:
        plain = one.type == "EspeakPhonemeConditioner" and one.projection == "none"
        return [] if plain else ["phones of another kind are not served"]
    found = []
    if one.uncond_type != "learned":
        found.append("a condition that every prompt must have is not served")
    if one.type == "EspeakPhonemeConditioner" or one.max_val <= one.min_val:
        found.append("its kind or its range are not served")
    if _GIVEN.get(one.name, one.values) != one.values:
        found.append(f"it takes {one.values} values, not {_GIVEN[one.name]}")
    return found

"""Facts of a Pocket TTS checkpoint beside its tensors. No torch.

Kyutai publishes a language as tensors, tokenizer and voices; sizes and rules of the text are in
their package. Here they are in pocket_tts.json, by the names of the published folders; other
checkpoints bring the package's YAML as config.json, with "model_type": "pocket_tts".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import MimiSizes, head_problems, size_problems

MODEL_TYPE: Final = "pocket_tts"
# Every step of the head for a flow that was not distilled.
_EULER_STEPS: Final = 16
_TIMES: Final = {"lsd": 2, "flow_matching": 1}


@dataclass(frozen=True)
class FlowHeadSizes:
    """The head that makes a latent of noise. type: see `ttsfamilies.pocket_tts.net`."""

    dim: int
    depth: int
    type: Literal["lsd", "flow_matching", "drifting", "pointwise"] = "lsd"

    @property
    def times(self) -> int:
        """Times that a step is told."""
        return _TIMES.get(self.type, 0)


@dataclass(frozen=True)
class PocketBackbone:
    """The causal transformer over voice, text and latents."""

    d_model: int
    num_heads: int
    num_layers: int
    max_period: int
    hidden_scale: float = 4.0
    attn_dim: int | None = None
    num_kv_heads: int | None = None
    dim_feedforward: int | None = None

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def head_dim(self) -> int:
        return (self.attn_dim or self.d_model) // max(1, self.num_heads)

    @property
    def hidden(self) -> int:
        return self.dim_feedforward or int(self.d_model * self.hidden_scale)


@dataclass(frozen=True)
class Table:
    """Text ids and their embedding. rank: of a narrower table and a projection."""

    dim: int
    n_bins: int
    tokenizer: str = "tokenizers"
    rank: int | None = None


@dataclass(frozen=True)
class FlowLm:
    flow: FlowHeadSizes
    transformer: PocketBackbone
    lookup_table: Table
    z_dim: int | None = None
    insert_bos_before_voice: bool = False


@dataclass(frozen=True)
class Seanet:
    dimension: int
    n_filters: int
    n_residual_layers: int
    ratios: tuple[int, ...]
    kernel_size: int
    residual_kernel_size: int
    last_kernel_size: int
    dilation_base: int
    compress: int
    channels: int = 1
    pad_mode: Literal["constant"] = "constant"


@dataclass(frozen=True)
class Window:
    """A transformer of the codec."""

    d_model: int
    input_dimension: int
    output_dimensions: tuple[int, ...]
    num_heads: int
    num_layers: int
    context: int
    dim_feedforward: int
    max_period: float = 10_000.0


@dataclass(frozen=True)
class Latent:
    """Values of a latent, and the channels that they become."""

    dimension: int
    output_dimension: int


@dataclass(frozen=True)
class LatentMimi:
    """Mimi without codebooks, whose decoder may have sizes of its own."""

    sample_rate: int
    frame_rate: float
    seanet: Seanet
    transformer: Window
    quantizer: Latent
    inner_dim: int | None = None
    outer_dim: int | None = None
    decoder_seanet: Seanet | None = None
    decoder_transformer: Window | None = None
    channels: int = 1

    @property
    def heard(self) -> int:
        """Values of a frame of a recording."""
        return self.inner_dim or self.seanet.dimension

    @property
    def encoder_sizes(self) -> MimiSizes:
        return self._sizes(self.seanet, self.transformer)

    @property
    def decoder_sizes(self) -> MimiSizes:
        seanet = self.decoder_seanet or self.seanet
        return self._sizes(seanet, self.decoder_transformer or self.transformer)

    def _sizes(self, s: Seanet, t: Window) -> MimiSizes:
        return MimiSizes(
            hidden_size=s.dimension,
            num_filters=s.n_filters,
            num_residual_layers=s.n_residual_layers,
            upsampling_ratios=s.ratios,
            kernel_size=s.kernel_size,
            last_kernel_size=s.last_kernel_size,
            residual_kernel_size=s.residual_kernel_size,
            dilation_growth_rate=s.dilation_base,
            compress=s.compress,
            audio_channels=self.channels,
            num_hidden_layers=t.num_layers,
            intermediate_size=t.dim_feedforward,
            num_attention_heads=t.num_heads,
            num_key_value_heads=t.num_heads,
            rope_theta=t.max_period,
            sliding_window=t.context,
            upsample_groups=s.dimension,
            sampling_rate=self.sample_rate,
            last_stride=max(1, round(self.sample_rate / self.frame_rate / max(1, prod(s.ratios)))),
        )

    def problems(self) -> list[str]:
        """Kinds of it that are not served, and values that no network has."""
        found = []
        sides = (self.seanet, self.transformer), (self.decoder_seanet, self.decoder_transformer)
        for seanet, window in sides:
            s, w = seanet or self.seanet, window or self.transformer
            found += size_problems(s) + size_problems(w)
            if {w.d_model, w.input_dimension, *w.output_dimensions} != {s.dimension}:
                found.append("transformers of the codec are of other widths than its convolutions")
        if found or not (self.sample_rate > 0 and self.frame_rate > 0):
            return found or ["rates are no positive numbers"]
        for sizes in (self.encoder_sizes, self.decoder_sizes):
            found += sizes.problems()
            if sizes.frame_samples * self.frame_rate != self.sample_rate:
                found.append(f"frames of {sizes.frame_samples} samples do not fit the frame rate")
        width = self.decoder_sizes.hidden_size
        if {self.quantizer.output_dimension, self.outer_dim or width} != {width}:
            found.append("latents are projected to another width than the decoder's")
        return found


@dataclass(frozen=True)
class PocketConfig:
    """A configuration by the package's names; paths and the type of numbers are not read.

    language: as a voice lists it. sampler_decode_steps: of the head, for a frame. voice_cloning:
    whether the encoder's weights are the real ones.
    """

    flow_lm: FlowLm
    mimi: LatentMimi
    pad_with_spaces_for_short_inputs: bool = False
    remove_semicolons: bool = False
    append_terminal_punctuation: bool = True
    capitalize_first_letter: bool = True
    replace_characters: dict[str, str] = field(default_factory=dict)
    model_recommended_frames_after_eos: int | None = None
    default_temperature: float = 0.3
    default_eos_threshold: float = -4.0
    language: str = "en"
    sampler_decode_steps: int | None = None
    voice_cloning: bool = True

    @property
    def steps(self) -> int:
        """Of the head."""
        kind = self.flow_lm.flow.type
        if kind in ("drifting", "pointwise"):
            return 1
        return self.sampler_decode_steps or (_EULER_STEPS if kind == "flow_matching" else 1)

    @property
    def replaced(self) -> dict[int, str]:
        """For str.translate."""
        return {ord(old): new for old, new in self.replace_characters.items()}

    def problems(self) -> list[str]:
        """What no checkpoint can have, and kinds that are not served."""
        lm = self.flow_lm
        backbone, table = lm.transformer, lm.lookup_table
        found = [*size_problems(lm.flow), *size_problems(backbone), *size_problems(table)]
        found += head_problems(backbone.num_heads, backbone.kv_heads, backbone.head_dim)
        if table.dim != backbone.d_model:
            found.append(f"text of {table.dim} values does not fit a width of {backbone.d_model}")
        if table.tokenizer not in ("tokenizers", "json", "sentencepiece"):
            found.append(f"tokenizer {table.tokenizer!r} is not served")
        if not 0 <= self.default_temperature <= 2 or not math.isfinite(self.default_eos_threshold):
            found.append("default_temperature or default_eos_threshold is no usable number")
        if any(len(old) != 1 for old in self.replace_characters):
            found.append("replace_characters names more than single characters")
        return found + self.mimi.problems()


def load_config(folder: Path) -> PocketConfig:
    """A folder's config.json or, without one, what is published of its name.

    Raises CheckpointError.
    """
    path = folder / "config.json"
    config = read_json(path, PocketConfig) if path.exists() else _published_of(folder)
    for wrong in config.problems():
        raise CheckpointError(f"{path}: {wrong}")
    return config


def published(name: str) -> dict[str, Any]:
    """The configuration of a published language as config.json has it; raises KeyError."""
    found: dict[str, Any] = {}
    for part in _known()["published"][name]:
        found = _merged(found, _known()["parts"][part])
    return {"model_type": MODEL_TYPE, "language": "en", **found}


def languages() -> tuple[str, ...]:
    """Names of what is published."""
    return tuple(_known()["published"])


def _published_of(folder: Path) -> PocketConfig:
    name = folder.resolve().name
    if name not in languages():
        raise CheckpointError(
            f"{folder} has no config.json, and its name is none of the published languages"
            f" ({', '.join(languages())}): rename it, or write the package's configuration there"
        )
    return msgspec.convert(published(name), PocketConfig)


@cache
def _known() -> dict[str, Any]:
    return json.loads(
        files("ttsfamilies.pocket_tts").joinpath("pocket_tts.json").read_text("utf-8")
    )


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for key, value in other.items():
        nested = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if nested else value
    return found

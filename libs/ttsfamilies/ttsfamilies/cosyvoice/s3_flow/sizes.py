"""Sizes of the networks, as the shapes of a checkpoint's tensors tell them. No torch here.

Checkpoints come with no config that a program could read: CosyVoice's is a program in YAML, and
Chatterbox has its sizes in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ttsfamilies.cosyvoice.facts import CONVDIT

Shapes = Mapping[str, tuple[int, ...]]

SAMPLE_RATE: Final = 24_000
TOKEN_SAMPLES: Final = 960
MEL_FRAMES: Final = 2
"""Mel frames of a token."""
FRAME_SAMPLES: Final = TOKEN_SAMPLES // MEL_FRAMES
CHUNK: Final = 25
"""Tokens that the streaming mask lets see each other, on a grid from the start of the prompt."""
LOOKAHEAD: Final = 3
"""Tokens to come that the encoder looks at."""
HEAD_DIM: Final = 64
HOP: Final = 4
"""Samples of HiFT's last transform, behind all upsampling."""
DILATIONS: Final = (1, 3, 5)


@dataclass(frozen=True)
class EncoderSizes:
    """Of the conformer encoder."""

    width: int
    heads: int
    hidden: int
    layers: int
    up_layers: int


@dataclass(frozen=True)
class EstimatorSizes:
    """inputs: channels of all that a step is told. inner: heads * HEAD_DIM."""

    inputs: int
    mels: int
    width: int
    inner: int
    hidden: int


@dataclass(frozen=True)
class UNetSizes(EstimatorSizes):
    time: int
    layers: int
    middle: int
    meanflow: bool


@dataclass(frozen=True)
class DiTSizes(EstimatorSizes):
    """kernel: of the convolutions that tell where a step is."""

    layers: int
    kernel: int


@dataclass(frozen=True)
class ConvDiTSizes(EstimatorSizes):
    layers: int


@dataclass(frozen=True)
class FlowSizes:
    """ids: of tokens. width: of their embedding. lookahead: width within the layer that looks
    ahead, where there is no encoder.
    """

    ids: int
    width: int
    speaker: int
    mels: int
    encoder: EncoderSizes | None
    lookahead: int
    estimator: UNetSizes | DiTSizes | ConvDiTSizes


@dataclass(frozen=True)
class HiftSizes:
    """causal: convolutions look back alone, but for the first. n_fft: of the transforms. kernels:
    of upsampling; blocks: of residual blocks; sources: of those of the source.
    """

    mels: int
    width: int
    pitch_width: int
    harmonics: int
    causal: bool
    n_fft: int
    kernels: tuple[int, ...]
    blocks: tuple[int, ...]
    sources: tuple[int, ...]

    @property
    def rates(self) -> tuple[int, ...]:
        """Of upsampling: kernels are twice as wide, or one more."""
        return tuple(kernel // 2 for kernel in self.kernels)


def flow_sizes(shapes: Shapes, prefix: str = "") -> FlowSizes:
    """Of the tensors that begin with `prefix`; raises KeyError for the first that is missing."""
    mine = {n.removeprefix(prefix): s for n, s in shapes.items() if n.startswith(prefix)}
    ids, width = mine["input_embedding.weight"]
    mels, speaker = mine["spk_embed_affine_layer.weight"]
    dit = "pre_lookahead_layer.conv1.weight" in mine
    return FlowSizes(
        ids,
        width,
        speaker,
        mels,
        None if dit else _encoder(mine, width),
        mine["pre_lookahead_layer.conv1.weight"][0] if dit else width,
        _estimator(mine, mels),
    )


def _estimator(mine: Shapes, mels: int) -> UNetSizes | DiTSizes | ConvDiTSizes:
    if "pre_lookahead_layer.conv1.weight" in mine:
        return _dit(mine, mels)
    return _convdit(mine, mels) if CONVDIT in mine else _unet(mine, mels)


def _encoder(mine: Shapes, width: int) -> EncoderSizes:
    layer = "encoder.encoders.0."
    return EncoderSizes(
        width,
        mine[f"{layer}self_attn.pos_bias_u"][0],
        mine[f"{layer}feed_forward.w_1.weight"][0],
        _count(mine, "encoder.encoders."),
        _count(mine, "encoder.up_encoders."),
    )


def _unet(mine: Shapes, mels: int) -> UNetSizes:
    net = "decoder.estimator."
    level = f"{net}down_blocks.0."
    width, inputs = mine[f"{level}0.res_conv.weight"][:2]
    return UNetSizes(
        inputs,
        mels,
        width,
        mine[f"{level}1.0.attn1.to_q.weight"][0],
        mine[f"{level}1.0.ff.net.0.proj.weight"][0],
        mine[f"{net}time_mlp.linear_1.weight"][0],
        _count(mine, f"{level}1."),
        _count(mine, f"{net}mid_blocks."),
        f"{net}time_embed_mixer.weight" in mine,
    )


def _dit(mine: Shapes, mels: int) -> DiTSizes:
    net = "decoder.estimator."
    block = f"{net}transformer_blocks.0."
    width, inputs = mine[f"{net}input_embed.proj.weight"]
    return DiTSizes(
        inputs,
        mels,
        width,
        mine[f"{block}attn.to_q.weight"][0],
        mine[f"{block}ff.ff.0.0.weight"][0],
        _count(mine, f"{net}transformer_blocks."),
        mine[f"{net}input_embed.conv_pos_embed.conv1.0.weight"][2],
    )


def _convdit(mine: Shapes, mels: int) -> ConvDiTSizes:
    net = "decoder.estimator."
    block = f"{net}blocks.0."
    width, inputs = mine[f"{net}in_proj.weight"]
    return ConvDiTSizes(
        inputs,
        mels,
        width,
        mine[f"{block}attn.to_q.weight"][0],
        mine[f"{block}mlp.fc1.weight"][0],
        _count(mine, f"{net}blocks."),
    )


def hift_sizes(shapes: Shapes, prefix: str = "") -> HiftSizes:
    """As `flow_sizes`; names are those of plain weights."""
    mine = {n.removeprefix(prefix): s for n, s in shapes.items() if n.startswith(prefix)}
    width, mels, first = mine["conv_pre.weight"]
    stages = _count(mine, "ups.")
    count = _count(mine, "resblocks.") // stages
    return HiftSizes(
        mels,
        width,
        mine["f0_predictor.condnet.0.weight"][0],
        mine["m_source.l_linear.weight"][1],
        first == _LOOKS_AHEAD,
        mine["conv_post.weight"][0] - 2,
        tuple(mine[f"ups.{i}.weight"][2] for i in range(stages)),
        tuple(mine[f"resblocks.{i}.convs1.0.weight"][2] for i in range(count)),
        tuple(mine[f"source_resblocks.{i}.convs1.0.weight"][2] for i in range(stages)),
    )


# Taps of the first convolution of the causal HiFT; the other's has seven.
_LOOKS_AHEAD: Final = 5


def _count(names: Shapes, prefix: str) -> int:
    """Of the modules in a list."""
    return len({n.removeprefix(prefix).partition(".")[0] for n in names if n.startswith(prefix)})

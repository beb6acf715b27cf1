"""A folder's description of its Mimi: a codec, or the checkpoint of a talker. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.mimi import MimiSizes


@dataclass(frozen=True)
class _Talker:
    """config.json of a talker that holds its codec."""

    codec_config: MimiSizes


def load_sizes(folder: Path) -> tuple[MimiSizes, str]:
    """The sizes, and what the names of its tensors begin with; raises CheckpointError."""
    path = folder / "config.json"
    alone = read_json(path, dict[str, Any]).get("model_type") == "mimi"
    sizes = read_json(path, MimiSizes) if alone else read_json(path, _Talker).codec_config
    for wrong in sizes.problems():
        raise CheckpointError(f"{path}: {wrong}")
    return sizes, "" if alone else "codec_model."


def context_frames(c: MimiSizes) -> int:
    """So many frames back the decoder looks: beyond, a stream's past changes no sample.

    Each layer looks one window back; the first convolution six steps, each transposed one a step,
    their residual blocks two steps a dilation, the last convolution two samples; the first
    transposed convolution one frame.
    """
    rate = c.frame_samples // c.last_stride
    reach = (c.num_hidden_layers * (c.sliding_window - 1) + c.kernel_size - 1) * rate
    dilations = sum(c.dilation_growth_rate**depth for depth in range(c.num_residual_layers))
    for ratio in c.upsampling_ratios:
        reach += rate
        rate //= ratio
        reach += (c.residual_kernel_size - 1) * dilations * rate
    return -(-(reach + c.last_kernel_size - 1) // c.frame_samples) + 1

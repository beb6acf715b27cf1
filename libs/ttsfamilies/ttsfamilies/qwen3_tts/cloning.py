"""Recordings to what a Base checkpoint clones: a speaker's embedding, and codes to continue.

The codec's encoder is Mimi's, whose transformer attends to everything before, as in the official
package: its config's sliding window takes effect under one attention implementation only, and not
under the one that the codec is loaded with. The speaker's is ECAPA-TDNN (Desplanques et al., 2020)
over log mel spectra; always float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import MimiSizes, size_problems
from ttscommon.engine.nn.mimi import MimiEncoder
from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.recordings import LogMel, resampled
from ttsfamilies.qwen3_tts.config import SpeakerConfig

FOLDER = "speech_tokenizer"


@dataclass(frozen=True)
class EncoderConfig:
    """speech_tokenizer/config.json, as far as the encoder goes."""

    encoder_config: MimiSizes
    encoder_valid_num_quantizers: int
    encode_downsample_rate: int
    input_sample_rate: int
    model_type: str


def load_encoder_config(checkpoint: Path) -> EncoderConfig:
    """Read and check the codec's part of a checkpoint; raises CheckpointError."""
    path = checkpoint / FOLDER / "config.json"
    config = read_json(path, EncoderConfig)
    sizes = config.encoder_config
    if config.model_type != "qwen3_tts_tokenizer_12hz":
        raise CheckpointError(f"{path}: model_type {config.model_type!r} is not served")
    for wrong in (*size_problems(config), *sizes.problems()):
        raise CheckpointError(f"{path}: encoder_config: {wrong}")
    if sizes.frame_samples != config.encode_downsample_rate:
        raise CheckpointError(f"{path}: the ratios do not give encode_downsample_rate")
    return config


class CodecEncoder(MimiEncoder):
    """Waveforms at 24 kHz to frames of codes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config.encoder_config, config.encoder_valid_num_quantizers, None)
        self.config = config


FFT, HOP, HIGHEST_HZ = 1024, 256, 12_000.0
_VARIANCE_FLOOR = 1e-12


def log_mel(c: SpeakerConfig) -> LogMel:
    """Log mel spectrum as the speaker encoder was trained with."""
    return LogMel(c.mel_dim, c.sample_rate, FFT, HOP, HIGHEST_HZ)


def _conv(inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(
        inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect"
    )


class TimeDelay(nn.Module):
    """A dilated convolution and a rectifier."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = _conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, frames] -> [batch, outputs, frames]."""
        return self.conv(x).relu()


class Res2Net(nn.Module):
    """Channels in groups, each heard by the next."""

    def __init__(self, size: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = size // scale
        self.blocks = nn.ModuleList(
            TimeDelay(part, part, kernel, dilation) for _ in range(scale - 1)
        )
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """[batch, size, frames] -> the same."""
        first, second, *others = x.chunk(self.scale, 1)
        done = [first, self.blocks[0](second)]
        for block, part in zip(self.blocks[1:], others, strict=True):
            done.append(block(part + done[-1]))
        return torch.cat(done, 1)


class SqueezeExcitation(nn.Module):
    """Channels weighted by what the whole clip holds of them."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = _conv(size, inner), _conv(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, size, frames] -> the same."""
        return x * self.conv2(self.conv1(x.mean(2, keepdim=True)).relu()).sigmoid()


class SpeakerBlock(nn.Module):
    """Res2Net between two pointwise layers, squeeze and excitation, residual."""

    def __init__(self, c: SpeakerConfig, inputs: int, outputs: int, index: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = TimeDelay(inputs, outputs), TimeDelay(outputs, outputs)
        kernel, dilation = c.enc_kernel_sizes[index], c.enc_dilations[index]
        self.res2net_block = Res2Net(outputs, c.enc_res2net_scale, kernel, dilation)
        self.se_block = SqueezeExcitation(outputs, c.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, frames] -> [batch, outputs, frames]; both are equally wide."""
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentivePooling(nn.Module):
    """Mean and deviation over time, under weights that attention gives."""

    def __init__(self, size: int, attention: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * size, attention)
        self.conv = _conv(attention, size)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, size, frames] -> [batch, 2 * size, 1]."""
        whole = _statistics(x, torch.full_like(x[:, :1], 1 / x.shape[2]))
        told = torch.cat((x, *(part.expand_as(x) for part in whole)), 1)
        weights = self.conv(self.tdnn(told).tanh()).softmax(2)
        return torch.cat(_statistics(x, weights), 1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=_VARIANCE_FLOOR).sqrt()


class SpeakerEncoder(nn.Module):
    """Waveforms at 24 kHz to speaker embeddings."""

    def __init__(self, c: SpeakerConfig) -> None:
        super().__init__()
        sizes = c.enc_channels
        first = TimeDelay(c.mel_dim, sizes[0], c.enc_kernel_sizes[0], c.enc_dilations[0])
        middle = [SpeakerBlock(c, sizes[i - 1], sizes[i], i) for i in range(1, len(sizes) - 1)]
        self.blocks = nn.ModuleList([first, *middle])
        self.mfa = TimeDelay(sizes[-1], sizes[-1], c.enc_kernel_sizes[-1], c.enc_dilations[-1])
        self.asp = AttentivePooling(sizes[-1], c.enc_attention_channels)
        self.fc = _conv(2 * sizes[-1], c.enc_dim)
        self.mels = log_mel(c)

    def forward(self, wav: Tensor) -> Tensor:
        """[batch, samples] float32 in -1..1 -> [batch, enc_dim]."""
        x, heard = self.mels(wav), []
        for block in self.blocks:
            x = block(x)
            heard.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(heard[1:], 1))))[..., 0]


class Cloning:
    """Both encoders of a checkpoint. revision: names their weights."""

    def __init__(self, speaker: SpeakerEncoder, codec: CodecEncoder) -> None:
        self._speaker, self._codec = speaker, codec
        self._rate = codec.config.input_sample_rate
        self.revision = digest((speaker, codec))[:32]

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive."""
        samples = torch.from_numpy(resampled(*read_recording(recording), self._rate))
        device = self._codec.slow_down.weight.device
        heard = samples.to(device)
        return {
            "speaker": self._speaker(heard[None])[0].cpu().numpy(),
            "codes": self._codec(heard).cpu().numpy().astype(np.int16),
        }

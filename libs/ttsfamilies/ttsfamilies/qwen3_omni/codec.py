"""code2wav in the engine: each stream carries exact state from its first frame to its last.

The reference never makes the last `lag_samples` of a request's frames; here they are silence, so
that a request has as many samples as its frames fill.

Qwen3-TTS's decoder with another front, and with large transposed convolutions that wait: each gives
a step's outputs only when it knows the next one, so that the first input of a stream gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.nn import Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.base.codec.causal import CausalState, Tails, attended
from ttsfamilies.base.codec.dac import CausalWave, UpsampleBlock
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec, CausalStream
from ttsfamilies.qwen3_tts.codec import wave_sources
from ttsfamilies.qwen3_tts.codec_net import SnakeBeta, WaveSizes, transformer_config

SAMPLE_RATE: Final = 24_000


@dataclass(frozen=True, kw_only=True)
class WaveformSizes(WaveSizes):
    """code2wav_config."""

    head_dim: int | None = None
    rope_theta: float | None = None
    front_frames: ClassVar[int] = 1

    @property
    def lag_samples(self) -> int:
        """Each large transposed convolution waits for one input more, and gives nothing for it."""
        lag = 0
        for rate in self.upsample_rates:
            lag = (lag + 1) * rate
        return lag


@dataclass(frozen=True)
class CheckpointConfig:
    """config.json, as far as the codec goes."""

    model_type: str
    code2wav_config: WaveformSizes
    enable_audio_output: bool = True


def load_config(folder: Path) -> WaveformSizes:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, CheckpointConfig)
    c = config.code2wav_config
    found = c.problems()
    if not config.enable_audio_output:
        found.append("enable_audio_output is false: this checkpoint has no codec")
    if c.theta <= 0:
        found.append("rope_theta is missing")
    for wrong in found:
        raise CheckpointError(f"{path}: code2wav_config: {wrong}")
    return c


OTHERS = ("thinker.", "talker.")


class LaggingDecoder(CausalWave):
    """Codes to sound, `lag_samples` late."""

    def __init__(self, config: WaveformSizes) -> None:
        c = config
        rates = c.upsampling_ratios, c.upsample_rates
        super().__init__(c.hidden_size, c.decoder_dim, *rates, SnakeBeta)
        self.config, self.window = config, c.sliding_window
        self.codes = nn.Embedding(c.codebook_size * c.num_quantizers, c.hidden_size)
        self.transformer = Decoder(transformer_config(c))

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; the first `lag_samples` of a blank stream's samples are none."""
        tails = Tails(state.tails, lengths)
        tables = torch.arange(frames.shape[2], device=frames.device) * self.config.codebook_size
        x = self.codes(frames + tables).mean(-2)
        x, keys, values = attended(self.transformer, x, lengths, state)
        x = self._raised(self.widened(x.transpose(1, 2), tails), state.position == 0, tails)
        samples = self.sounded(x, tails).clamp(-1, 1)
        return samples, CausalState(state.position + lengths, keys, values, tails.done())

    def _raised(self, x: Tensor, fresh: Tensor, tails: Tails) -> Tensor:
        """Through the large blocks. Steps that a blank stream does not have are kept at zero, which
        is what a convolution sees before its first input. fresh: [batch] bool.
        """
        missing = 0
        for block in self.ups:
            assert isinstance(block, UpsampleBlock)
            missing = (missing + 1) * block.up.rate
            x = tails.through(block.up, block.snake(x))
            there = torch.arange(x.shape[2], device=x.device) >= missing * fresh[:, None]
            x = torch.where(there[:, None], x, 0)
            for unit in block.units:
                x = torch.where(there[:, None], unit(x, tails.through), 0)
        return x


def sources(net: LaggingDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {"codes.weight": same("code2wav.code_embedding.weight")}
    stack = "code2wav.pre_transformer."
    found |= decoder_sources(net.transformer.config, "transformer.", stack)
    return found | wave_sources(net, "code2wav.")


def load_decoder(folder: Path, device: str = "cpu") -> LaggingDecoder:
    """The codec of a checkpoint folder, in float32; raises CheckpointError."""
    net = unfilled(LaggingDecoder, load_config(folder))
    return filled(net, sources(net), Shards.of(folder), others=OTHERS, device=device)


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> OmniCodec:
    """A checkpoint's codec; raises CheckpointError."""
    return OmniCodec(name, load_decoder(folder, how.where), how)


class OmniCodec(CausalCodec):
    """A loaded decoder. In front of a request's first samples it gives `lag_samples` of none."""

    def __init__(self, name: str, net: LaggingDecoder, how: CodecOptions = ON_CPU) -> None:
        c = net.config
        spec = CodecSpec(
            *(name, "qwen3_omni", SAMPLE_RATE, c.frame_samples),
            {"codes": Field((c.num_quantizers,), "i2", c.codebook_size)},
            lag_samples=c.lag_samples,
            context_frames=c.context_frames,
            tolerance=TOLERANCE,
        )
        super().__init__(net, spec, how)

    def slices(self, work: Work) -> Sequence[Slice]:
        skip = self.spec.lag_samples if self._unbegun(work.state) else 0
        return [one._replace(skip=skip) for one in super().slices(work)]

    def silence_behind(self, work: Work) -> int:
        """None of a request that never had a frame."""
        begun = len(work) or not self._unbegun(work.state)
        return self.spec.lag_samples if work.final and begun else 0

    @staticmethod
    def _unbegun(stream: CausalStream) -> bool:
        """Whether the request's first frame is still to come."""
        return stream.fresh and not stream.begin

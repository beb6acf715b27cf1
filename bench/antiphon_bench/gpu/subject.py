"""The measured model: Qwen3-TTS of a published size, weights drawn on the device by a seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import torch
from torch import Tensor, nn

from ttscommon.engine.device.device import Cuda, Device, HostDevice, Work
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.synthetic.tokenizers import vocabulary, write_qwen2_tokenizer
from ttsfamilies.qwen3_tts.codec import Qwen3Codec
from ttsfamilies.qwen3_tts.codec_net import CodecConfig, CodecDecoder
from ttsfamilies.qwen3_tts.config import GenerationConfig, TalkerConfig
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import TalkerNet
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.sizes import (
    PUBLISHED_TEXT_VOCABULARY,
    Size,
    codec_config,
    model_config,
)

_TINY_TEXT: Final = 512
MOST_POSITIONS: Final = 2048


@dataclass(frozen=True)
class Subject:
    """Where and what. dtype: bfloat16 on a GPU, float32 on a CPU."""

    device: Device
    size: Size
    seed: int = 0

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.device.where.type == "cuda" else torch.float32

    def talker(self) -> Qwen3Tts:
        """The family with a small tokenizer; the end of speech never comes."""
        tiny = self.size == "tiny"
        vocabulary = _TINY_TEXT if tiny else PUBLISHED_TEXT_VOCABULARY
        told = model_config(self.size, "custom_voice", vocabulary)
        config = msgspec.convert(told, TalkerConfig)
        defaults = GenerationConfig(max_new_tokens=MOST_POSITIONS)
        net = _drawn(lambda: TalkerNet(config), self.device.where, self.dtype, self.seed)
        assert isinstance(net, TalkerNet)
        net.keep_float32(self.device.where)
        family = Qwen3Tts("qwen3-tts", net, _tokenizer(), defaults)
        family.spec = replace(family.spec, max_positions=MOST_POSITIONS)
        never = family._never.suppressed.clone()
        never[family._never.eos] = True
        family._never = replace(family._never, suppressed=never)
        family.compute_on(self.device)
        return family

    def runner(self, family: Qwen3Tts, rows: int) -> DeviceRunner:
        """With a cache of MOST_POSITIONS for every row."""
        return DeviceRunner(family, rows, rows * MOST_POSITIONS // 16, self.device)

    def codec(self, limits: DeviceLimits) -> Qwen3Codec:
        """The decoder, float32 as published."""
        config = msgspec.convert(codec_config(self.size), CodecConfig)
        net = _drawn(
            lambda: CodecDecoder(config.decoder_config), self.device.where, torch.float32, self.seed
        )
        assert isinstance(net, CodecDecoder)
        net.quantizer.usage.data.fill_(1.0)
        net.quantizer.freeze()
        how = CodecOptions(device=self.device, limits=limits)
        return Qwen3Codec("codec", net, config.output_sample_rate, how)

    def on_tensor_cores(self, codec: Qwen3Codec, rows: int) -> Qwen3Codec:
        """The same weights, convolved on tensor cores, for `rows` streams."""
        limits = DeviceLimits(2 * rows, streams=rows)
        how = CodecOptions(device=self.device, limits=limits, tensor_cores=True)
        return Qwen3Codec("codec", codec.net, codec.spec.sample_rate, how)

    def on_cpu(self, codec: Qwen3Codec) -> Qwen3Codec:
        """The same weights on the CPU, through the same static buffers."""
        net = deepcopy(codec.net).to("cpu")
        how = CodecOptions(device=HostDevice(), limits=DeviceLimits(8, streams=4))
        return Qwen3Codec("codec", net, codec.spec.sample_rate, how)


def _tokenizer() -> TurnTokenizer:
    """The synthetic one of tiny checkpoints, whose ids every vocabulary has."""
    with TemporaryDirectory() as folder:
        write_qwen2_tokenizer(Path(folder), vocabulary(0))
        return TurnTokenizer.load(Path(folder))


def _drawn(
    make: Callable[[], nn.Module], where: torch.device, dtype: torch.dtype, seed: int
) -> nn.Module:
    with torch.device("meta"):
        net = make()
    net = net.to(dtype).to_empty(device=where).eval().requires_grad_(False)
    generator = torch.Generator(where).manual_seed(seed)
    for name, parameter in net.named_parameters():
        if "norm" in name:
            parameter.data.fill_(1.0)
        else:
            scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.05
            parameter.data.normal_(std=scale, generator=generator)
    return net


def device_named(name: str) -> Device:
    """A GPU, or the CPU through the same static buffers. Raises DeviceError."""
    where = torch.device(name)
    return Cuda(where.index or 0) if where.type == "cuda" else HostDevice()


def seconds(device: Device, work: Work, runs: int, rounds: int = 5) -> float:
    """Median over `rounds` of the mean seconds of `runs` runs, one submitted behind the other.

    A single run is a trial, and has one round.
    """
    rounds = rounds if runs > 1 else 1
    device.submit(work)
    device.mark().wait()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(runs):
            device.submit(work)
        device.mark().wait()
        found.append((time.perf_counter() - began) / runs)
    return median(found)


def bandwidth(device: Device, size: int) -> float:
    """Bytes a second of a copy of `size` bytes, read and written ones counted."""
    source = torch.ones(size, dtype=torch.uint8, device=device.where)
    target = torch.empty_like(source)
    return 2 * size / seconds(device, lambda: target.copy_(source), runs=10)


def parameter_bytes(*modules: nn.Module | Tensor, most: int = 4) -> int:
    """Bytes that a pass through all of these cannot but read, at `most` bytes a number.

    Weights that are kept in float32 for the sake of what is computed with them were published in
    bfloat16, and could be read so.
    """
    found = 0
    for module in modules:
        tensors = [module] if isinstance(module, Tensor) else module.parameters()
        found += sum(tensor.numel() * min(most, tensor.element_size()) for tensor in tensors)
    return found

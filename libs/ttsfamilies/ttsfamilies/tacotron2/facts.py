"""Tacotron 2 with HiFi-GAN: a talker by NVIDIA's names and a generator in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final, Literal, Self

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.codec_sizes import size_problems
from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

_HOP: Final = 256
_SAMPLE_RATE: Final = 22_050
_SIGN: Final = "decoder.attention_layer.memory_layer.linear_layer.weight"


def _fits(signs: Signs) -> bool:
    return "upsample_initial_channel" in signs.config and _SIGN in signs.tensors()


FAMILY = FamilyFacts(
    name="tacotron2",
    title="Tacotron 2",
    fits=_fits,
    codec=CodecFacts(
        name="tacotron2",
        title="Tacotron 2's postnet and HiFi-GAN",
        fits=_fits,
        sample_rate=_SAMPLE_RATE,
        frame_rate_hz=_SAMPLE_RATE / _HOP,
        code="MIT",
        weights="each checkpoint's own",
        inside=".",
    ),
    accepts=("max_new_tokens",),
    code="BSD-3-Clause",
    weights="each checkpoint's own",
    files=("tacotron2*.pt", "generator*", "g_[0-9]*", "config*.json", "*.safetensors*"),
    recognised_by=("tacotron2*.pt", "[g]*", "config*.json"),
    renamed=(
        ("tacotron2*.pt", "tacotron2.pt"),
        ("generator*[!s]", "generator.pt"),
        ("g_[0-9]*", "generator.pt"),
        ("config_v[123].json", "config.json"),
    ),
)


# A folder of Tacotron 2 with HiFi-GAN, as both stages read it. No torch here.
#
# It has the acoustic model's tensors by NVIDIA's names, the generator's by those of its authors,
# and the config.json that the generator is published with. The acoustic model's sizes follow from
# shapes.


ATTENTION: Final = "decoder.attention_layer."
LOCATION: Final = f"{ATTENTION}location_layer.location_conv.conv.weight"
COUNTED: Final = "num_batches_tracked"
"""How the names end of numbers that training alone reads."""


@dataclass(frozen=True)
class HifiganConfig:
    """The generator's sizes. voice: what the one voice of the folder is called."""

    resblock: Literal["1", "2"]
    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_initial_channel: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    num_mels: int = 80
    sampling_rate: int = 22_050
    hop_size: int = 256
    voice: str = "default"

    @property
    def frame_rate_hz(self) -> float:
        return self.sampling_rate / self.hop_size

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        found = size_problems(self)
        rates, kernels = self.upsample_rates, self.upsample_kernel_sizes
        if prod(rates) != self.hop_size:
            found.append(f"hop_size is {self.hop_size}, but upsample_rates make {prod(rates)}")
        if len(rates) != len(kernels):
            found.append("upsample_rates and upsample_kernel_sizes differ in length")
        if any(not 0 <= k - rate <= rate or (k - rate) % 2 for rate, k in zip(rates, kernels)):  # noqa: B905
            found.append("an upsample_kernel_size does not fit its rate")
        if len(self.resblock_kernel_sizes) != len(self.resblock_dilation_sizes):
            found.append("resblock_kernel_sizes and resblock_dilation_sizes differ in length")
        return found


def load_config(folder: Path) -> HifiganConfig:
    """Raises CheckpointError."""
    config = read_json(folder / "config.json", HifiganConfig)
    if problems := config.problems():
        raise CheckpointError(f"{folder / 'config.json'}: {'; '.join(problems)}")
    return config


@dataclass(frozen=True)
class TacotronSizes:
    """Of the acoustic model. text: what the encoder makes of a symbol. reading: convolutions of the
    encoder, their kernel. restoring: those of the postnet, their kernel, their channels. listening,
    speaking: units of the LSTM in front of the attention, and of that behind it. taps, filters: of
    the attention's view of where it was.
    """

    symbols: int
    mels: int
    text: int
    reading: tuple[int, int]
    prenet: tuple[int, ...]
    listening: int
    speaking: int
    attention: int
    filters: int
    taps: int
    restoring: tuple[int, int, int]

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]], where: Path) -> Self:
        """What a folder's tensors say; raises CheckpointError where one is missing."""
        try:
            return cls._of(shapes)
        except (KeyError, IndexError, ValueError) as error:
            raise CheckpointError(f"{where} lacks what tells its sizes: {error}") from error

    @classmethod
    def _of(cls, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        symbols, text = shapes["embedding.weight"]
        prenet = [shapes[_PRENET.format(i)] for i in range(_count(shapes, _PRENET))]
        filters, _, taps = shapes[LOCATION]
        widest, _, kernel = shapes["postnet.convolutions.0.0.conv.weight"]
        return cls(
            symbols,
            prenet[0][1],
            text,
            (_count(shapes, _READS), shapes[_READS.format(0)][2]),
            tuple(outputs for outputs, _ in prenet),
            shapes["decoder.attention_rnn.weight_hh"][1],
            shapes["decoder.decoder_rnn.weight_hh"][1],
            shapes[f"{ATTENTION}query_layer.linear_layer.weight"][0],
            filters,
            taps,
            (_count(shapes, "postnet.convolutions.{}.0.conv.weight"), kernel, widest),
        )


_PRENET: Final = "decoder.prenet.layers.{}.linear_layer.weight"
_READS: Final = "encoder.convolutions.{}.0.conv.weight"


def _count(shapes: Mapping[str, tuple[int, ...]], name: str) -> int:
    """Of tensors whose names are numbered from 0 on; raises ValueError for none."""
    count = 0
    while name.format(count) in shapes:
        count += 1
    if not count:
        raise ValueError(name.format(0))
    return count

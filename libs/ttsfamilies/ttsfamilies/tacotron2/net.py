"""Tacotron 2's network (Shen et al., 2018): an encoder, and two LSTMs around an attention that
knows where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, relu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import halve
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttsfamilies.tacotron2.facts import (
    ATTENTION,
    COUNTED,
    LOCATION,
    HifiganConfig,
    TacotronSizes,
    load_config,
)
from ttsfamilies.tacotron2.request import SYMBOLS

_EPS: Final = 1e-5
_WEIGHT: Final = ("weight", "running_var")
_BIAS: Final = ("weight", "bias", "running_mean", "running_var")


@dataclass(frozen=True)
class BatchNormed(Source):
    """A convolution's weight or bias, into which the norm behind it is folded, in float64.

    names: the parameter, and of the norm weight and variance, or weight, bias, mean and variance.
    """

    def shapes(self, whole: Sequence[int]) -> dict[str, tuple[int, ...]]:
        norm = dict.fromkeys(self.names[1:], (whole[0],))
        return {self.names[0]: tuple(whole), **norm}

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        own, gain, *others = (part.double() for part in parts)
        factor = gain * torch.rsqrt(others[-1] + _EPS)
        if len(others) == 1:
            return own * factor[:, None, None]
        bias, mean, _ = others
        return (own - mean) * factor + bias


def normed_sources(count: int, ours: str, theirs: str) -> dict[str, Source]:
    """Of so many convolutions with their norms; ours, theirs: what their names begin with."""
    found: dict[str, Source] = {}
    for i in range(count):
        conv, norm = f"{theirs}{i}.0.conv.", f"{theirs}{i}.1."
        for part, of in (("weight", _WEIGHT), ("bias", _BIAS)):
            names = (f"{conv}{part}", *(f"{norm}{name}" for name in of))
            found[f"{ours}{i}.{part}"] = BatchNormed(names)
    return found


def counted(names: Iterable[str]) -> tuple[str, ...]:
    """Names of what training alone reads."""
    return tuple(name for name in names if name.endswith(COUNTED))


def sizes_of(folder: Path) -> tuple[HifiganConfig, TacotronSizes, Shards]:
    """What a folder says of itself, and its tensors; raises CheckpointError."""
    config, shards = load_config(folder), Shards.of(folder)
    sizes = TacotronSizes.of(shards.shapes, folder)
    if sizes.mels != config.num_mels:
        raise CheckpointError(
            f"{folder}: the talker makes {sizes.mels} mels, but config.json says {config.num_mels}"
        )
    return config, sizes, shards


Recurrent = Mapping[str, Tensor]
"""What a stream carries from frame to frame, [rows, ...] by name; see `TacotronNet.blank`."""
_VOCODED: Final = ("postnet.", "conv_pre.", "conv_post.", "ups.", "resblocks.")
_CELLS: Final = {"listening": "attention_rnn", "speaking": "decoder_rnn"}


class AttendedText(NamedTuple):
    """What is attended to: memory [rows, ids, text], keys [rows, ids, attention] and the number of
    each row's ids, [rows]. Beyond those, both are zeros.
    """

    memory: Tensor
    keys: Tensor
    lengths: Tensor


class SymbolEncoder(nn.Module):
    """Reads a text whole, both ways."""

    def __init__(self, c: TacotronSizes) -> None:
        super().__init__()
        count, kernel = c.reading
        self.embedding = nn.Embedding(c.symbols, c.text)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(c.text, c.text, kernel, padding=kernel // 2) for _ in range(count)
        )
        self.lstm = nn.LSTM(c.text, c.text // 2, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """[rows, longest] int64 -> [rows, longest, text], zeros behind each row's ids."""
        counts = torch.tensor(lengths)
        real = torch.arange(ids.shape[1], device=ids.device) < counts.to(ids.device)[:, None]
        x = self.embedding(ids).mT * real[:, None]
        for conv in self.convolutions:
            x = relu(conv(x)) * real[:, None]
        packed = pack_padded_sequence(x.mT, counts, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


class RecurrentCell(nn.Module):
    """An LSTM's step, whose two products halve as any do."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.entered, self.kept = nn.Linear(inputs, 4 * size), nn.Linear(size, 4 * size)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, inputs], and [rows, size] twice -> those two, a step on."""
        enters, stays, news, shows = (self.entered(x) + self.kept(hidden)).chunk(4, -1)
        cell = stays.sigmoid() * cell + enters.sigmoid() * news.tanh()
        return shows.sigmoid() * cell.tanh(), cell


class LocationAttention(nn.Module):
    """Chorowski et al., 2015: told where it was, in the last step and in all of them."""

    def __init__(self, c: TacotronSizes) -> None:
        super().__init__()
        self.query = nn.Linear(c.listening, c.attention, bias=False)
        self.key = nn.Linear(c.text, c.attention, bias=False)
        self.location = nn.Parameter(torch.empty(c.filters, 2, c.taps))
        self.place = nn.Linear(c.filters, c.attention, bias=False)
        self.energy = nn.Linear(c.attention, 1, bias=False)

    def forward(
        self, hidden: Tensor, text: AttendedText, weights: Tensor, summed: Tensor
    ) -> Tensor:
        """[rows, listening], and [rows, ids] twice -> how much of each id is heard, [rows, ids]."""
        count = text.keys.shape[1]
        around = self.location.shape[-1] // 2
        seen = pad(torch.stack((weights, summed), 1), (around, around))
        seen = seen.unfold(2, self.location.shape[-1], 1).transpose(1, 2).flatten(2)
        places = self.place(linear(seen, self.location.flatten(1)))
        energies = self.energy(torch.tanh(self.query(hidden)[:, None] + places + text.keys))
        # A row that is padding has no text; one id keeps its numbers finite.
        real = torch.arange(count, device=hidden.device) < text.lengths.clamp(min=1)[:, None]
        return energies[..., 0].masked_fill(~real, -torch.inf).softmax(-1)


class TacotronNet(nn.Module):
    """Methods work on rows, a text each."""

    def __init__(self, c: TacotronSizes) -> None:
        super().__init__()
        self.sizes = c
        self.encoder = SymbolEncoder(c)
        self.prenet = nn.ModuleList(
            nn.Linear(inputs, outputs, bias=False)
            for inputs, outputs in zip((c.mels, *c.prenet), c.prenet, strict=False)
        )
        self.listening = RecurrentCell(c.prenet[-1] + c.text, c.listening)
        self.attention = LocationAttention(c)
        self.speaking = RecurrentCell(c.listening + c.text, c.speaking)
        self.mel = nn.Linear(c.speaking + c.text, c.mels)
        self.gate = nn.Linear(c.speaking + c.text, 1)

    def read(self, ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Memory and keys of texts; see SymbolEncoder and AttendedText."""
        memory = self.encoder(ids, lengths)
        return memory, self.attention.key(memory)

    def blank(self, ids: int) -> dict[str, tuple[int, ...]]:
        """Shapes of a row of what is carried, all of which begins with zeros. ids: of a text."""
        c = self.sizes
        return {
            "listening": (c.listening,),
            "listening_cell": (c.listening,),
            "speaking": (c.speaking,),
            "speaking_cell": (c.speaking,),
            "context": (c.text,),
            "weights": (ids,),
            "summed": (ids,),
        }

    def step(
        self, mel: Tensor, kept: Sequence[Tensor], text: AttendedText, old: Recurrent
    ) -> dict[str, Tensor]:
        """A frame on. mel: [rows, mels], the frame before. kept: by how much each number of a layer
        of the prenet counts, [rows, width] each.
        """
        x = mel
        for layer, factor in zip(self.prenet, kept, strict=True):
            x = relu(layer(x)) * factor
        told = torch.cat((x, old["context"]), -1)
        hidden, cell = self.listening(told, old["listening"], old["listening_cell"])
        weights = self.attention(hidden, text, old["weights"], old["summed"])
        context = torch.bmm(weights[:, None], text.memory)[:, 0]
        told = torch.cat((hidden, context), -1)
        above, above_cell = self.speaking(told, old["speaking"], old["speaking_cell"])
        return {
            "listening": hidden,
            "listening_cell": cell,
            "speaking": above,
            "speaking_cell": above_cell,
            "context": context,
            "weights": weights,
            "summed": old["summed"] + weights,
        }

    def frame(self, at: Recurrent) -> tuple[Tensor, Tensor]:
        """[rows, mels], and the gate's logit, [rows]."""
        told = torch.cat((at["speaking"], at["context"]), -1)
        return self.mel(told), self.gate(told)[:, 0]


def sources(net: TacotronNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    count, _ = net.sizes.reading
    found = normed_sources(count, "encoder.convolutions.", "encoder.convolutions.")
    return found | named(net, _NAMES)


_NAMES: Final = {
    "encoder.embedding": "embedding",
    "encoder.lstm": "encoder.lstm",
    "prenet.*": "decoder.prenet.layers.*.linear_layer",
    **{
        f"{ours}.{mine}.{part}": f"decoder.{theirs}.{part}_{other}"
        for ours, theirs in _CELLS.items()
        for mine, other in (("entered", "ih"), ("kept", "hh"))
        for part in ("weight", "bias")
    },
    "attention.query": f"{ATTENTION}query_layer.linear_layer",
    "attention.key": f"{ATTENTION}memory_layer.linear_layer",
    "attention.energy": f"{ATTENTION}v.linear_layer",
    "attention.place": f"{ATTENTION}location_layer.location_dense.linear_layer",
    "attention.location": LOCATION,
    "mel": "decoder.linear_projection.linear_layer",
    "gate": "decoder.gate_layer.linear_layer",
}


def load_net(
    folder: Path, device: str, dtype: torch.dtype = torch.float32
) -> tuple[TacotronNet, HifiganConfig]:
    """The talker of a checkpoint folder; raises CheckpointError.

    On a CPU a step takes as long as its weights are big: those that two bytes hold stay in two.
    """
    config, sizes, shards = sizes_of(folder)
    if sizes.symbols != SYMBOLS:
        raise CheckpointError(
            f"{folder}: a table of {sizes.symbols} symbols; the recipe's has {SYMBOLS}"
        )
    net = unfilled(TacotronNet, sizes).to(dtype)
    filled(net, sources(net), shards, others=(*_VOCODED, *counted(shards.shapes)), device=device)
    net.encoder.lstm.flatten_parameters()
    if device == "cpu" and dtype == torch.float32:
        halve(net, lossless=True)
    return net, config

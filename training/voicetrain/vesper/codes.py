"""The conditioning of the teacher's decoder in a frame, as four codes: k-means, no network.

Codebook 0 is the pitch of a frame's four hops, 1 their energy, 2 and 3 the text features of its
two units, coarse and fine.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ttsfamilies.vesper.codec.layers import VOICED_HZ
from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME, VesperDecoder

ROUNDS = 15
LARGEST = 120_000
_ROWS = 20_000


class Features(NamedTuple):
    """What is quantised: pitch [n, 8], energy [n, 4], text [n, 256]."""

    pitch: Tensor
    energy: Tensor
    text: Tensor


class Tables(NamedTuple):
    """pitch [codes, 8], energy [codes, 4], text and rest [text codes, 256]."""

    pitch: Tensor
    energy: Tensor
    text: Tensor
    rest: Tensor


def features(f0: Tensor, energy: Tensor, text: Tensor) -> Features:
    """f0 in Hz and energy [hops], text [units, 128]; whole frames. Energy as the decoder has it."""
    voiced = (f0 > VOICED_HZ).float()
    height = torch.log(f0.clamp_min(50) / 200) * 4 * voiced
    pitch = torch.stack((height, 2 * voiced), -1)
    return Features(
        pitch.reshape(-1, 2 * HOPS_PER_FRAME),
        (energy / 5).reshape(-1, HOPS_PER_FRAME),
        text.reshape(-1, 2 * text.shape[1]),
    )


def quantised(tables: Tables, found: Features) -> Tensor:
    """Codes [n, 4] int64."""
    first = closest(found.text, tables.text)
    rest = closest(found.text - tables.text[first], tables.rest)
    pitch, energy = closest(found.pitch, tables.pitch), closest(found.energy, tables.energy)
    return torch.stack((pitch, energy, first, rest), 1)


def closest(x: Tensor, table: Tensor) -> Tensor:
    """Index of the closest entry: [n, dim], [size, dim] -> [n] int64."""
    norms = (table**2).sum(1)
    return torch.cat([(norms - 2 * part @ table.T).argmin(1) for part in x.split(_ROWS)])


def fit(parts: Sequence[Features], size: int, text_size: int, seed: int) -> Tables:
    """Tables for the frames of many utterances: `size` entries, `text_size` for text."""
    generator = torch.Generator().manual_seed(seed)
    pitch, energy, text = (torch.cat(columns) for columns in zip(*parts, strict=True))
    first = kmeans(text, text_size, generator)
    rest = kmeans(text - first[closest(text, first)], text_size, generator)
    return Tables(kmeans(pitch, size, generator), kmeans(energy, size, generator), first, rest)


def kmeans(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """`size` centres of at most LARGEST rows of x; entries that lose all members begin anew."""
    x = x[torch.randperm(len(x), generator=generator)[:LARGEST]]

    def picked() -> Tensor:
        return x[torch.randint(len(x), (size,), generator=generator)].clone()

    table = picked()
    for _ in range(ROUNDS):
        chosen = closest(x, table)
        members = torch.bincount(chosen, minlength=size)[:, None]
        sums = torch.zeros_like(table).index_add_(0, chosen, x)
        table = torch.where(members > 0, sums / members.clamp_min(1), picked())
    return table


def install(tables: Tables, silence: Tensor, decoder: VesperDecoder) -> None:
    """Give a decoder its tables, and the codes [4] of silence."""
    decoder.pitch_table.data = tables.pitch.unflatten(-1, (HOPS_PER_FRAME, 2)).clone()
    decoder.energy_table.data = tables.energy.clone()
    decoder.text_table.data = torch.stack((tables.text, tables.rest))
    decoder.silence.copy_(silence)

"""From tokens to mel frames: an encoder, and an equation solved step by step (flow matching).

A stretch of a stream is solved in `FlowNet.steps` steps, each of which can be one of many streams'
in a batch: what step a row is at, and what it keeps of earlier stretches, is its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import TENSORS, CheckpointError
from ttscommon.engine.nn.weights import PAIRS, Shards, Subset, as_stored, filled, unfilled
from ttsfamilies.cosyvoice.facts import FLOW, HIFT
from ttsfamilies.cosyvoice.s3_flow.dit import ConvDiT, DiT
from ttsfamilies.cosyvoice.s3_flow.encoder import (
    Ahead,
    Encoded,
    Lookahead,
    UpsampleEncoder,
    padded,
    passes,
)
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.past import GrowingPass, Pass, Past, Stretch
from ttsfamilies.cosyvoice.s3_flow.sizes import (
    CHUNK,
    LOOKAHEAD,
    MEL_FRAMES,
    ConvDiTSizes,
    DiTSizes,
    FlowSizes,
    Shapes,
    UNetSizes,
    flow_sizes,
    hift_sizes,
)
from ttsfamilies.cosyvoice.s3_flow.sound import Phase
from ttsfamilies.cosyvoice.s3_flow.unet import UNet

STEPS: Final = 10
MEAN_STEPS: Final = 2
_GUIDANCE: Final = 0.7


@dataclass(frozen=True)
class Solving:
    """A stretch on its way from noise to mel. done: steps so far. x, mu, cond: [mels, frames].
    speaker: [mels]. pasts: of each step, before the stretch; news: behind it, of the steps done.
    pages, fresh: of what is carried before the stretch and behind it, where it lies in `Pages`.
    """

    x: Tensor
    mu: Tensor
    cond: Tensor
    speaker: Tensor
    pasts: tuple[Past, ...]
    news: tuple[Past, ...] = ()
    pages: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()

    @property
    def done(self) -> int:
        return len(self.news)


class FlowNet(nn.Module):
    """chunk: tokens that the streaming mask lets see each other; 0: all see all. windowed: it has
    no mask, but solves a recording and then each chunk by itself, and of what its attention saw a
    window is kept.
    """

    def __init__(self, sizes: FlowSizes, chunk: int = CHUNK) -> None:
        super().__init__()
        c, self.chunk, self.sizes = sizes, chunk, sizes
        self.input_embedding = nn.Embedding(c.ids, c.width)
        self.spk_embed_affine_layer = nn.Linear(c.speaker, c.mels)
        if c.encoder is None:
            self.pre_lookahead_layer = Lookahead(c.width, c.lookahead)
        else:
            self.encoder = UpsampleEncoder(c.encoder)
            self.encoder_proj = nn.Linear(c.width, c.mels)
        estimator = c.estimator
        self.decoder = nn.ModuleDict({"estimator": _estimator(estimator)})
        self.windowed = isinstance(estimator, ConvDiTSizes)
        self.mask = 0 if self.windowed else chunk
        self.mean = isinstance(estimator, UNetSizes) and estimator.meanflow
        self.times = _times(self.mean)

    @property
    def steps(self) -> int:
        """That a stretch takes, as published."""
        return len(self.times) - 1

    @property
    def rows(self) -> int:
        """Of a stream in a batch: one more without what it is told, for guidance."""
        return 1 if self.mean else 2

    def speaker(self, vector: Tensor) -> Tensor:
        """[speaker] -> [mels]."""
        return self.spk_embed_affine_layer(nn.functional.normalize(vector, dim=0))

    def encode(self, works: Sequence[Ahead]) -> tuple[list[Tensor], list[Encoded]]:
        """What the flow is told of each stream's new tokens, [mels, frames], and what to keep."""
        tokens, shown = padded(works)
        x = self.input_embedding(tokens)
        slow, fast = passes(works, self.mask)
        if self.sizes.encoder is None:
            steps = tokens.shape[1] - LOOKAHEAD
            x = self.pre_lookahead_layer(x * shown, steps, slow).repeat_interleave(MEL_FRAMES, 1)
            kept = [Encoded(tokens=past) for past in slow.done()]
        else:
            x = self.encoder_proj(self.encoder(x, shown, slow, fast))
            kept = [Encoded(*pasts) for pasts in zip(slow.done(), fast.done(), strict=True)]
        told = [row[: work.count * MEL_FRAMES].mT for row, work in zip(x, works, strict=True)]
        return told, kept

    def step(self, works: Sequence[Solving]) -> list[Solving]:
        """One step of each."""
        steps = max(work.x.shape[1] for work in works)
        stretches = [self._stretch(work) for work in works]
        run = GrowingPass(stretches, self.rows, newest_first=self.windowed)
        x, mu, cond = (
            torch.stack([nn.functional.pad(part, (0, steps - part.shape[1])) for part in parts])
            for parts in zip(*((work.x, work.mu, work.cond) for work in works), strict=True)
        )
        spans = [self.times[work.done : work.done + 2] for work in works]
        span = torch.tensor(spans, dtype=x.dtype, device=x.device)
        x = self.moved(x, mu, torch.stack([work.speaker for work in works]), cond, span, run)
        return [
            replace(work, x=row[:, : work.x.shape[1]], news=(*work.news, past))
            for work, row, past in zip(works, x, run.done(), strict=True)
        ]

    def moved(
        self, x: Tensor, mu: Tensor, speaker: Tensor, cond: Tensor, span: Tensor, run: Pass
    ) -> Tensor:
        """[streams, mels, steps] each, but the speaker's [streams, mels], from when to when a step
        goes, [streams, 2] -> where x is then.
        """
        here, when = (part.repeat_interleave(self.rows, 0) for part in (x, span))
        told = (self._guided(part) for part in (mu, speaker, cond))
        way = cast("UNet | DiT | ConvDiT", self.decoder["estimator"])(here, *told, when, run)
        if self.rows > 1:
            way = (1 + _GUIDANCE) * way[::2] - _GUIDANCE * way[1::2]
        return x + (span[:, 1] - span[:, 0])[:, None, None] * way

    def _stretch(self, work: Solving) -> Stretch:
        return Stretch(work.pasts[work.done], work.x.shape[1], self.mask * MEL_FRAMES)

    def _guided(self, known: Tensor) -> Tensor:
        """Each stream's row, followed by a row of zeros where there is guidance."""
        if self.rows == 1:
            return known
        return torch.stack((known, torch.zeros_like(known)), 1).flatten(0, 1)


def _estimator(sizes: UNetSizes | DiTSizes | ConvDiTSizes) -> nn.Module:
    if isinstance(sizes, ConvDiTSizes):
        return ConvDiT(sizes)
    return UNet(sizes) if isinstance(sizes, UNetSizes) else DiT(sizes)


def _times(mean: bool) -> tuple[float, ...]:
    """When each step begins, and the end."""
    if mean:
        return tuple(i / MEAN_STEPS for i in range(MEAN_STEPS + 1))
    return tuple(1 - math.cos(math.pi / 2 * i / STEPS) for i in range(STEPS + 1))


# From published files to networks: CosyVoice's parts, or Chatterbox's one file.


_BUFFERS: Final = ("decoder.estimator.rotary_embed.",)
_S3GEN: Final = "s3gen"
_OWN: Final = "flow.input_embedding.weight"


@dataclass(frozen=True)
class Networks:
    """own: Chatterbox's, whose streams begin with a fade and with noise of their own."""

    flow: FlowNet
    hift: Hift
    phase: Phase
    own: bool


def load_networks(folder: Path, device: str = "cpu", chunk: int | None = None) -> Networks:
    """In float32, but for the pitch's; raises CheckpointError.

    chunk: tokens that see each other in the flow, 0 for all; None: as each family published it.
    """
    shards = shards_of(folder)
    own = _OWN in shards.shapes
    flow, hift = ("flow.", "mel2wav.") if own else ("", _prefix(shards))
    usual = 0 if own else CHUNK
    try:
        net = unfilled(FlowNet, flow_sizes(shards.shapes, flow), usual if chunk is None else chunk)
        sound = unfilled(Hift, hift_sizes(plain(shards.shapes), hift))
    except KeyError as error:
        where = shards.where("").parent
        raise CheckpointError(
            f"{where} lacks {error.args[0]}: it holds no flow of S3 tokens"
        ) from error
    _filled(net, flow, shards, device)
    _filled(sound, hift, shards, device)
    sound.f0_predictor.double()
    phase = Phase.PACE if own else Phase.HELD if sound.sizes.causal else Phase.LINE
    return Networks(net, sound, phase, own)


def _filled(net: nn.Module, prefix: str, shards: Shards, device: str) -> None:
    usual = FLOW if isinstance(net, FlowNet) else HIFT
    mine = Subset(shards, (prefix,) if prefix else usual)
    others = tuple(prefix + b for b in _BUFFERS)
    filled(
        net, as_stored(net.state_dict(), shards.shapes, prefix), mine, others=others, device=device
    )


def shards_of(folder: Path) -> Shards:
    """The tensors of a folder: those that an index names, or of Chatterbox's one file."""
    found = sorted(folder.glob(f"{_S3GEN}*{TENSORS}"))
    indexed = any(folder.glob(f"*{TENSORS}.index.json"))
    return Shards(found) if len(found) == 1 and not indexed else Shards.of(folder)


def _prefix(shards: Shards) -> str:
    """HiFT may be published as trained, within a pair of networks."""
    return "generator." if "generator.m_source.l_linear.weight" in shards.shapes else ""


def plain(shapes: Shapes) -> Shapes:
    """Shapes under the names of plain weights."""
    ends = {direction: "weight" for _, direction in PAIRS}
    found = dict(shapes)
    for name, shape in shapes.items():
        for end, usual in ends.items():
            if name.endswith(end):
                found[name.removesuffix(end) + usual] = shape
    return found

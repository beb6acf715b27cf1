"""From published files to networks: CosyVoice's parts, or Chatterbox's one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn

from ttscommon.engine.checkpoint import TENSORS, CheckpointError
from ttscommon.engine.nn.adain import published
from ttscommon.engine.nn.weights import Shards, Source, filled, same, unfilled
from ttsfamilies.cosyvoice.facts import FLOW, HIFT
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, Shapes, flow_sizes, hift_sizes
from ttsfamilies.cosyvoice.s3_flow.source import Phase

_PAIRS: Final = (
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ("weight_g", "weight_v"),
)
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


def sources(net: nn.Module, prefix: str, shapes: Shapes) -> dict[str, Source]:
    """Every parameter's published tensors; weights may be length and direction."""
    return {
        key: _folded(source.names[0].removesuffix(_PAIRS[1][0]), shapes)
        if source.folded
        else source
        for key, source in published(net, prefix).items()
    }


def _folded(place: str, shapes: Shapes) -> Source:
    for length, direction in _PAIRS:
        if place + length in shapes:
            return Source((place + length, place + direction), folded=True)
    return same(f"{place}weight")


def _filled(net: nn.Module, prefix: str, shards: Shards, device: str) -> None:
    usual = FLOW if isinstance(net, FlowNet) else HIFT
    mine = Within(shards, (prefix,) if prefix else usual)
    others = tuple(prefix + b for b in _BUFFERS)
    filled(net, sources(net, prefix, shards.shapes), mine, others=others, device=device)


class Within:
    """The tensors of a checkpoint whose names begin so; the others are other networks'."""

    def __init__(self, shards: Shards, prefixes: tuple[str, ...]) -> None:
        self._shards = shards
        self._shapes = {n: s for n, s in shards.shapes.items() if n.startswith(prefixes)}

    @property
    def shapes(self) -> Shapes:
        return self._shapes

    def read(self, name: str) -> torch.Tensor:
        return self._shards.read(name)

    def where(self, name: str) -> Path:
        return self._shards.where(name)


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
    ends = {direction: "weight" for _, direction in _PAIRS}
    found = dict(shapes)
    for name, shape in shapes.items():
        for end, usual in ends.items():
            if name.endswith(end):
                found[name.removesuffix(end) + usual] = shape
    return found

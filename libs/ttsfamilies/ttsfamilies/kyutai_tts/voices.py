"""Published voices: what every layer attends to besides the steps, computed when a model is loaded.

A voice's file has the embeddings of a recording, and fits the training run that its name ends in.
Keys and values of all layers follow from them and are the same in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.weights import Shards
from ttsfamilies.base.kernels.attention import attend
from ttsfamilies.base.runners.kv import LEAST_ROWS, first, padded, summed
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, blocks_for
from ttsfamilies.kyutai_tts.config import SPEAKER, KyutaiConfig
from ttsfamilies.kyutai_tts.net import Hear, KyutaiNet

FOLDER: Final = "voices"


@dataclass(frozen=True)
class HeardVoices:
    """names: of the voices. keys, values: [layers, voices * blocks * BLOCK_POSITIONS, heads,
    head_dim]. positions: of each voice, as many as lie in its blocks and are no padding.
    """

    names: tuple[str, ...]
    keys: Tensor
    values: Tensor
    positions: int

    def hear(self, voices: Tensor) -> Hear:
        """Of tokens that hear `voices` [tokens] int64, in fixed shapes, for a device."""
        blocks, count = blocks_for(self.positions), len(voices)
        tables = torch.arange(len(self.names) * blocks, dtype=torch.int32, device=voices.device)
        tables = tables.view(len(self.names), blocks)
        each = torch.arange(count, device=voices.device)
        last = torch.full_like(voices, self.positions - 1)
        tiles = torch.stack((voices, each, torch.ones_like(voices), last), 1).to(torch.int32)

        def heard(layer: int, q: Tensor) -> Tensor:
            known = self.keys[layer], self.values[layer], tables, tiles
            return attend(q, *known, most=self.positions)

        return heard

    def hear_exactly(self, voices: Tensor) -> Hear:
        """The same on the CPU: a token's result is the same bits whatever the others hear."""
        groups = [(voice, (voices == voice).nonzero()[:, 0]) for voice in set(voices.tolist())]

        def heard(layer: int, q: Tensor) -> Tensor:
            found = torch.empty_like(q)
            for voice, index in groups:
                found[index] = self._heard(layer, voice, q[index])
            return found

        return heard

    def _heard(self, layer: int, voice: int, q: Tensor) -> Tensor:
        start = voice * blocks_for(self.positions) * BLOCK_POSITIONS
        mine = slice(start, start + self.positions)
        keys, values = self.keys[layer, mine], self.values[layer, mine]
        rows = padded(q * q.shape[-1] ** -0.5, LEAST_ROWS)
        mixed = [
            summed((rows[:, head] @ keys[:, head].T).softmax(-1), values[:, head])
            for head in range(q.shape[1])
        ]
        return first(torch.stack(mixed, 1), len(q))


def load_voices(checkpoint: Path, net: KyutaiNet) -> HeardVoices:
    """The voices in a checkpoint's folder; raises CheckpointError, also where there is none."""
    run = net.config.model_id
    ending, home = f".{run.sig}@{run.epoch}.safetensors", checkpoint / FOLDER
    paths = sorted(home.rglob(f"*{ending}"))
    if not paths:
        raise CheckpointError(
            f"{home} has no voices: put files there from kyutai/tts-voices whose names end in"
            f" {ending}"
        )
    names = tuple(str(path.relative_to(home)).removesuffix(ending) for path in paths)
    return _computed(names, [_read(path, net.config) for path in paths], net)


@torch.inference_mode()
def _computed(names: tuple[str, ...], voices: Sequence[Tensor], net: KyutaiNet) -> HeardVoices:
    lengths = {len(voice) for voice in voices}
    if len(lengths) != 1:
        raise CheckpointError(f"the voices differ in their length: {sorted(lengths)} positions")
    like = net.codes
    parts = []
    for voice in voices:
        told = net.conditions.voice(voice.to(like.device)).to(like.dtype)
        parts.append([torch.stack(block.heard(told)) for block in net.hearing_blocks()])
    positions = parts[0][0].shape[1]
    room = blocks_for(positions) * BLOCK_POSITIONS
    shape = (2, len(parts[0]), len(parts), room, *parts[0][0].shape[2:])
    both = like.new_zeros(shape)
    for number, layers in enumerate(parts):
        both[:, :, number, :positions] = torch.stack(layers, 1)
    keys, values = both.flatten(2, 3)
    return HeardVoices(names, keys, values, positions)


def _read(path: Path, c: KyutaiConfig) -> Tensor:
    """[positions, values] float32."""
    shards = Shards((path,))
    shape = shards.shapes.get(SPEAKER, ())
    if len(shape) != 3 or shape[:2] != (1, c.voice_values) or not shape[2]:
        raise CheckpointError(f"{path} is a voice of another model: {list(shape)}")
    return shards.read(SPEAKER)[0].float().T.contiguous()

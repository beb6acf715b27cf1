"""Names of the talker's parameters in a checkpoint, the thinker's rows, and loading them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

import torch

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.experts import expert_sources, parted
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttscommon.wire.fields import Array
from ttsfamilies.qwen3_omni.config import PAD, OmniConfig, load_config
from ttsfamilies.qwen3_omni.net import OmniNet, mixture
from ttsfamilies.qwen3_tts.weights import check_device, predictor_sources

TABLE: Final = "thinker.model.embed_tokens.weight"
OTHERS: Final = ("thinker.", "code2wav.")
# Rows that are kept in memory.
_KEPT: Final = 16_384
_DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def sources(net: OmniNet, config: OmniConfig) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "codec.weight": same("talker.model.codec_embedding.weight"),
        "codec_head.weight": same("talker.codec_head.weight"),
    }
    for name in ("text_projection", "hidden_projection"):
        for ours, theirs in (("first", "linear_fc1"), ("second", "linear_fc2")):
            for part in ("weight", "bias"):
                found[f"{name}.{ours}.{part}"] = same(f"talker.{name}.{theirs}.{part}")
    stack = decoder_sources(net.backbone.config, "backbone.", "talker.model.")
    found |= {name: source for name, source in stack.items() if ".mlp." not in name}
    sizes = mixture(config.talker_config.text_config)
    for layer in range(net.backbone.config.layers):
        ours, theirs = f"backbone.blocks.{layer}.mlp.", f"talker.model.layers.{layer}.mlp."
        found |= expert_sources(sizes, ours, theirs)
    return found | predictor_sources(net.predictor)


class ThinkerTable:
    """Rows of the thinker's embedding, read from the checkpoint as they are asked for.

    The table has as many numbers as a tenth of the talker, and a text needs a few of its rows.
    """

    def __init__(self, shards: Shards, width: int) -> None:
        """Raises CheckpointError where the table is missing or of another width."""
        shape = shards.shapes.get(TABLE)
        if shape is None:
            raise CheckpointError(f"{shards.where('').parent} lacks {TABLE}")
        if len(shape) != 2 or shape[1] != width:
            raise CheckpointError(
                f"{shards.where(TABLE)}: {TABLE} is {list(shape)}, but config.json makes its rows"
                f" {width} wide"
            )
        self.width, self.size = width, shape[0]
        self._shards, self._lock = shards, Lock()
        self._known: dict[int, Array] = {}

    def rows(self, ids: Sequence[int]) -> list[Array]:
        """A row [width] float32 for each id; from any thread. Raises CheckpointError."""
        with self._lock:
            missing = [i for i in dict.fromkeys(ids) if i not in self._known]
            if missing:
                if len(self._known) + len(missing) > _KEPT:
                    self._known.clear()
                    missing = list(dict.fromkeys(ids))
                found = self._shards.rows(TABLE, missing).float().numpy()
                self._known |= dict(zip(missing, found, strict=True))
            return [self._known[i] for i in ids]


def load_talker(
    checkpoint: Path, *, device: str = "cpu", dtype: str = "float32"
) -> tuple[OmniConfig, OmniNet, ThinkerTable]:
    """The talker of a checkpoint folder; raises CheckpointError."""
    if dtype not in _DTYPES:
        raise CheckpointError(f"dtype {dtype!r} is none of {', '.join(_DTYPES)}")
    config, shards = load_config(checkpoint), Shards.of(checkpoint)
    table = ThinkerTable(shards, config.talker_config.thinker_hidden_size)
    with torch.device("meta"):
        net = OmniNet(config).to(_DTYPES[dtype])
    net.keep_float32()
    stated = sources(net, config)
    filled(net, stated, parted(shards), others=OTHERS, device=check_device(device))
    net.pad.copy_(torch.from_numpy(table.rows(config.specials)[PAD]))
    return config, net, table

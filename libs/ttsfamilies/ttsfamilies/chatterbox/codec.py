"""Loading the half of a Chatterbox checkpoint that makes sound."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import Array
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.chatterbox.facts import FolderSettings
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import load_networks, shards_of
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, MEL_FRAMES

# Of the built-in voice; conditions' names, see docs/decisions/streaming-flow.md.
_VOICE: Final = {
    "token": "gen.prompt_token",
    "mel": "gen.prompt_feat",
    "speaker": "gen.embedding",
}


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> S3Flow:
    """A checkpoint's folder; raises CheckpointError."""
    nets = load_networks(folder, how.where, _chunk(folder))
    return S3Flow(name, "chatterbox", nets, how, _voice(folder))


def _chunk(folder: Path) -> int:
    """What config.json asks for: 0, sentences at once, or the grid."""
    asked = FolderSettings.of(folder).chunk_tokens
    if asked not in (0, CHUNK):
        raise CheckpointError(f"{folder}: chunk_tokens is {asked}, not 0 or {CHUNK}")
    return asked


def _voice(folder: Path) -> dict[str, Array] | None:
    """The built-in voice's conditions, where there is one; a surplus mel frame is left out."""
    shards = shards_of(folder)
    if not set(_VOICE.values()) <= shards.shapes.keys():
        return None
    mel, speaker = (shards.read(_VOICE[name]).numpy() for name in ("mel", "speaker"))
    token = shards.ids(_VOICE["token"]).numpy().astype(np.int16)
    mel = mel.reshape(-1, mel.shape[-1])[: MEL_FRAMES * len(token)].astype(np.float32)
    return {"token": token, "mel": mel, "speaker": speaker.reshape(1, -1).astype(np.float32)}

"""Chatterbox: its codec, a flow over S3 tokens and HiFT, is published within each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks
from ttsfamilies.base.s3 import TOKENS

FAMILY = FamilyFacts(
    name="chatterbox",
    title="Chatterbox",
    fits=Marks(("chatterbox",), tensors=("speech_emb.weight", "cond_enc.spkr_enc.weight")),
    codec=CodecFacts(
        name="chatterbox",
        title="S3Gen",
        fits=Marks(("chatterbox",), tensors=("speech_emb.weight", "cond_enc.spkr_enc.weight")),
        sample_rate=24_000,
        frame_rate_hz=25.0,
        code="MIT",
        weights="MIT",
        inside=".",
        prefixes=("flow.", "mel2wav.", "gen."),
        config="chunk_tokens",
    ),
    accepts=(
        *("ref_audio", "language", "temperature", "top_k", "top_p", "repetition_penalty"),
        "max_new_tokens",
    ),
    code="MIT",
    weights="MIT",
    published=("ResembleAI/chatterbox", "ResembleAI/chatterbox-turbo"),
    files=(
        *("t3_*.safetensors", "s3gen.*", "s3gen_meanflow.*", "ve.*", "conds.*"),
        *("*.json", "*.txt"),
    ),
    recognised_by=("t3_*.safetensors", "s3gen*", "ve.*"),
)


BEGIN: Final = TOKENS
END: Final = TOKENS + 1
# What is ever drawn, or shown to the network; the English file's table has more.
IDS: Final = TOKENS + 2
SILENCE: Final = 4299
SPEAKER: Final = 256
QUERIES: Final = 32
HEAD_DIM: Final = 64
_ENGLISH_IDS: Final = 704

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class T3Sizes:
    """gpt: a GPT-2 (Turbo, Nano), else a Llama (English, multilingual). texts, speeches: positions
    that have a learned row, 0 without tables. wholes: the same of a GPT-2's one table.
    """

    gpt: bool
    dim: int
    layers: int
    hidden: int
    text_ids: int
    speech_ids: int
    texts: int = 0
    speeches: int = 0
    wholes: int = 0

    @property
    def heads(self) -> int:
        return self.dim // HEAD_DIM

    @property
    def multilingual(self) -> bool:
        """Its texts say their language. The English file knows fewer ids."""
        return not self.gpt and self.text_ids > _ENGLISH_IDS

    @property
    def branches(self) -> int:
        """Of a stream at the most: a GPT-2 is not guided."""
        return 1 if self.gpt else 2

    @property
    def begins(self) -> int:
        """Ids that speech begins with."""
        return 1 if self.gpt else 2

    @property
    def tail(self) -> int:
        """Tokens of silence behind each sentence."""
        return 3 if self.gpt else 0

    @property
    def heard(self) -> int:
        """Tokens of a recording that the prompt may hold."""
        return 375 if self.gpt else 150

    @property
    def heard_s(self) -> int:
        """Seconds that they are made of."""
        return 15 if self.gpt else 6

    @classmethod
    def of(cls, shapes: Shapes) -> Self:
        """Of a checkpoint's tensors; raises CheckpointError where they are no T3's."""
        try:
            return cls._of(shapes)
        except KeyError as error:
            raise CheckpointError(f"a T3 lacks {error.args[0]}") from error

    @classmethod
    def _of(cls, shapes: Shapes) -> Self:
        gpt = "tfmr.wpe.weight" in shapes
        layer = "tfmr.h." if gpt else "tfmr.layers."
        layers = {name.split(".")[2] for name in shapes if name.startswith(layer)}
        width = "mlp.c_fc.bias" if gpt else "mlp.gate_proj.weight"
        found = cls(
            gpt,
            dim=shapes["speech_emb.weight"][1],
            layers=len(layers),
            hidden=shapes[f"{layer}0.{width}"][0],
            text_ids=shapes["text_emb.weight"][0],
            speech_ids=shapes["speech_emb.weight"][0],
            texts=0 if gpt else shapes["text_pos_emb.emb.weight"][0],
            speeches=0 if gpt else shapes["speech_pos_emb.emb.weight"][0],
            wholes=shapes["tfmr.wpe.weight"][0] if gpt else 0,
        )
        if found.dim % HEAD_DIM or found.speech_ids < IDS:
            raise CheckpointError(f"a T3 of {found.dim} channels, {found.speech_ids} speech ids")
        return found


@dataclass(frozen=True)
class FolderSettings:
    """config.json, which published folders have none of. chunk_tokens: of a codec's grid; 0 where
    sentences are decoded whole.
    """

    chunk_tokens: int = 0

    @classmethod
    def of(cls, folder: Path) -> FolderSettings:
        """Raises CheckpointError."""
        path = folder / "config.json"
        return read_json(path, cls) if path.exists() else cls()

"""A request as CSM takes it, and its prompt: earlier turns and its own text. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from ttscommon.engine.checkpoint import checked_config, read_json
from ttscommon.engine.codec_sizes import MimiSizes
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.request import LayeredDrawing
from ttsfamilies.base.lm.turns import (
    DialoguePrepared,
    EncodedTurn,
    Laid,
    TurnsStream,
    joined,
)
from ttsfamilies.base.talker.streams import SlotWriter

BEGIN_TEXT: Final = 128_000
END_TEXT: Final = 128_001
# All codes but the last of a frame that ends the speech; of all its codes where a turn ends.
END_CODE: Final = 0


@dataclass(frozen=True)
class DepthSizes(LlamaSizes):
    """The depth transformer: a Llama over the codes of one frame."""

    num_codebooks: int = 32
    backbone_hidden_size: int = 2048


@dataclass(frozen=True)
class CsmConfig(LlamaSizes):
    """config.json. vocab_size: ids of a codebook, of which the last three are no codes."""

    num_codebooks: int = 32
    text_vocab_size: int = 128_256
    codebook_eos_token_id: int = END_CODE
    bos_token_id: int = BEGIN_TEXT
    tie_codebooks_embeddings: bool = True
    depth_decoder_config: DepthSizes = field(kw_only=True)
    codec_config: MimiSizes = field(kw_only=True)


@dataclass(frozen=True)
class CsmGeneration:
    """How ids are drawn where a request says nothing; a greedy choice counts as temperature 0."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    depth_decoder_do_sample: bool = True
    depth_decoder_temperature: float = 0.9
    depth_decoder_top_k: int = 50
    depth_decoder_top_p: float = 1.0


def load_config(folder: Path) -> CsmConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, CsmConfig, _problems)


def load_generation(folder: Path) -> CsmGeneration:
    """Read generation_config.json, if there is one; raises CheckpointError."""
    path = folder / "generation_config.json"
    return read_json(path, CsmGeneration) if path.exists() else CsmGeneration()


def _problems(c: CsmConfig) -> list[str]:
    depth, codec = c.depth_decoder_config, c.codec_config
    found = []
    for name, part in (("", c), ("depth_decoder_config: ", depth)):
        found += [f"{name}{wrong}" for wrong in part.problems()]
    found += [f"codec_config: {wrong}" for wrong in codec.problems()]
    if not c.tie_codebooks_embeddings:
        found.append("embeddings of the codebooks that are not tied are not served")
    if (c.codebook_eos_token_id, c.bos_token_id) != (END_CODE, BEGIN_TEXT):
        found.append("other control ids are not served")
    if c.text_vocab_size <= END_TEXT:
        found.append(f"a text vocabulary of {c.text_vocab_size} ids has none for a turn's end")
    if not (c.num_codebooks == depth.num_codebooks == codec.num_quantizers > 1):
        found.append("backbone, depth decoder and codec disagree on num_codebooks")
    if (depth.vocab_size, depth.backbone_hidden_size) != (c.vocab_size, c.hidden_size):
        found.append("backbone and depth decoder disagree on vocab_size or hidden_size")
    if c.vocab_size < codec.codebook_size:
        found.append(f"vocab_size {c.vocab_size} is less than the codec's codes")
    return found


def usual_drawing(d: CsmGeneration) -> LayeredDrawing:
    """The checkpoint's; `subtalker` is the depth transformer."""
    return LayeredDrawing(
        d.temperature * d.do_sample,
        d.top_k,
        d.top_p,
        d.depth_decoder_temperature * d.depth_decoder_do_sample,
        d.depth_decoder_top_k,
        d.depth_decoder_top_p,
    )


class CsmPrepared(DialoguePrepared):
    """See DialoguePrepared. The model often goes on in silence instead of ending."""

    usual = (10, 25)

    def laid_out(self, text: str) -> tuple[Laid, Laid]:
        own = EncodedTurn(self.request.speaker, text, None)
        return self._positions_of(self._turns), self._positions_of([own])

    def _positions_of(self, turns: Iterable[EncodedTurn]) -> Laid:
        """Each turn's text and then, if it sounded, its frames and the end of them."""
        end = np.full((1, self._codebooks), END_CODE, np.int64)
        parts = [self.said(())]
        for turn in turns:
            words = self._tokenizer.ids(f"[{turn.speaker}]{turn.text}")
            parts.append(self.said((BEGIN_TEXT, *words, END_TEXT)))
            if turn.codes is not None:
                parts.append(self.sounded(np.concatenate([turn.codes, end])))
        return joined(parts)


class CsmStream(TurnsStream):
    """See TalkerStream."""

    def begin(self, write: SlotWriter) -> None:
        write("codes", self.codes[-1] if self.frames else 0 * self.passage.codes[-1])
        write("frame", self.frames)
        super().begin(write)

"""CosyVoice's language model in the engine: a token a step.

A position's id is a text token; or, from `vocab_size` on, a row of the speech table; or, behind
that, one of the two rows that version 2 keeps apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.codes import decoder_config
from ttsfamilies.base.lm.llama import Qwen2Sizes
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.lm.request import Drawing, fields_of
from ttsfamilies.base.lm.stepped import BackboneNet, DrawnStep, SteppedModel
from ttsfamilies.base.runners.computation import Prompts, Rows, SlotTensors
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.s3.references import FlowReferences, silence
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.base.sampling import Settings, draw_unrepeated
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, stated
from ttsfamilies.base.talker.guard import RunawaySigns
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.streams import TalkerStream
from ttsfamilies.cosyvoice.facts import FAMILY
from ttsfamilies.cosyvoice.request import (
    BACKBONE,
    V2,
    V3,
    CosyPrepared,
    SpeechRows,
    Vocabulary,
    load_sizes,
    opening,
)
from ttsfamilies.cosyvoice.streams import TOKEN, WINDOW, InterleavedStream, PassagesStream

_OWN = ("llm.", "llm_embedding.", "speech_embedding.", "llm_decoder.")
_BACKBONE = "llm.model.model."
_UNUSED = "llm.model.lm_head."


class CosyNet(BackboneNet):
    """Ids to hidden states, and those to logits of the speech table's rows."""

    def __init__(self, sizes: Qwen2Sizes, rows: SpeechRows) -> None:
        super().__init__()
        self.sizes, self.rows = sizes, rows
        dim = sizes.hidden_size
        self.text = nn.Embedding(sizes.vocab_size, dim)
        self.speech = nn.Embedding(rows.count, dim)
        if rows.own_table:
            self.control = nn.Embedding(2, dim)
        self.backbone = Decoder(decoder_config(sizes))
        self.head = nn.Linear(dim, rows.count, bias=rows.own_table)

    @property
    def start(self) -> int:
        """The id of the first position."""
        return self.sizes.vocab_size + self.rows.start + self._apart

    @property
    def task(self) -> int:
        """The id behind all text."""
        return self.sizes.vocab_size + self.rows.task + self._apart

    @property
    def _apart(self) -> int:
        return self.rows.count if self.rows.own_table else 0

    def embed(self, ids: Tensor) -> Tensor:
        """Ids of positions [tokens] -> [tokens, dim]."""
        behind = ids - self.sizes.vocab_size
        found = torch.where(
            (behind < 0)[:, None],
            self.text(ids.clamp(max=self.sizes.vocab_size - 1)),
            self.speech(behind.clamp(0, self.rows.count - 1)),
        )
        if not self.rows.own_table:
            return found
        row = behind - self.rows.count
        return torch.where((row >= 0)[:, None], self.control(row.clamp(0, 1)), found)


def sources(net: CosyNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "text.weight": same(f"{_BACKBONE}embed_tokens.weight"),
        "speech.weight": same("speech_embedding.weight"),
        "head.weight": same("llm_decoder.weight"),
    }
    if net.rows.own_table:
        found["control.weight"] = same("llm_embedding.weight")
        found["head.bias"] = same("llm_decoder.bias")
    return found | decoder_sources(net.backbone.config, "backbone.", _BACKBONE)


def load_net(folder: Path, device: str, dtype: str) -> CosyNet:
    """The language model of a folder; raises CheckpointError."""
    sizes, shards = load_sizes(folder), Shards.of(folder)
    rows = V2 if "llm_embedding.weight" in shards.shapes else V3
    net = unfilled(CosyNet, sizes, rows).to(getattr(torch, dtype))
    others = (_UNUSED, *(name for name in shards.shapes if not name.startswith(_OWN)))
    return filled(net, sources(net), shards, others=others, device=device)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> CosyVoice:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    tokens = folder / f"speech_tokenizer_v{net.rows.version}.onnx"
    references = FlowReferences(
        load_published_tokens(tokens, how.where),
        load_published_speaker(folder / "campplus.onnx", how.where),
        net.rows.highest_hz,
    )
    return CosyVoice(name, net, Qwen2Tokenizer.load(folder / BACKBONE), references)


class CosyVoice(SteppedModel):
    """A loaded checkpoint."""

    signs = RunawaySigns(code="token")

    def __init__(
        self,
        name: str,
        net: CosyNet,
        tokenizer: Qwen2Tokenizer,
        references: FlowReferences,
    ) -> None:
        self.spec = spec_of(name, net)
        self.cache_dtype = net.text.weight.dtype
        self._net, self.recordings = net, references
        self._vocabulary = Vocabulary(
            tokenizer, net.sizes.vocab_size, net.start, net.task, net.rows.system
        )

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> CosyPrepared:
        return CosyPrepared(
            request,
            opening(request, derived.reference, self._vocabulary),
            self._vocabulary,
            positions=self.positions,
        )

    def open(self, prepared: CosyPrepared) -> TalkerStream:
        speech = self._vocabulary.speech
        if prepared.streamed:
            return InterleavedStream(prepared, speech, self._net.rows.fill)
        return PassagesStream(prepared, speech)

    def example_reference(self) -> Arrays | None:
        return silence(1)

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        x = self._net.embed(rows.inputs["id"])
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        x = self._net.speech(state["token"].index_select(0, rows.slots))
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        drawn, finite = self._drawn(hidden, old)
        ended = drawn >= TOKENS
        token = torch.where(ended, old["token"], drawn)
        moved = {
            "token": token,
            "draw": old["draw"] + 1,
            "early": old["early"] - 1,
            "recent": torch.cat((old["recent"][:, 1:], drawn[:, None]), 1),
        }
        return DrawnStep(moved, {"token": token.to(torch.int16)}, ~ended, ended, finite)

    def _drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Ids [rows], and whether each row's logits are finite."""
        logits = self._net.head(hidden)
        ids = torch.arange(logits.shape[1], device=logits.device)
        # The reference forbids this id in both versions, though the third ends with another.
        forbidden = (old["early"] > 0)[:, None] & (ids == TOKENS)
        noise = self.noise(old["seed"], old["draw"])
        return draw_unrepeated(logits, noise, Settings.of(old), old["recent"], forbidden)


def spec_of(name: str, net: CosyNet) -> ModelSpec:
    """What the engine has to know of a checkpoint. Its voices are recordings."""
    c = net.sizes
    return ModelSpec(
        **stated(FAMILY, name),
        voices=(),
        frame=TOKEN,
        replay=REPLAY,
        state={
            "recent": Field((WINDOW,), "i8"),
            **dict.fromkeys(("token", "draw", "early"), NUMBER),
            **fields_of(Drawing),
        },
        inputs={"id": NUMBER},
        caches={"backbone": c.cache},
        max_positions=c.max_position_embeddings,
    )

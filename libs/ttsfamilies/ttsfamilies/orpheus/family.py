"""Orpheus in the engine: an id a step, a frame every seven.

Each of a frame's seven slots has 4096 ids of its own, and the end of speech comes before a frame
only. A draw is among the ids of its slot, so that every frame can be decoded; where the model
would have drawn another, its audio would be damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Gender, Voice
from ttsfamilies.base.lm.depth import decoder_config
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel, ids_of
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.runners.computation import Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Rules, Settings, draw_ids, without_unlikely
from ttsfamilies.base.talker.base import (
    NUMBER,
    ModelSpec,
    Prepared,
    known_voice,
    not_cloning,
    stated,
)
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.orpheus.facts import FAMILY
from ttsfamilies.orpheus.request import (
    CHOICES,
    CODES,
    END_AUDIO,
    END_SPEECH,
    FIRST_AUDIO,
    MOST_POSITIONS,
    PARAMETERS,
    SLOTS,
    VOICES,
    LlamaConfig,
    OrpheusDrawing,
    OrpheusPrepared,
    OrpheusStream,
    load_config,
)


class OrpheusNet(nn.Module):
    """Ids to hidden states, and those to logits of the ids that may be spoken."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.backbone = Decoder(decoder_config(config))
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Ids [tokens] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(self.embedding(ids), positions, attend)
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, CHOICES], from END_SPEECH on."""
        head = self.embedding if self.config.tie_word_embeddings else self.head
        return nn.functional.linear(hidden, head.weight[END_SPEECH:END_AUDIO])


def sources(net: OrpheusNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {"embedding.weight": same("model.embed_tokens.weight")}
    if not net.config.tie_word_embeddings:
        found["head.weight"] = same("lm_head.weight")
    return found | decoder_sources(net.backbone.config, "backbone.", "model.")


def load_net(checkpoint: Path, device: str, dtype: str) -> OrpheusNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    net = unfilled(OrpheusNet, config).to(getattr(torch, dtype))
    # Some files repeat the embedding as the head that is tied to it.
    others = ("lm_head.",) if config.tie_word_embeddings else ()
    return filled(net, sources(net), Shards.of(checkpoint), others=others, device=device)


# The published speakers', as listeners hear them.
_GENDERS: Final[Mapping[str, Gender]] = {
    **dict.fromkeys(("tara", "leah", "jess", "mia", "zoe"), "female"),
    **dict.fromkeys(("leo", "dan", "zac"), "male"),
}


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Orpheus:
    """A checkpoint's folder; raises CheckpointError."""
    return Orpheus(name, load_net(folder, how.where, how.dtype), TextTokenizer.load(folder))


class Orpheus(SteppedModel):
    """A loaded checkpoint."""

    def __init__(
        self,
        name: str,
        net: OrpheusNet,
        tokenizer: TextTokenizer,
        voices: Sequence[str] = VOICES,
        most_tokens: int = MOST_POSITIONS,
    ) -> None:
        """most_tokens: of a request's speech, where it does not ask for fewer."""
        self.spec = spec_of(name, net.config, voices)
        self.cache_dtype = net.embedding.weight.dtype
        self._net, self._tokenizer, self._voices = net, tokenizer, voices
        self._most = most_tokens
        device = net.embedding.weight.device
        self._codes = torch.arange(CODES, device=device)
        self._slots = torch.arange(SLOTS, device=device)
        self._never = torch.zeros(CODES + 1, dtype=torch.bool, device=device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> OrpheusPrepared:
        known_voice(request.voice, self._voices)
        not_cloning(request)
        return OrpheusPrepared(request, self._tokenizer, self.spec.max_positions, self._most)

    def open(self, prepared: Prepared) -> OrpheusStream:
        assert isinstance(prepared, OrpheusPrepared)
        return OrpheusStream(prepared)

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self._net.hidden(ids_of(rows, state), rows.positions, attend["backbone"])

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        ids = state["drawn"].index_select(0, rows.slots)
        return self._net.hidden(ids, rows.positions, attend["backbone"])

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        slot = old["step"] % SLOTS
        columns = self._columns(slot)
        seen = old["seen"].gather(1, columns)
        chosen, finite = self._chosen(self._net.logits(hidden), columns, seen, slot, old)
        ended = chosen == CODES
        told, choice = ~ended, columns.gather(1, chosen[:, None])
        codes = torch.where(self._slots == slot[:, None], chosen[:, None], old["codes"])
        moved = {
            "step": old["step"] + told,
            "drawn": torch.where(told, choice[:, 0] + END_SPEECH, old["drawn"]),
            "codes": torch.where(told[:, None], codes, old["codes"]),
            "seen": torch.where(told[:, None], old["seen"].scatter(1, choice, 1), old["seen"]),
        }
        gained = told & (slot == SLOTS - 1)
        return DrawnStep(moved, {"codes": codes.to(torch.int16)}, gained, ended, finite)

    def _columns(self, slot: Tensor) -> Tensor:
        """[rows] -> [rows, CODES + 1]: where the slot's codes and then the end are in CHOICES."""
        codes = (FIRST_AUDIO - END_SPEECH) + slot[:, None] * CODES + self._codes
        return torch.cat((codes, torch.zeros_like(slot)[:, None]), 1)

    def _chosen(
        self, logits: Tensor, columns: Tensor, seen: Tensor, slot: Tensor, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Columns [rows], and whether each row's logits are finite."""
        # The penalty covers the prompt's ids too, as in the reference; none of them can be drawn.
        rules = Rules(seen.bool(), old["penalty"], (slot == 0).long(), self._never, CODES, 1)
        settings, noise = Settings.of(old), self.noise(old["seed"], old["step"])
        found = without_unlikely(logits.gather(1, columns), settings, rules, old["min_p"])
        return draw_ids(found, noise, 0, settings, rules)


def spec_of(name: str, c: LlamaConfig, voices: Sequence[str]) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    return ModelSpec(
        **stated(FAMILY, name),
        voices=tuple(Voice(id, id.title(), "en", _GENDERS.get(id)) for id in voices),
        frame=OrpheusStream.frame,
        replay=REPLAY,
        parameters=PARAMETERS,
        state={
            "codes": Field((SLOTS,), "i8"),
            "seen": Field((CHOICES,), "u1"),
            **dict.fromkeys(("step", "drawn"), NUMBER),
            **fields_of(OrpheusDrawing),
        },
        inputs={"id": NUMBER},
        caches={"backbone": c.cache},
        max_positions=c.positions,
    )

"""Steps that move a row's state on: what a family draws of a backbone's states, and what follows.

A family says how one row goes on, `drawn`, as if it were computed alone. Here stands what
holds for all of them: rows of padding, rows that are over and prompts that go on in a later launch
stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig
from ttscommon.engine.nn.weights import Source, decoder_sources, named
from ttsfamilies.base.lm.codes import decoder_config, text_or_frames
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.runners.computation import (
    Attend,
    Out,
    Prompts,
    Rows,
    SlotTensors,
    TwoPartComputation,
)
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.lmstream import DRAWN


class DrawnStep(NamedTuple):
    """How rows go on that sample and are not over; of others it is left out.

    moved: new values of the state by name, [rows, ...]; `over` follows from `ended`. frames: [rows,
    ...] by name. gained, ended, finite: of each row whether it gained its frame, ended its
    sequence, and had finite logits, [rows] bool each.
    """

    moved: Mapping[str, Tensor]
    frames: Mapping[str, Tensor]
    gained: Tensor
    ended: Tensor
    finite: Tensor


class SteppedModel(TalkerModel):
    """A frame a step, or a part of one, drawn of a backbone's states; the state has `over`.

    apart: fields of the state that `drawn` is not given, such as those of prompts. last_alone:
    `prompted` gives the states of the rows' last tokens, [rows, dim].
    """

    fixed_prompts = True
    apart: tuple[str, ...] = ()
    last_alone: bool = False

    @abstractmethod
    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        """States of a prompt's tokens, [tokens, dim]."""

    @abstractmethod
    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        """States of a step's tokens, [tokens, dim]."""

    @abstractmethod
    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        """hidden: [rows, dim]; with branches [2 * rows, dim], those of second branches last. old:
        the rows' state, padding among them.
        """

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.prompted(rows, state, attend)
        last = slice(len(rows.last)) if self.last_alone else rows.last
        return self._gone_on(hidden, last, rows, state, rows.samples)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.stepped(rows, state, attend)
        every = torch.ones_like(rows.slots, dtype=torch.bool)
        return self._gone_on(hidden, slice(len(every)), rows, state, every)

    def _gone_on(
        self, hidden: Tensor, last: Tensor | slice, rows: Rows, state: SlotTensors, samples: Tensor
    ) -> Out:
        at = hidden[last]
        if rows.branches is not None:
            at = torch.cat((at, hidden[rows.branches.second]))
        old = before(state, rows.slots, self.apart)
        drawn = self.drawn(at, old, rows, state)
        return gone_on(drawn, old, rows.slots, rows.real, state, samples)


def before(state: SlotTensors, slots: Tensor, apart: Collection[str] = ()) -> dict[str, Tensor]:
    """What the slots hold, [rows, ...] by name, but for what is read apart."""
    return {n: each.index_select(0, slots) for n, each in state.items() if n not in apart}


def gone_on(
    drawn: DrawnStep,
    old: Mapping[str, Tensor],
    slots: Tensor,
    real: int,
    state: SlotTensors,
    samples: Tensor,
) -> Out:
    """Move the state on by what was drawn for all rows, and give the frames.

    Products take the padding along, for the sake of exactness; state and frames leave it out.
    """
    kept, active = slice(real), samples & (old["over"] == 0)
    gained, ended = active & drawn.gained, active & drawn.ended
    for name, value in {**drawn.moved, "over": old["over"] + drawn.ended}.items():
        stays = active.view(-1, *[1] * (value.ndim - 1))
        state[name].index_copy_(0, slots[kept], torch.where(stays, value, old[name])[kept])
    frames = {name: frame[kept, None] for name, frame in drawn.frames.items()}
    bad = samples & ~drawn.finite
    return Out(frames, gained.long()[kept], ended[kept], bad[kept])


def ids_of(rows: Prompts, state: SlotTensors) -> Tensor:
    """The inputs' ids of all tokens: rows that decode are told theirs, DRAWN, by the slot."""
    ids, drawn = rows.inputs["id"], state["drawn"]
    if rows.branches is not None:
        return torch.where(ids == DRAWN, drawn.index_select(0, rows.branches.owners), ids)
    # Rows of padding may share a token with a real one.
    last = rows.last[: rows.real]
    told = drawn.index_select(0, rows.slots[: rows.real])
    return ids.index_copy(0, last, torch.where(ids[last] == DRAWN, told, ids[last]))


class CodesBackbone(Protocol):
    """Text ids and codes to states."""

    text: nn.Embedding

    def embed_frames(self, codes: Tensor) -> Tensor: ...
    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor: ...


class CodesModel(TalkerModel, TwoPartComputation):
    """A family whose frame is its codes: a backbone reads prompts and frames, and `drawn` makes the
    frame of what it leaves of each row. Positions hold `text` and `codes`, the state the `codes` of
    each row's last frame, their number `frame` and whether it is `over`; there is one cache.
    """

    fixed_prompts = True

    @abstractmethod
    def drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """[rows, dim] -> codes [rows, codebooks], and whether they end the speech and are finite,
        [rows] bool each. old: the state.
        """

    def remembered(
        self, old: Mapping[str, Tensor], codes: Tensor, gained: Tensor
    ) -> dict[str, Tensor]:
        """More of the state behind frames, of those rows that `gained` one."""
        return {}

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        old = before(state, slots)
        codes, ended, finite = self.drawn(hidden["hidden"], old)
        gained = ~ended
        moved = {
            "codes": torch.where(gained[:, None], codes, old["codes"]),
            "frame": old["frame"] + gained,
            **self.remembered(old, codes, gained),
        }
        found = DrawnStep(moved, {"codes": codes.to(torch.int16)}, gained, ended, finite)
        return gone_on(found, old, slots, real, state, hidden["samples"])

    def read_by(self, backbone: CodesBackbone, dim: int, dtype: torch.dtype) -> None:
        """To be called before anything is computed."""
        self._backbone, self.cache_dtype = backbone, dtype
        self.hidden = {"hidden": ((dim,), dtype), "samples": ((), torch.bool)}

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        (cache,) = attend.values()
        backbone, told = self._backbone, rows.inputs
        x = text_or_frames(told["text"], told["codes"], backbone.text, backbone.embed_frames)
        hidden = backbone.hidden(x, rows.positions, cache)
        return {"hidden": hidden[rows.last], "samples": rows.samples}

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        (cache,) = attend.values()
        x = self._backbone.embed_frames(state["codes"][rows.slots])
        hidden = self._backbone.hidden(x, rows.positions, cache)
        return {"hidden": hidden, "samples": torch.ones_like(rows.slots, dtype=torch.bool)}


# Language models: a network of embeddings, a stack of blocks and a head, and an id a step.


class BackboneNet(nn.Module):
    """Families say what inputs are made of, and what of states."""

    backbone: Decoder

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """States [tokens, dim] of inputs [tokens, dim] at positions [tokens]."""
        return self.backbone(x, positions, attend)


class LanguageNet(BackboneNet):
    """Ids to states, and those to logits of all ids. tied: by their embeddings."""

    def __init__(self, ids: int, stack: DecoderConfig, *, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, stack.dim)
        self.backbone = Decoder(stack)
        self.head = None if tied else nn.Linear(stack.dim, ids, bias=False)

    def logits(self, hidden: Tensor, ids: slice = slice(None)) -> Tensor:
        """[rows, dim] -> [rows, ids], of all of them or of some."""
        head = self.embedding if self.head is None else self.head
        return nn.functional.linear(hidden, head.weight[ids])


class LlamaNet(LanguageNet):
    """Of these sizes."""

    def __init__(self, config: LlamaSizes) -> None:
        tied = config.tie_word_embeddings
        super().__init__(config.vocab_size, decoder_config(config), tied=tied)
        self.config = config


def sources(net: LlamaNet) -> dict[str, Source]:
    """Every parameter's published tensors, as transformers calls them."""
    found = named(net, {"embedding": "model.embed_tokens", "head": "lm_head"})
    return found | decoder_sources(net.backbone.config, "backbone.", "model.")


class LanguageModel(SteppedModel):
    """A position is an id, `id`, and the state has that of each row's last step, `drawn`.

    Subclasses set `_net`.
    """

    _net: LanguageNet

    def hidden(self, ids: Tensor, rows: Rows, attend: Mapping[str, Attend]) -> Tensor:
        """[tokens] int64, DRAWN nowhere -> [tokens, dim]; more of a prompt is in its inputs."""
        return self._net.hidden(self._net.embedding(ids), rows.positions, attend["backbone"])

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self.hidden(ids_of(rows, state), rows, attend)

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self.hidden(state["drawn"].index_select(0, rows.slots), rows, attend)

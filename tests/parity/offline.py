"""An independent loop around our networks: plain dense attention, one stream, no engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tests.parity.cases import Case
from tests.parity.material import CODEBOOKS, frames, gumbel
from ttscommon.engine.nn import dense_attention
from ttscommon.wire.fields import Arrays, rows
from ttsfamilies.base.lm.codes import CodeDraw
from ttsfamilies.base.sampling import Rules
from ttsfamilies.base.sampling.rules import keep_mass, keep_top
from ttsfamilies.qwen3_tts.config import GenerationConfig, load_generation_config
from ttsfamilies.qwen3_tts.net import TalkerNet, choose_codes, embed_positions, load_talker
from ttsfamilies.qwen3_tts.prompt import (
    InContext,
    PromptLayout,
    PromptRequest,
    TurnTokenizer,
    layout,
    prompt,
)
from ttsfamilies.qwen3_tts.stream import Prohibitions

Codes = npt.NDArray[np.int16]


@dataclass
class Loaded:
    """A checkpoint, as a service would hold it."""

    net: TalkerNet
    tokenizer: TurnTokenizer
    defaults: GenerationConfig
    never: Prohibitions

    @classmethod
    def of(cls, folder: Path) -> Loaded:
        net = load_talker(folder)
        never = Prohibitions.of(net.config.talker_config)
        return cls(net, TurnTokenizer.load(folder), load_generation_config(folder), never)


@cache
def loaded(folder: Path) -> Loaded:
    """Loaded once in a test run."""
    return Loaded.of(folder)


@dataclass
class DenseCache:
    """Keys and values of one stream, one tensor a layer, and attention over all of them."""

    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[tokens, heads, head_dim], as the engine's caches do it."""
        if layer in self.keys:
            k = torch.cat((self.keys[layer], k))
            v = torch.cat((self.values[layer], v))
        self.keys[layer], self.values[layer] = k, v
        start = len(k) - len(q)
        visible = torch.arange(len(k)) <= start + torch.arange(len(q))[:, None]
        return dense_attention(q, k, v, visible)


@dataclass
class Stream:
    """One request, decoded step by step."""

    model: Loaded
    request: PromptRequest
    pick: CodeDraw
    penalty: float
    speaker: Tensor | None = None
    cache: DenseCache = field(default_factory=DenseCache)
    made: list[npt.NDArray[np.int64]] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)

    def prefill(self) -> None:
        """The first frame, from the whole prompt."""
        net = self.model.net
        parts = layout(net.config, self.request)
        assert parts is not None
        self.parts: PromptLayout = parts
        where = prompt(net.config, self.request, parts)
        self.position = rows(where)
        self._make(self._states(where, 0))

    def _states(self, where: Arrays, start: int) -> Tensor:
        net = self.model.net
        speaker = torch.zeros(net.codec.embedding_dim) if self.speaker is None else self.speaker
        x = embed_positions(
            net,
            torch.from_numpy(where["text"]).long(),
            torch.from_numpy(where["heard"]).long(),
            torch.from_numpy(where["codes"]).long(),
            speaker.expand(rows(where), -1),
        )
        positions = start + torch.arange(rows(where))
        return net.hidden(x, positions, self.cache.attend)[-1:]

    def step(self) -> None:
        """The frame behind those made."""
        net, number = self.model.net, len(self.made) - 1
        text = self.parts.step(number, net.config.tts_pad_token_id)
        assert text is not None
        heard = net.embed_frame(torch.from_numpy(self.made[-1])[None])
        x = net.step_input(heard, torch.tensor([text]))
        hidden = net.hidden(x, torch.tensor([self.position]), self.cache.attend)
        self.position += 1
        self._make(hidden)

    def _make(self, hidden: Tensor) -> None:
        seen = torch.zeros(1, self.model.net.config.talker_config.vocab_size, dtype=torch.bool)
        seen[0, [codes[0] for codes in self.made]] = True
        told = seen, torch.tensor([len(self.made)]), torch.tensor([self.penalty])
        never = self.model.never
        logits, codes = choose_codes(self.model.net, never, hidden, *told, self.pick)
        assert bool(logits.isfinite().all())
        self.ended = int(codes[0, 0]) == never.eos
        if not self.ended:
            self.made.append(codes[0].numpy())
            self.hidden.append(hidden[0])

    def run(self, most: int) -> Codes:
        """All frames up to the end, `most` of them at most: [frames, codebooks]."""
        with torch.inference_mode():
            self.prefill()
            while not self.ended and len(self.made) < most:
                self.step()
        return np.array(self.made, np.int16).reshape(-1, CODEBOOKS)


def greedy(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
    """The likeliest id."""
    del codebook
    return (logits if rules is None else rules.applied(logits)).argmax(-1)


def keyed(case: Case, settings: dict[str, Any], frame: Callable[[], int]) -> CodeDraw:
    """Sampling with the goldens' noise; `frame` says which frame is being made."""

    def pick(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        part = "" if codebook == 0 else "subtalker_"
        logits = logits if rules is None else rules.applied(logits)
        if not settings["do_sample" if codebook == 0 else "subtalker_dosample"]:
            return logits.argmax(-1)
        kept = keep_top(
            logits / settings[f"{part}temperature"], torch.tensor([settings[f"{part}top_k"]])
        )
        kept = keep_mass(kept, torch.ones(1), torch.tensor([settings[f"{part}top_p"]]))
        noise = torch.from_numpy(gumbel(case.seed, frame(), codebook, kept.shape[1]))
        return (kept.log_softmax(-1) + noise).argmax(-1)

    return pick


def open_stream(model: Loaded, case: Case, index: int = 0) -> Stream:
    """What a case asks for, in our terms."""
    settings = vars(model.defaults) | case.options
    stream = Stream(model, request_of(model, case, index), greedy, settings["repetition_penalty"])
    stream.pick = keyed(case, settings, lambda: len(stream.made))
    if case.clone:
        stream.speaker = torch.from_numpy(embedding(model.net.codec.embedding_dim))
    return stream


def embedding(dim: int) -> npt.NDArray[np.float32]:
    """The goldens' drawn speaker embedding."""
    return np.random.Generator(np.random.PCG64(7)).standard_normal(dim).astype(np.float32)


def request_of(model: Loaded, case: Case, index: int) -> PromptRequest:
    """The prompt of one of a case's texts."""
    tokenizer, config = model.tokenizer, model.net.config
    text = tokenizer.spoken()
    text.feed(case.texts[index], final=True)
    told = case.instructions[index] if case.instructions else ""
    reference = None
    if case.clone == "in-context":
        codes = frames(case.reference_frames, 5).astype(np.int16)
        reference = InContext(tokenizer.transcript(case.reference_text), codes)
    return PromptRequest(
        role=text.role,
        text=text.tokens,
        complete=True,
        streaming=case.streaming,
        language=case.languages[index],
        speaker=case.speakers[index] if case.speakers else None,
        instruction=tuple(tokenizer.turn("user", told))
        if told and config.takes_instructions
        else (),
        cloned=case.clone is not None,
        reference=reference,
    )

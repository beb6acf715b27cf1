"""The cantor family: phones as a prefix, a monotonic pointer, codebook 0 in the recurrence.

Text becomes utterances (a clause or sentence each), an utterance becomes phones, and each
utterance is a sequence of its own in the cache: speaker, phones, then one position a frame.
Residual codebooks are chosen when a chunk is rendered, for all frames of all streams at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor

from talker.engine.padding import padded
from talker.kernels.sampling import Noise, draw_ids
from talker.models.base import (
    Attend,
    CacheSpec,
    ModelSpec,
    Out,
    Prepared,
    Prompts,
    Rows,
    State,
    TalkerModel,
)
from talker.models.cantor_net import CONTEXT, CantorConfig, CantorNet
from talker.models.cantor_stream import (
    FRAME,
    PHONE,
    SPEAKER,
    CantorPrepared,
    CantorStream,
    SamplingDefaults,
)
from talker.text.frontend import EnglishFrontend, Given, Utterance
from ttscommon.errors import UnknownVoice
from ttscommon.fields import Arrays, Field
from ttscommon.messages import SpeechRequest
from ttscommon.replicas import Voice
from ttscommon.voice import VoiceFolder

_ADVANCE_DRAW: Final = -1
_REMEMBERED_UTTERANCES: Final = 4096
_EXAMPLES: Final = ("Nobody hears this first sentence, and that is its use.", "Nor this.")
_NUMBER: Final = Field((), "i8")


class Frontend(Protocol):
    """Turns an utterance's text into phones; raises NothingToSay."""

    def phones(self, utterance: str, given: Sequence[Given] = ()) -> Utterance: ...


class Cantor(TalkerModel):
    """A loaded cantor voice."""

    def __init__(
        self,
        spec: ModelSpec,
        net: CantorNet,
        frontend: Frontend,
        defaults: SamplingDefaults,
    ) -> None:
        self.spec = spec
        self._net = net.eval()
        self._defaults = defaults
        self._speakers = {voice.id: index for index, voice in enumerate(spec.voices)}
        self._phones = lru_cache(_REMEMBERED_UTTERANCES)(frontend.phones)

    @classmethod
    def load(cls, name: str, voice: VoiceFolder, device: str = "cpu") -> Cantor:
        """Read a checked voice folder's weights and lexicon."""
        net = CantorNet(CantorConfig(**voice.config["talker"]))
        weights = load_file(voice.talker_weights)
        net.load_state_dict({n: w.float() for n, w in weights.items()})
        spec = spec_of(net, name, voice.voices, voice.sample_rate, voice.frame_rate_hz)
        defaults = SamplingDefaults(**voice.config["sampling"])
        return cls(spec, net.to(device), EnglishFrontend.load(voice.path), defaults)

    def prepare(self, request: SpeechRequest, reference: Arrays | None = None) -> CantorPrepared:
        del reference  # voices are part of the model
        speaker = self._speakers.get(request.voice)
        if speaker is None:
            known = ", ".join(self._speakers)
            raise UnknownVoice(f"no voice {request.voice!r}; there are {known}", param="voice")
        return CantorPrepared(request, speaker, self._phones, self.spec.frame_rate_hz)

    def open(self, prepared: Prepared) -> CantorStream:
        assert isinstance(prepared, CantorPrepared)
        bos = self._net.config.bos
        return CantorStream(prepared, self._defaults, bos, self.spec.frame_rate_hz)

    def examples(self) -> Sequence[str]:
        return _EXAMPLES

    def prefill(self, rows: Prompts, state: State, attend: Mapping[str, Attend]) -> Out:
        x = self._embed(rows.inputs)
        hidden = self._net.backbone(x, rows.positions, attend["backbone"])
        return self._draw_frame(hidden[rows.last], rows, state, rows.samples)

    def decode(self, rows: Rows, state: State, attend: Mapping[str, Attend]) -> Out:
        slots = rows.slots
        around = state["pointer"].index_select(0, slots)[:, None] + torch.arange(
            CONTEXT, device=slots.device
        )
        x = self._net.embed_frame(
            state["code"].index_select(0, slots),
            state["symbols"][slots[:, None], around],
            state["flags"][slots[:, None], around],
            state["held"].index_select(0, slots),
            state["speaker"].index_select(0, slots),
        )
        hidden = self._net.backbone(x, rows.positions, attend["backbone"])
        return self._draw_frame(hidden, rows, state, torch.ones_like(slots, dtype=torch.bool))

    def render(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Codebooks 1.. of all frames at once: codes [frames, codebooks], advance [frames]."""
        count = len(raw["code"])
        device = raw["code"].device
        temperature = torch.full((count,), self._defaults.residual_temperature, device=device)
        top_k = torch.full((count,), self._defaults.top_k, device=device)
        noise = Noise(raw["seed"], raw["frame"])

        def pick(logits: Tensor, codebook: int) -> Tensor:
            return draw_ids(logits, noise, codebook, temperature=temperature, top_k=top_k)[0]

        residual = self._net.residuals(raw["hidden"], raw["advance"], raw["code"], pick)
        codes = torch.cat([raw["code"][:, None], residual], 1)
        return {"codes": codes.to(torch.int16), "advance": raw["advance"].to(torch.uint8)}

    def _embed(self, told: Mapping[str, Tensor]) -> Tensor:
        """Embeddings of prompts' positions, [tokens, dim]."""
        kind = told["kind"]
        x = torch.zeros(len(kind), self._net.config.dim, device=kind.device)
        speakers, phones, frames = (
            (kind == one).nonzero()[:, 0] for one in (SPEAKER, PHONE, FRAME)
        )
        symbols, flags = told["symbols"], told["flags"]
        x[speakers] = self._net.speaker(told["speaker"][speakers])
        x[phones] = self._net.embed_phones(symbols[phones, 0], flags[phones, 0])
        x[frames] = self._net.embed_frame(
            told["code"][frames],
            symbols[frames],
            flags[frames],
            told["held"][frames],
            told["speaker"][frames],
        )
        return x

    def _draw_frame(self, hidden: Tensor, rows: Rows, state: State, samples: Tensor) -> Out:
        """Choose advance and codebook 0 of each row, and move the rows' state on.

        Products take the padding along, for the sake of exactness; everything else leaves it out.
        """
        real, slots = rows.real, rows.slots[: rows.real]
        old = {name: state[name].index_select(0, slots) for name in _MOVING}
        noise = Noise(old["seed"], old["frame"])
        advance_logits = self._net.advance_logits(hidden)[:real]
        finite = advance_logits.isfinite().all(-1)
        advance = self._draw_advance(advance_logits, old, noise)
        code_logits = self._net.code0_logits(hidden, padded(advance, len(hidden)))[:real]
        code, finite_code = draw_ids(
            code_logits, noise, 0, temperature=old["temperature"], top_k=old["top_k"]
        )
        gained = samples[:real] & (old["pointer"] < old["phones"])
        new = {
            "code": code,
            "pointer": torch.minimum(old["pointer"] + advance, old["phones"]),
            "held": torch.where(advance > 0, 0, old["held"] + 1),
            "frame": old["frame"] + 1,
        }
        for name, value in new.items():
            state[name].index_copy_(0, slots, torch.where(gained, value, old[name]))
        frames = {
            "code": code[:, None],
            "advance": advance[:, None],
            "hidden": hidden[:real, None],
        }
        ended = gained & (new["pointer"] >= old["phones"])
        return Out(frames, gained.long(), ended, samples[:real] & ~(finite & finite_code))

    def _draw_advance(self, logits: Tensor, old: Mapping[str, Tensor], noise: Noise) -> Tensor:
        """How far each row's pointer moves; a phone lasts `least` to `most` frames."""
        lasted = old["held"] + 1
        logits[:, 0].masked_fill_(lasted >= old["most"], float("-inf"))
        logits[:, 1:].masked_fill_((lasted < old["least"])[:, None], float("-inf"))
        return draw_ids(logits, noise, _ADVANCE_DRAW, temperature=old["advance_temperature"])[0]


_MOVING: Final = (
    *("code", "pointer", "held", "frame", "phones", "seed"),
    *("least", "most", "temperature", "advance_temperature", "top_k"),
)


def spec_of(
    net: CantorNet, name: str, voices: tuple[Voice, ...], sample_rate: int, frame_rate_hz: float
) -> ModelSpec:
    """What the engine has to know of a cantor net."""
    c = net.config
    context = Field((CONTEXT,), "i8")
    phones = Field((c.positions + CONTEXT,), "i8")
    moving = dict.fromkeys(_MOVING, _NUMBER)
    temperatures = dict.fromkeys(("temperature", "advance_temperature"), Field((), "f4"))
    told = dict.fromkeys(("kind", "code", "held", "speaker"), _NUMBER)
    return ModelSpec(
        name=name,
        family="cantor",
        sample_rate=sample_rate,
        frame_rate_hz=frame_rate_hz,
        voices=voices,
        frame={"codes": Field((c.codebooks,), "i2", c.codebook_size)},
        replay={"advance": Field((), "u1", c.advances)},
        raw={"code": _NUMBER, "advance": _NUMBER, "hidden": Field((c.dim,), "f4")},
        state={**moving, **temperatures, "speaker": _NUMBER, "symbols": phones, "flags": phones},
        inputs={**told, "symbols": context, "flags": context},
        caches={"backbone": CacheSpec(c.layers, c.heads, c.heads, c.head_dim)},
        max_positions=c.positions,
        accepts=frozenset({"temperature", "top_k"}),
    )

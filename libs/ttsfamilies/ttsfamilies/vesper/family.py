"""The vesper family: encoders read an utterance whole, a pointer walks it, pitch goes back in.

Text becomes utterances (a clause or sentence each) and an utterance becomes tokens, which the
encoders read at once, outside the engine. Each utterance is a sequence of its own in the cache:
one position that says the pace, then one a frame. Energy is chosen and text is quantised when a
chunk is rendered, for all frames of all streams at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor

from ttscommon.engine.nn import halve
from ttscommon.engine.voice import load_voice
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import NOTHING, Array, Derived, Field
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.kv import AttendsByQuery
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, Prepared, known_voice, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.guard import RunawaySigns, Stall
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.text.frontend import EnglishFrontend, Substitution, Utterance
from ttsfamilies.base.text.misaki import SILENCE, SYMBOLS, TOKENS, Tokens, in_parts, tokens_of
from ttsfamilies.base.text.reader import utterances_of
from ttsfamilies.base.text.rules import british
from ttsfamilies.vesper.facts import FAMILY
from ttsfamilies.vesper.frame import MOVING, FrameChoice
from ttsfamilies.vesper.net import MOVES, VesperConfig, VesperNet, round_steps, token_contexts
from ttsfamilies.vesper.stream import (
    UNITS_PER_FRAME,
    Conditioning,
    VesperPrepared,
    VesperSampling,
    VesperStream,
)
from ttsfamilies.vesper.text import TextCodes, VesperTextEncoder

if TYPE_CHECKING:
    from ttsfamilies.vesper.drafts import Drafts
    from ttsfamilies.vesper.render_numba import CompiledRender

MOST_TOKENS: Final = 384
"""Of an utterance; a longer one is spoken in parts. Fewer than the talker was trained on."""
CODEBOOKS: Final = 4
WIDTH: Final = 4
"""Frames that a step may try: the drafter is trained for one more."""
ROUNDS: Final = 8
LAG_FRAMES: Final = 3
"""The decoder holds so many back."""
CHUNKS: Final = ChunkSeconds(initial_s=0.35, busy_growth=10.0)
"""Four frames more than it holds back: one would give 50 ms of sound, of which up to 35 are silence
in front, which listeners are not sent, and the second chunk has to be made in what is left. With
company it may take longer than that, though steps need little of the engine's time.
"""
SIGNS: Final = RunawaySigns(Stall(seconds=6.0, tokens=6), repeat_s=0.0)
"""The pointer tells more than codes do: a long breath has the same ones, again and again. Greedily
it holds a token for as long as it may now and then, or three: see docs/decisions/runaways.md.
"""
_ENERGY_DRAW: Final = 1
_REMEMBERED_UTTERANCES: Final = 4096
_REMEMBERED_PACES: Final = 64
_SILENCE: Final = Tokens((SILENCE,), ())


class Frontend(Protocol):
    """Turns an utterance's text into phones; raises NothingToSay."""

    def phones(
        self, utterance: str, given: Sequence[Substitution] = (), british: bool = False
    ) -> Utterance: ...


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Vesper:
    """A voice's folder: its weights and lexicon; raises VoiceError."""
    voice = load_voice(folder)
    net = VesperNet(VesperConfig(**voice.config["talker"]))
    weights = load_file(voice.talker_weights)
    net.load_state_dict({n: w.float() for n, w in weights.items()})
    round_steps(net)
    moved = None if how.device is None else copy.deepcopy(net).to(how.where)
    halve(net)
    speeds = tuple(voice.config["speeds"])
    spec = spec_of(net, name, voice.voices, voice.sample_rate, voice.frame_rate_hz, speeds)
    paces = {name: preset["pace"] for name, preset in voice.config["presets"].items()}
    sampling, silence = VesperSampling(**voice.config["sampling"]), voice.config["silence"]
    frontend = EnglishFrontend.load(voice.path)
    return Vesper(spec, moved or net, frontend, sampling, paces, silence, net)


class Vesper(TalkerModel):
    """A loaded vesper voice. paces: of each of its presets, 1 is the speaker's own.

    silence: [4] the codes of a silent frame. reading: a copy of the net on the CPU that reads
    utterances, where the net itself is on a device; its work there would disturb the engine's.
    """

    pauses = True
    signs = SIGNS

    def __init__(
        self,
        spec: ModelSpec,
        net: VesperNet,
        frontend: Frontend,
        sampling: VesperSampling,
        paces: Mapping[str, float],
        silence: Sequence[int],
        reading: VesperNet | None = None,
    ) -> None:
        self.spec = spec
        self._net = net.eval()
        self._reading = (reading or net).eval()
        self._prosody = _on_a_processor(self._reading.prosody)
        self._texts = _on_a_processor(self._reading.text)
        self._contexts = _contexts_of(self._reading)
        self._beside = ThreadPoolExecutor(1, "vesper-text")
        self._frame = FrameChoice(net, spec.max_positions)
        self._text_codes = TextCodes(net.text_table)
        self._sampling = sampling
        self._paces = paces
        self._silence = torch.tensor(silence, device=net.begin.device)
        # Of a processor:
        self._drafts: Drafts | None = None
        self._codes: CompiledRender | None = None
        if net.text_table.device.type == "cpu" and halve(net):
            from ttsfamilies.vesper.drafts import Drafts
            from ttsfamilies.vesper.render_numba import CompiledRender
            from ttsfamilies.vesper.weights import rendering_of

            halve(self._text_codes)
            self._drafts = Drafts(net, spec.max_positions)
            self._codes = CompiledRender(
                rendering_of(net, self._text_codes, self._silence),
                *(_ENERGY_DRAW, sampling.energy_temperature, sampling.top_k, net.energy.norm.eps),
            )
        else:
            self.spec = replace(spec, width=1, rounds=1)
        self._phones = lru_cache(_REMEMBERED_UTTERANCES)(frontend.phones)
        self._paced = lru_cache(_REMEMBERED_PACES)(self._embed_pace)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> VesperPrepared:
        known_voice(request.voice, self._paces)
        pace = self._paces[request.voice] * request.speed
        phones = self._reading_of(request.language)
        return VesperPrepared(request, pace, phones, self._tell, self.spec.frame_rate_hz)

    def _reading_of(self, language: str) -> Callable[..., Utterance]:
        return partial(self._phones, british=True) if british(language) else self._phones

    def phones(self, text: str, language: str) -> PhonesFound:
        """See Family."""
        if not any(voice.speaks(language) for voice in self.spec.voices):
            raise BadRequest(f"this model does not read {language!r}", param="language")
        read = [tokens_of(one).ids[1:-1] for one in utterances_of(text, self._reading_of(language))]
        ids = tuple(chain.from_iterable((TOKENS[" "], *one) for one in read))[1:]
        return PhonesFound("".join(SYMBOLS[token] for token in ids), ids)

    def open(self, prepared: Prepared) -> VesperStream:
        assert isinstance(prepared, VesperPrepared)
        bos, rate_hz = self._net.config.bos, self.spec.frame_rate_hz
        begins = self._drafts is not None
        return VesperStream(prepared, self._sampling, bos, rate_hz, steps_begin=begins)

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        told, attending = rows.inputs, attend["backbone"]
        frames = self._frame.embed(told["code"], told["told"], told["held"])
        x = torch.where(told["begins"][:, None] > 0, told["told"], frames)
        positions = rows.positions[rows.last]
        if self._drafts is not None and isinstance(attending, AttendsByQuery):
            read = self._drafts.hidden(x, rows.positions, attending.cached)
            last = rows.last[: rows.real].numpy()
            return self._drafts.first(read[last], positions, rows, state)
        hidden = self._net.backbone(x, rows.positions, attending)
        return self._frame.plain(hidden[rows.last], positions, rows, state, rows.samples)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        attending = attend["backbone"]
        if self._drafts is not None and isinstance(attending, AttendsByQuery):
            return self._drafts.step(rows, state, attending.cached)
        x = self._frame.embed_state(rows.slots, state)
        hidden = self._net.backbone(x, rows.positions, attending)
        every = torch.ones_like(rows.slots, dtype=torch.bool)
        return self._frame.plain(hidden, rows.positions, rows, state, every)

    def render(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Energy and text of all frames at once: codes [frames, 4], move [frames]."""
        move = raw["move"].to(torch.uint8)
        # Talkers of the release before, which may take over, ask for the row of their tolerance.
        window = torch.zeros_like(move)
        codes = self._codes_of(raw) if self._codes is None else torch.from_numpy(self._codes(raw))
        return {"codes": codes, "move": move, "window": window}

    def _codes_of(self, raw: Mapping[str, Tensor]) -> Tensor:
        count = len(raw["code"])
        logits = self._net.energy_logits(raw["hidden"], raw["move"], raw["code"])
        device = logits.device
        settings = Settings(
            torch.full((count,), self._sampling.energy_temperature, device=device),
            torch.full((count,), self._sampling.top_k, device=device),
        )
        energy, _ = draw_ids(logits, Noise(raw["seed"], raw["frame"]), _ENERGY_DRAW, settings)
        codes = torch.stack([raw["code"], energy, *self._text_codes(raw["text"]).unbind(1)], 1)
        return torch.where(raw["silent"][:, None] > 0, self._silence, codes).to(torch.int16)

    def _tell(self, utterance: Utterance | None, pace: float) -> Iterator[Conditioning]:
        """An utterance, or silence, as the encoders read it."""
        tokens = _SILENCE if utterance is None else tokens_of(utterance)
        parts = in_parts(tokens, MOST_TOKENS) if utterance else [tokens]
        return (self._conditioned(part, pace) for part in parts)

    @torch.inference_mode()
    def _conditioned(self, tokens: Tokens, pace: float) -> Conditioning:
        """The first frame needs one of the encoders; the other one has until a chunk is due, and
        does not take its processor from it.
        """
        ids = torch.tensor([tokens.ids])
        at = self._contexts(ids, self._prosody(ids)) + self._paces_of(tokens, pace)
        text = self._beside.submit(self._text, ids)
        return Conditioning(self._paced(pace)[1], at, text.result, tokens.words)

    def _embed_pace(self, pace: float) -> tuple[Array, Array]:
        """What frames are told of it, [dim], and the position before them."""
        paced = self._reading.embed_pace(torch.tensor([pace]))[0]
        return paced.numpy(), self._reading.embed_begin(paced).numpy()

    @torch.inference_mode()
    def _text(self, ids: Tensor) -> Array:
        encoded: Array = self._texts(ids)[0].numpy()
        return encoded

    def _paces_of(self, tokens: Tokens, pace: float) -> Array:
        """The embedded pace of an utterance, or of each of its tokens where words differ."""
        if all(word.rate == 1.0 for word in tokens.words):
            return self._paced(pace)[0]
        slowest, fastest = self.spec.speeds
        paces = torch.full((len(tokens.ids),), pace)
        for word in tokens.words:
            # A preset's own pace may lie beyond the speeds already.
            least, most = min(pace, slowest), max(pace, fastest)
            paces[word.start : word.end] = min(max(pace * word.rate, least), most)
        embedded: Array = self._reading.embed_pace(paces).numpy()
        return embedded


def _on_a_processor(encoder: VesperTextEncoder) -> Callable[[Tensor], Tensor]:
    """An encoder that reads [1, tokens], in one compiled loop where loops can be compiled."""
    if not halve(encoder):
        return encoder
    from ttsfamilies.vesper.text_numba import CompiledEncoder

    return CompiledEncoder(encoder)


def _contexts_of(net: VesperNet) -> Callable[[Tensor, Tensor], Array]:
    """`token_contexts` of one utterance, [tokens, dim], likewise."""
    if not halve(net):
        return lambda ids, prosody: token_contexts(net, ids, prosody)[0].numpy()
    from ttsfamilies.vesper.text_numba import CompiledContexts

    return CompiledContexts(net)


def spec_of(
    net: VesperNet,
    name: str,
    voices: tuple[Voice, ...],
    sample_rate: int,
    frame_rate_hz: float,
    speeds: tuple[float, float],
) -> ModelSpec:
    """What the engine has to know of a vesper net."""
    c = net.config
    told, all_told = Field((c.dim,), "f4"), Field((MOST_TOKENS + 1, c.dim), "f4")
    moving = dict.fromkeys(MOVING, NUMBER)
    temperatures = dict.fromkeys(("temperature", "move_temperature"), Field((), "f4"))
    asked = dict.fromkeys(("code", "held", "begins"), NUMBER)
    chosen = dict.fromkeys(("code", "move", "silent"), NUMBER)
    return ModelSpec(
        **stated(FAMILY, name, sample_rate, frame_rate_hz),
        voices=voices,
        frame={"codes": Field((CODEBOOKS,), "i2", max(c.codebook_size, c.text_codes))},
        replay={"move": Field((), "u1", MOVES), "window": Field((), "u1", WIDTH)},
        raw={**chosen, "text": Field((UNITS_PER_FRAME, c.text_dim), "f4"), "hidden": told},
        state={
            **moving,
            **temperatures,
            "hidden": told,
            "begin": told,
            "told": all_told,
        },
        inputs={**asked, "told": told},
        caches={"backbone": CacheSpec(c.layers, c.heads, c.heads, c.head_dim)},
        max_positions=c.positions,
        width=WIDTH,
        rounds=ROUNDS,
        lag_frames=LAG_FRAMES,
        chunks=CHUNKS,
        speeds=speeds,
    )

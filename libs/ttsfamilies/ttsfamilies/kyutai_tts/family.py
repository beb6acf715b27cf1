"""Kyutai TTS in the engine: a step a frame, the text's next piece chosen between its two networks.

The step's text is what the state machine says (see `counters`), whose numbers lie in the slot with
the text itself, so that a device goes on by itself. A step whose next word is not here yet changes
nothing, and is computed again when it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.codes import Picks
from ttsfamilies.base.runners.computation import (
    Attend,
    Out,
    Prompts,
    Rows,
    SlotTensors,
    TwoPartComputation,
)
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Noise, Settings, draw_alone
from ttsfamilies.base.talker.base import (
    NUMBER,
    REAL,
    CacheSpec,
    ModelSpec,
    known_voice,
    stated,
)
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.kyutai_tts.config import NEW_WORD, PAD, KyutaiConfig
from ttsfamilies.kyutai_tts.counters import FINAL_STEPS, Counters, EntrySpan, Moved, moved, text_id
from ttsfamilies.kyutai_tts.facts import FAMILY
from ttsfamilies.kyutai_tts.net import Hear, KyutaiNet, load_net
from ttsfamilies.kyutai_tts.request import (
    MOST_ENTRIES,
    MOST_PIECES,
    KyutaiDrawing,
    KyutaiPrepared,
    WordTokenizer,
    parameters,
)
from ttsfamilies.kyutai_tts.stream import NO_CODE, KyutaiStream, coming_places, replay
from ttsfamilies.kyutai_tts.voices import HeardVoices, load_voices

# Of ten minutes. Only the last `context` of them are attended to.
_POSITIONS: Final = 8192
# The draw of a step that is of no codebook.
_WORD: Final = -1
_SETTINGS: Final = {
    **dict.fromkeys(("temperature", "subtalker_temperature", "bonus"), REAL),
    **dict.fromkeys(("top_k", "subtalker_top_k", "most_pads", "guided", "voice"), NUMBER),
}
_MOVING: Final = (*Counters._fields, "text", "recent", "asked", "ended")
_READ: Final = (*_MOVING, *_SETTINGS, "seed", "known", "complete", "base")


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> KyutaiTts:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    return KyutaiTts(name, net, load_voices(folder, net), WordTokenizer(folder, net.config))


class KyutaiTts(TalkerModel, TwoPartComputation):
    """A loaded checkpoint. Breaks are the model's own: it was trained with them."""

    fixed_prompts = True
    pauses = True

    def __init__(
        self, name: str, net: KyutaiNet, voices: HeardVoices, tokenizer: WordTokenizer
    ) -> None:
        self.spec = spec_of(name, net.config, voices.names)
        self.cache_dtype = net.codes.dtype
        self.hidden = {
            "hidden": ((net.config.dim,), self.cache_dtype),
            **dict.fromkeys(("start", "position"), ((), torch.int64)),
            "samples": ((), torch.bool),
        }
        self._net, self._voices, self._tokenizer = net, voices, tokenizer
        c, where = net.config, net.codes.device
        self._delays = torch.tensor(c.delay_pattern.delays, device=where)
        ages, books = zip(*coming_places(c), strict=True)
        self._ages, self._books = torch.tensor((ages, books), device=where)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> KyutaiPrepared:
        names = self._voices.names
        known_voice(request.voice, names)
        drawing = KyutaiDrawing.of(request, self._net.config)
        return KyutaiPrepared(request, drawing, names.index(request.voice), self._tokenizer)

    def open(self, prepared: KyutaiPrepared) -> KyutaiStream:
        return KyutaiStream(prepared, self._net.config)

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        told = rows.inputs
        x = self._net.embed(told["text"], told["codes"], told["guided"])
        hear = self._hear(told["voice"])
        hidden = self._net.hidden(x, rows.positions, attend["backbone"], hear)
        before = torch.cat((rows.last.new_full((1,), -1), rows.last[:-1]))
        position = rows.positions[rows.last]
        return {
            "hidden": hidden[rows.last],
            "start": position - (rows.last - before) + 1,
            "position": position,
            "samples": rows.samples,
        }

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        c, slots, at = self._net.config, rows.slots, rows.positions
        last = state["recent"][slots, 0]
        codes = torch.where(at[:, None] <= self._delays, c.card, last)
        x = self._net.embed(state["text"][slots], codes, state["guided"][slots])
        hear = self._hear(state["voice"][slots])
        return {
            "hidden": self._net.hidden(x, at, attend["backbone"], hear),
            "start": at,
            "position": at,
            "samples": torch.ones(len(slots), dtype=torch.bool, device=at.device),
        }

    def _hear(self, voices: Tensor) -> Hear:
        heard = self._voices
        return heard.hear_exactly(voices) if self.device is None else heard.hear(voices)

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """Move the text on, draw each row's codes, and the rows' state on with them.

        Products take the padding along, for the sake of exactness; state leaves it out. A row that
        waits for its next word, and one behind it, stays where it is.
        """
        c = self._net.config
        old = {name: state[name].index_select(0, slots) for name in _READ}
        logits = self._net.words(hidden["hidden"]).float()
        move = self._moved(old, logits, slots, state)
        here = hidden["samples"] & (old["ended"] == 0) & (hidden["position"] == old["step"])
        active = here & (move.starved == 0)
        text = self._text(move, slots, state)
        sounds = old["step"] >= c.lead
        drawn = self._drawn(hidden["hidden"], text, old, active & sounds)
        late = old["step"][:, None] < self._delays + c.lead
        row = torch.where(late, NO_CODE, drawn)[:, None]
        recent = torch.cat((row, old["recent"][:, :-1]), 1)
        over = move.after.over
        ended = active & (over >= 0) & (old["step"] >= over + c.lead + FINAL_STEPS - 1)
        bits = (1 << (c.silent_steps + 1)) - 1
        asked = (old["asked"] << 1 | move.asked) & bits
        new = {**move.after._asdict(), "text": text, "recent": recent, "asked": asked}
        new["ended"] = old["ended"] + ended
        kept = slice(real)
        for name in _MOVING:
            stays = active.view(-1, *[1] * (old[name].ndim - 1))
            value = torch.where(stays, new[name], old[name]).to(old[name].dtype)
            state[name].index_copy_(0, slots[kept], value[kept])
        frames = {
            "codes": self._frame(recent)[kept, None].clamp(min=0).to(torch.int16),
            "asked": asked[kept, None].to(torch.int32),
            "coming": recent[:, self._ages, self._books][kept, None].clamp(min=0).to(torch.int16),
        }
        stand = torch.where(active, hidden["position"] + 1, old["step"]) - hidden["start"]
        bad = hidden["samples"] & ~logits.isfinite().all(-1)
        # What silent steps have made is no frame, but the host keeps books of it.
        return Out(frames, active.long()[kept], ended[kept], bad[kept], stand[kept])

    def _moved(
        self, old: Mapping[str, Tensor], logits: Tensor, slots: Tensor, state: SlotTensors
    ) -> Moved:
        """The state machine's step, with what the model asks for."""
        logits[:, PAD] += old["bonus"]
        settings = Settings(old["temperature"], old["top_k"])
        wants = draw_alone(logits, self._noise(old), _WORD, settings) == NEW_WORD
        counters = Counters(*(old[name] for name in Counters._fields))
        entry = counters.entry.clamp(max=MOST_ENTRIES - 1)
        span = EntrySpan(*(state[name][slots, entry].long() for name in EntrySpan._fields))
        unknown = state["pieces"][slots, counters.at.clamp(max=MOST_PIECES - 1)] == NEW_WORD
        told = (old[name] for name in ("known", "complete", "base", "most_pads"))
        return moved(counters, wants * 1, unknown * 1, span, *told)

    def _text(self, move: Moved, slots: Tensor, state: SlotTensors) -> Tensor:
        main, second = (
            state["pieces"][slots, index.clamp(max=MOST_PIECES - 1)].long()
            for index in (move.main, move.second)
        )
        return text_id(move, main, second, self._net.config.text_card + 1)

    def _noise(self, old: Mapping[str, Tensor]) -> Noise:
        return self.noise(old["seed"], old["step"])

    def _drawn(
        self, hidden: Tensor, text: Tensor, old: Mapping[str, Tensor], sounding: Tensor
    ) -> Tensor:
        """Codes [rows, codebooks]; on the CPU none are computed where all of them are dropped."""
        if self.device is None and not sounding.any():
            return old["recent"][:, 0]
        settings = Settings(old["subtalker_temperature"], old["subtalker_top_k"])
        return self._net.depth(hidden, text, Picks(settings, settings, self._noise(old)))

    def _frame(self, recent: Tensor) -> Tensor:
        """The frame that the last row completes: of each codebook the row that it stands in."""
        ages = self._delays.max() - self._delays
        return recent[:, ages, torch.arange(len(ages), device=ages.device)]


def spec_of(name: str, c: KyutaiConfig, voices: Sequence[str]) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    codes = Field((c.n_q,), "i8")
    text = dict.fromkeys(EntrySpan._fields, Field((MOST_ENTRIES,), "i4"))
    numbers = (*Counters._fields, "text", "asked", "ended", "seed", "known", "complete", "base")
    return ModelSpec(
        **stated(FAMILY, name),
        voices=tuple(Voice(id, id, "en", languages=("en", "fr")) for id in voices),
        frame={"codes": Field((c.n_q,), "i2", c.card)},
        replay=replay(c),
        state={
            **text,
            "pieces": Field((MOST_PIECES,), "i4"),
            "recent": Field((c.delay_pattern.most + 1, c.n_q), "i8"),
            **dict.fromkeys(numbers, NUMBER),
            **_SETTINGS,
        },
        inputs={"codes": codes, **dict.fromkeys(("text", "voice", "guided"), NUMBER)},
        caches={
            "backbone": CacheSpec(
                *(c.num_layers, c.num_heads, c.num_heads, c.dim // c.num_heads),
                sliding_window=c.context,
            )
        },
        parameters=parameters(c),
        max_positions=_POSITIONS,
    )

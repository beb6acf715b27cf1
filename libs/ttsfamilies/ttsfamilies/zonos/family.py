"""Zonos in the engine: a row of nine delayed codes a step, drawn with guidance by a second branch.

All codebooks of a row are drawn at once, from logits of one hidden state. A prompt decides those
codes of the first rows that belong to frames before its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import completed
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.codes import COUNTS, Ending, closed, ending
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Settings, draw_ids
from ttsfamilies.base.sampling.rules import OUT, unlikely
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, known_voice, stated
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.zonos.facts import CODEBOOKS, END, FAMILY, MASK, PHONES
from ttsfamilies.zonos.net import Conditions, ZonosNet, load_net
from ttsfamilies.zonos.phones import Readings
from ttsfamilies.zonos.recordings import ZonosRecordings, load_voices
from ttsfamilies.zonos.request import (
    DELAY_PATTERN,
    PARAMETERS,
    SPEEDS,
    PhoneRows,
    ZonosDrawing,
    ZonosPrepared,
    ZonosStream,
    speaker_of,
    values_of,
)
from ttsfamilies.zonos.request import PHONES as WAY

# A recording of 30 s, a passage and its speech.
_POSITIONS: Final = 6144
# Frames on either side of one that its sound depends on.
_LOOKAHEAD: Final = 10
_COLUMN: Final = Field((CODEBOOKS,), "i8")
_HEARD: Final = frozenset(("ref_audio", "ref_text", "x_vector_only_mode"))
_OPENING: Final = DELAY_PATTERN.most, CODEBOOKS
_SETTINGS: Final = fields_of(ZonosDrawing)
# Nothing is known of who speaks: the model's own choice.
_DEFAULT: Final = "default"


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Zonos:
    """A checkpoint's folder; raises CheckpointError."""
    net, conditions = load_net(folder, how.where, how.dtype)
    recordings, voices = ZonosRecordings.load(folder), load_voices(folder)
    return Zonos(name, net, conditions, Readings.load(how.lexicon), recordings, voices)


class Zonos(SteppedModel):
    """A loaded checkpoint."""

    apart = ("told",)

    def __init__(
        self,
        name: str,
        net: ZonosNet,
        conditions: Conditions,
        readings: Readings,
        recordings: ZonosRecordings | None = None,
        voices: Mapping[str, Array] | None = None,
    ) -> None:
        self._net, self._conditions, self._readings = net, conditions, readings
        self.recordings = recordings = recordings or ZonosRecordings(None, None)
        self._voices = voices or {}
        self.spec = spec_of(name, net, self._voices, readings.tags, recordings.accepts)
        self.cache_dtype = net.phones.weight.dtype
        conditioners = net.config.prefix_conditioner.conditioners
        self._before = [one.name for one in conditioners].index(PHONES)
        device = net.phones.weight.device
        self._delays = torch.tensor(DELAY_PATTERN.delays, device=device)
        self._ids = torch.arange(END + 1, device=device)
        # No codebook but the first ends a speech.
        self._never = (self._ids == END) & (self._delays > 0)[:, None]

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> ZonosPrepared:
        settings = completed(PARAMETERS, request.extra_params)
        values = values_of(request, settings, self._speaker(request, derived.reference))
        rows = self._net.config.prefix_conditioner.rows
        layout = PhoneRows(self._before, tuple(row.name in values for row in rows))
        told, asked = self._conditions.conditioning(values), ZonosDrawing.of(request, settings)
        sentences = self._readings.of(request.language, str(settings[WAY]))
        heard, words, known = None, "", derived.reference
        if known is not None and request.reference and not request.reference.x_vector_only:
            words = request.reference.text if "codes" in known else ""
            heard = known["codes"] if words else None
        return ZonosPrepared(
            *(request, asked, told, layout, sentences, self.positions),
            *(heard, words),
        )

    def _speaker(self, request: SpeechRequest, reference: Arrays | None) -> Sequence[float] | None:
        known = request.voice in self._voices
        if reference is None:
            known_voice(request.voice, (_DEFAULT, *self._voices))
        return speaker_of(reference, self._voices[request.voice] if known else None)

    def open(self, prepared: ZonosPrepared) -> ZonosStream:
        return ZonosStream(prepared)

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        assert rows.branches is not None
        told, inputs = (state["told"], rows.branches.owners), rows.inputs
        x = self._net.embed(inputs["id"], inputs["codes"], *told)
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        assert rows.branches is not None
        x = self._net.codes(state["last"].index_select(0, rows.branches.owners))
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        """The next row of codes."""
        logits, plain = (self._net.logits(branch) for branch in hidden.chunk(2))
        logits = plain + (logits - plain) * old["guidance"][:, None, None]
        codes = self._placed(self._drawn(logits, old), old)
        before = Ending(old["since"], old["left"])
        ends = (codes[:, :1] == END) & (old["made"] > 0)[:, None]
        after, gained = ending(ends, before, DELAY_PATTERN.most), ~before.over
        ended = after.over | (old["made"] + 1 >= old["limit"] + DELAY_PATTERN.most)
        moved = {
            "last": torch.where(gained[:, None], codes, old["last"]),
            "before": torch.where(gained[:, None], old["last"], old["before"]),
            "made": old["made"] + gained,
            "since": torch.where(gained, after.since, old["since"]),
            "left": torch.where(gained, after.left, old["left"]),
        }
        finite = logits.isfinite().flatten(1).all(-1)
        return DrawnStep(moved, {"codes": codes.to(torch.int16)}, gained, ended, finite)

    def _drawn(self, logits: Tensor, old: Mapping[str, Tensor]) -> Tensor:
        """[rows, CODEBOOKS, ids] -> [rows, CODEBOOKS] int64, each from noise of its own."""
        x = self._punished(logits, old).masked_fill(self._never, OUT)
        each = {n: old[n].repeat_interleave(CODEBOOKS) for n in _SETTINGS}
        x = unlikely(x.flatten(0, 1), each["temperature"], each["min_p"])
        draws = (old["made"][:, None] * CODEBOOKS + self._delays).flatten()
        chosen, _ = draw_ids(x, self.noise(each["seed"], draws), 0, Settings.of(each))
        return chosen.view(-1, CODEBOOKS)

    def _punished(self, logits: Tensor, old: Mapping[str, Tensor]) -> Tensor:
        """Ids of the last two columns, those of both twice; none before the first row."""
        penalty = torch.where(old["made"] > 0, old["penalty"], 1.0)[:, None, None]
        last, before = (old[name][:, :, None] == self._ids for name in ("last", "before"))
        factor = torch.where(last, penalty, 1.0) * torch.where(before, penalty, 1.0)
        return torch.where(logits > 0, logits / factor, logits * factor)

    def _placed(self, drawn: Tensor, old: Mapping[str, Tensor]) -> Tensor:
        """The row, [rows, CODEBOOKS]: as drawn where its frames are of the speech."""
        made, since, opening = old["made"], old["since"], old["opening"].view(-1, *_OPENING)
        place = made.clamp(max=DELAY_PATTERN.most - 1)[:, None, None].expand(-1, 1, CODEBOOKS)
        given = opening.gather(1, place)[:, 0]
        forced = (made < DELAY_PATTERN.most)[:, None] & (given >= 0)
        codes = torch.where(forced, given, drawn)
        ends = (since > 0)[:, None] & (since[:, None] == self._delays)
        codes = codes.masked_fill(ends, END)
        past = made[:, None] - self._delays >= old["limit"][:, None]
        return codes.masked_fill(closed(since, self._delays) | past, MASK)


def spec_of(
    name: str,
    net: ZonosNet,
    voices: Mapping[str, Array],
    tags: Sequence[str],
    heard: Sequence[str],
) -> ModelSpec:
    """What the engine has to know of a checkpoint. tags: of languages, English first.
    heard: fields of a request that its encoders stand for.
    """
    c = net.config.backbone
    listed = [Voice(id, id, tags[0], None, tuple(tags)) for id in (_DEFAULT, *voices)]
    return ModelSpec(
        **stated(FAMILY, name, without=_HEARD.difference(heard)),
        voices=tuple(listed),
        frame=ZonosStream.frame,
        replay=REPLAY,
        state={
            "opening": Field((prod(_OPENING),), "i8"),
            "told": Field((net.rows * c.d_model,), "f4"),
            **dict.fromkeys(("last", "before"), _COLUMN),
            **COUNTS,
            "limit": NUMBER,
            **_SETTINGS,
        },
        inputs={"id": NUMBER, "codes": _COLUMN},
        caches={"backbone": CacheSpec(c.n_layer, c.heads, c.kv_heads, c.head_dim)},
        max_positions=_POSITIONS,
        branches=2,
        delay_frames=DELAY_PATTERN.most,
        lag_frames=DELAY_PATTERN.most + _LOOKAHEAD,
        speeds=SPEEDS,
        parameters=PARAMETERS,
    )

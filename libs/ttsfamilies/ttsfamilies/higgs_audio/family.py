"""Higgs Audio in the engine: a row of delayed codes a step, all of them drawn side by side.

In row r codebook c is drawn from r = c on. What ends a codebook is ttsfamilies.base.lm.codes's.
Ids that are no codes are logged and fed back as they were drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import structlog
import torch
from torch import Tensor

from ttscommon.sound.recordings import read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.codes import COUNTS, Ending, closed, ending, unbegun
from ttsfamilies.base.lm.recordings import NetworkRecordings, resampled, windowed_sinc
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import turns_of
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Settings, draw_alone, draw_ids
from ttsfamilies.base.sampling.rules import OUT
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.higgs_audio.encoder import HiggsEncoder, load_encoder
from ttsfamilies.higgs_audio.facts import FAMILY
from ttsfamilies.higgs_audio.net import (
    HiggsConfig,
    HiggsDefaults,
    HiggsNet,
    load_defaults,
    load_net,
)
from ttsfamilies.higgs_audio.request import (
    MOST_REMEMBERED,
    HiggsDrawing,
    HiggsPrepared,
    HiggsStream,
    parameters,
)

log_ = structlog.get_logger(__name__)

_HEARD: Final = ("ref_audio", "ref_text", "turns", "speaker")
# Frames that the codec looks ahead, beside the delay_pattern.
_AHEAD: Final = 10


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> HiggsAudio:
    """A checkpoint's folder, and its codec's encoder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    if net.config.third:
        log_.warning("weights.research_only", model=name, family="higgs_audio", version=3)
    tokenizer, defaults = TextTokenizer.load(folder), load_defaults(folder, net.config)
    encoder = None if how.codec is None else load_encoder(how.codec, how.where)
    return HiggsAudio(name, net, tokenizer, defaults, encoder=encoder)


class HiggsAudio(SteppedModel):
    """A loaded checkpoint."""

    def __init__(
        self,
        name: str,
        net: HiggsNet,
        tokenizer: TextTokenizer,
        defaults: HiggsDefaults,
        encoder: HiggsEncoder | None = None,
    ) -> None:
        """encoder: of recordings; without one none are heard."""
        c = net.config
        self.spec = spec_of(name, c, defaults, hears=encoder is not None)
        if encoder is not None:
            self.recordings = NetworkRecordings(encoder, partial(self._codes, encoder))
        self.cache_dtype = net.text.weight.dtype
        self._net, self._tokenizer, self._defaults = net, tokenizer, defaults
        device = net.text.weight.device
        self._delays = torch.tensor(c.delay_pattern.delays, device=device)
        self._back = torch.arange(MOST_REMEMBERED, 0, -1, device=device)
        self._never = _never(c).to(device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> HiggsPrepared:
        drawing = HiggsDrawing.of(request, self._defaults)
        before = turns_of(request, derived.reference, derived.turns)
        return HiggsPrepared(
            request, drawing, before, self._tokenizer, self._net.config, self.positions
        )

    def open(self, prepared: HiggsPrepared) -> HiggsStream:
        return HiggsStream(prepared, self.spec.frame)

    def _codes(self, encoder: HiggsEncoder, recording: bytes) -> Arrays:
        """Of a turn's sound: codes [frames, codebooks]; silence fills the last frame."""
        sizes, device = encoder.sizes, self._net.text.weight.device
        samples = resampled(*read_recording(recording), sizes.sample_rate)
        whole = np.pad(samples, (0, -len(samples) % sizes.frame_samples))
        slower = windowed_sinc(whole, sizes.sample_rate, sizes.semantic_sample_rate)
        codes = encoder(*(torch.from_numpy(wav).to(device) for wav in (whole, slower)))
        return {"codes": codes.cpu().numpy().astype(np.int16)}

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        told = rows.inputs["text"], rows.inputs["codes"]
        return self._net.prompt(*told, rows.positions, attend["backbone"])

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        codes = state["codes"].index_select(0, rows.slots)
        return self._net.step(codes, rows.positions, attend["backbone"])

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        c = self._net.config
        drawn, finite = self._drawn(self._net.logits(hidden), old)
        row = drawn.masked_fill(unbegun(old["made"], self._delays), c.begin)
        row = row.masked_fill(closed(old["since"], self._delays), c.end)
        told = ending(row == c.end, Ending(old["since"], old["left"]), c.delay_pattern.most)
        moved = {
            "codes": row,
            "recent": torch.cat((old["recent"][:, c.codebooks :], row), 1),
            "made": old["made"] + 1,
            **told._asdict(),
        }
        every = torch.ones_like(told.over)
        return DrawnStep(moved, {"codes": row.to(torch.int16)}, every, told.over, finite)

    def _drawn(self, logits: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits [rows, codebooks, ids] -> ids [rows, codebooks], finite [rows] bool.

        Each codebook is a row of its own to the draw, whose noise goes by the row and the codebook.
        """
        rows, codebooks, _ = logits.shape
        seed, made, hot, top_k, top_p = (
            old[name].repeat_interleave(codebooks)
            for name in ("seed", "made", "temperature", "top_k", "top_p")
        )
        column = torch.arange(codebooks, device=logits.device).repeat(rows)
        noise = self.noise(seed, made * codebooks + column)
        flat = logits.masked_fill(self._never, OUT).flatten(0, 1)
        ids, finite = draw_ids(flat, noise, 0, Settings(hot, top_k, top_p))
        ids, finite = ids.view(rows, codebooks), finite.view(rows, codebooks).all(-1)
        repeated = self._repeated(ids, old)
        if ids.is_cpu and not bool(repeated.any()):
            return ids, finite
        again = draw_alone(logits.flatten(0, 1), noise, 1, Settings(torch.ones_like(hot)))
        return torch.where(repeated, again.view(rows, codebooks), ids), finite

    def _repeated(self, ids: Tensor, old: Mapping[str, Tensor]) -> Tensor:
        """[rows, codebooks] bool: the code stands too often in the rows before."""
        recent = old["recent"].view(len(ids), MOST_REMEMBERED, -1)
        within = (self._back <= old["window"][:, None])[..., None]
        same = (recent == ids[:, None]) & (recent < self._net.config.begin) & within
        counted: Tensor = same.sum(1) >= old["repeats"][:, None]
        return counted & (old["window"] > 0)[:, None]


def _never(c: HiggsConfig) -> Tensor:
    """[codebooks, ids] bool: ids that are not drawn."""
    never = torch.zeros(c.codebooks, c.ids, dtype=torch.bool)
    if c.third:
        never[:, c.begin] = True
        never[1:, c.end] = True
    return never


def spec_of(name: str, c: HiggsConfig, defaults: HiggsDefaults, *, hears: bool) -> ModelSpec:
    """What the engine has to know of a checkpoint. It has no voices but those that it hears."""
    without = (*(() if hears else _HEARD), *(("instructions",) if c.third else ()))
    codes, s, delay = Field((c.codebooks,), "i8"), c.sizes, c.delay_pattern.most
    lag = delay + _AHEAD
    return ModelSpec(
        **stated(FAMILY, name, without=without),
        voices=(),
        frame={"codes": Field((c.codebooks,), "i2", c.ids)},
        state={
            "codes": codes,
            "recent": Field((MOST_REMEMBERED * c.codebooks,), "i8"),
            **COUNTS,
            **fields_of(HiggsDrawing),
        },
        inputs={"text": NUMBER, "codes": codes},
        caches={"backbone": s.cache},
        parameters=() if c.third else parameters(defaults),
        max_positions=c.positions,
        delay_frames=delay,
        lag_frames=lag,
        chunks=ChunkSeconds(initial_s=(lag + 2) / FAMILY.codec.frame_rate_hz),
    )

"""Fish Audio S2 in the engine: a frame a step, its residual codes by the fast transformer.

A semantic code that stands in one of the last frames is drawn again, from more ids (VALL-E 2: Chen
et al., 2024). Residual codes are drawn from 4096, logged and fed back as they are; the codec has
fewer, and reads those beyond as the last of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import MANY, Voice
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import CodesModel
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import EncodedTurn
from ttsfamilies.base.sampling import Noise, Settings, draw_unscaled
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, Prepared, known_voice
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.fish_s2.config import WINDOW, FishConfig, Voices, load_voices
from ttsfamilies.fish_s2.facts import FAMILY
from ttsfamilies.fish_s2.net import FishNet, load_net
from ttsfamilies.fish_s2.request import PARAMETERS, FishDrawing, FishPrepared, FishStream

log_ = structlog.get_logger(__name__)

_CONTROLS: Final = ("<|im_start|>", "<|im_end|>", "<|voice|>")
# What asks for no voice in particular.
_NONE: Final = "default"
# Of a code that is drawn again.
_AGAIN_TEMPERATURE, _AGAIN_TOP_P = 1.0, 0.9


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> FishS2:
    """A checkpoint's folder; raises CheckpointError."""
    log_.warning(
        "weights.research_only",
        model=name,
        family="fish_s2",
        hosted="hosted and commercial use need a contract with Fish Audio",
    )
    tokenizer = TextTokenizer.load(folder)
    if missing := [control for control in _CONTROLS if control not in tokenizer.added]:
        raise CheckpointError(f"{folder}: tokenizer.json lacks {', '.join(missing)}")
    net = load_net(folder, how.where, how.dtype)
    return FishS2(name, net, tokenizer, load_voices(folder, net.config))


class FishS2(CodesModel):
    """A loaded checkpoint."""

    def __init__(
        self,
        name: str,
        net: FishNet,
        tokenizer: TextTokenizer,
        voices: Voices,
        most_frames: int | None = None,
    ) -> None:
        """most_frames: of a batch, where a request does not ask for a number."""
        c = net.config
        self.spec = spec_of(name, c, voices)
        self.read_by(net, c.slow.dim, net.text.weight.dtype)
        self._net, self._tokenizer, self._voices = net, tokenizer, voices
        self._most = most_frames
        self._back = torch.arange(WINDOW, 0, -1, device=net.text.weight.device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> FishPrepared:
        return FishPrepared(
            *(request, self._voice(request.voice), self._tokenizer, self._net.config),
            *(self.positions, self._most),
        )

    def _voice(self, name: str) -> Sequence[EncodedTurn]:
        """A speaker's recordings; of none the voice follows from the seed."""
        if name in ("", _NONE):
            return ()
        known_voice(name, (_NONE, *self._voices))
        return self._voices[name]

    def open(self, prepared: Prepared) -> FishStream:
        assert isinstance(prepared, FishPrepared)
        return FishStream(prepared)

    def drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Of the first codebook's choices the one behind all codes is the end."""
        noise = self.noise(old["seed"], old["frame"])
        settings = Settings.of(old)
        logits = self._net.logits(hidden)
        first = self._unrepeated(logits, noise, settings, old)
        fast, last = self._net.fast, self._net.config.codes - 1

        def pick(logits: Tensor, codebook: int, rules: object = None) -> Tensor:
            del rules
            return draw_unscaled(logits, noise, codebook, settings)

        residuals = fast(hidden, fast.embed(first.clamp(max=last), 0), pick)
        codes = torch.cat((first[:, None], residuals), 1)
        return codes, first == self._net.config.codes, logits.isfinite().all(-1)

    def remembered(
        self, old: Mapping[str, Tensor], codes: Tensor, gained: Tensor
    ) -> dict[str, Tensor]:
        """The last semantic codes [rows, WINDOW], of which a batch's very first is never one."""
        pushed = torch.cat((old["recent"][:, 1:], codes[:, :1]), 1)
        counts = (gained & (old["made"] > 0))[:, None]
        recent = torch.where(counts, pushed, old["recent"])
        return {"recent": recent, "made": old["made"] + gained}

    def _unrepeated(
        self, logits: Tensor, noise: Noise, settings: Settings, old: Mapping[str, Tensor]
    ) -> Tensor:
        """The semantic code; the draw that replaces one has the number behind all codebooks."""
        first = draw_unscaled(logits, noise, 0, settings)
        within = self._back <= old["window"][:, None]
        repeated = ((old["recent"] == first[:, None]) & within).any(-1) & (old["temperature"] > 0)
        if first.is_cpu and not bool(repeated.any()):
            return first
        hot = torch.full_like(settings.temperature, _AGAIN_TEMPERATURE)
        other = Settings(hot, settings.top_k, torch.full_like(hot, _AGAIN_TOP_P))
        again = draw_unscaled(logits, noise, self._net.config.codebooks, other)
        return torch.where(repeated, again, first)


def spec_of(name: str, c: FishConfig, voices: Voices) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    codes, slow = Field((c.codebooks,), "i8"), c.slow
    return ModelSpec(
        name=name,
        family="fish_s2",
        sample_rate=c.codec.sample_rate,
        frame_rate_hz=c.codec.sample_rate / c.codec.frame_samples,
        voices=tuple(Voice(each, each, MANY) for each in (_NONE, *voices)),
        frame={"codes": Field((c.codebooks,), "i2", c.codes)},
        replay=REPLAY,
        state={
            "codes": codes,
            "recent": Field((WINDOW,), "i8"),
            **dict.fromkeys(("made", "frame"), NUMBER),
            **fields_of(FishDrawing),
        },
        inputs={"text": NUMBER, "codes": codes},
        caches={"slow": CacheSpec(slow.n_layer, slow.n_head, slow.n_local_heads, slow.head_dim)},
        accepts=frozenset(FAMILY.accepts),
        parameters=PARAMETERS,
        max_positions=slow.max_seq_len,
    )

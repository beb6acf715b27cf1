"""CSM in the engine: a frame a step, its residual codes by a depth transformer inside the step.

A frame whose codes but the last are all 0 ends the speech and is none of it. Ids that are no codes
are drawn, logged and fed back as the model made them; the codec reads them as codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.nn.mimi import MimiEncoder
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.depth import Picks
from ttsfamilies.base.lm.drawing import LayeredDrawing, fields_of
from ttsfamilies.base.lm.recordings import NetworkRecordings, resampled
from ttsfamilies.base.lm.stepped import CodesModel, write_moved
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import turns_of
from ttsfamilies.base.runners.computation import Out, SlotTensors
from ttsfamilies.base.sampling import Settings
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, Prepared
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.csm.config import END_CODE, CsmConfig, CsmGeneration, load_generation
from ttsfamilies.csm.net import CsmNet, load_encoder, load_net
from ttsfamilies.csm.request import CsmPrepared, usual_drawing
from ttsfamilies.csm.stream import CsmStream

_SETTINGS: Final = fields_of(LayeredDrawing)
_COUNTS: Final = dict.fromkeys(("frame", "over", "seed"), NUMBER)
_ACCEPTS: Final = ("max_new_tokens", "ref_audio", "ref_text", "speaker", "turns", *_SETTINGS)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Csm:
    """A checkpoint's folder; raises CheckpointError."""
    tokenizer, defaults = TextTokenizer.load(folder), load_generation(folder)
    net, encoder = load_net(folder, how.where, how.dtype), load_encoder(folder, how.where)
    return Csm(name, net, encoder, tokenizer, defaults)


class Csm(CodesModel):
    """A loaded checkpoint."""

    def __init__(
        self,
        name: str,
        net: CsmNet,
        encoder: MimiEncoder,
        tokenizer: TextTokenizer,
        defaults: CsmGeneration,
        most_frames: int | None = None,
    ) -> None:
        """most_frames: of a request's speech, where it does not ask for a number."""
        self.spec = spec_of(name, net.config)
        self.read_by(net, net.config.hidden_size, net.text.weight.dtype)
        self._net, self._encoder, self._tokenizer = net, encoder, tokenizer
        self._usual = usual_drawing(defaults)
        self._most = most_frames or self.positions
        self.recordings = NetworkRecordings(encoder, self._codes)

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> CsmPrepared:
        drawing = self._usual.wished(request.sampling)
        before, c = turns_of(request, reference, turns), self._net.config
        return CsmPrepared(
            *(request, drawing, before, self._tokenizer, c.num_codebooks),
            *(self.positions, self._most),
        )

    def open(self, prepared: Prepared) -> CsmStream:
        assert isinstance(prepared, CsmPrepared)
        return CsmStream(prepared, self.spec.frame)

    def _codes(self, recording: bytes) -> Arrays:
        """Of a turn's sound: codes [frames, codebooks]."""
        rate = self._net.config.codec_config.sampling_rate
        samples = torch.from_numpy(resampled(*read_recording(recording), rate))
        codes = self._encoder(samples.to(self._net.text.weight.device))
        return {"codes": codes.cpu().numpy().astype(np.int16)}

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """Make each row's frame, and move the rows' state on.

        Products take the padding along, for the sake of exactness; state leaves it out.
        """
        old = {name: state[name].index_select(0, slots) for name in _MOVING}
        codes, finite = self._net.frames(hidden["hidden"], self._picks(old))
        active = hidden["samples"] & (old["over"] == 0)
        ended = active & (codes[:, :-1] == END_CODE).all(-1)
        gained = active & ~ended
        moved = {
            "codes": torch.where(gained[:, None], codes, old["codes"]),
            "frame": old["frame"] + gained,
            "over": old["over"] + ended,
        }
        write_moved(state, slots, real, moved)
        bad = (hidden["samples"] & ~finite)[:real]
        frames = {"codes": codes[:real, None].to(torch.int16)}
        return Out(frames, gained.long()[:real], ended[:real], bad)

    def _picks(self, old: Mapping[str, Tensor]) -> Picks:
        talker, depth = (
            Settings(*(old[f"{part}{name}"] for name in ("temperature", "top_k", "top_p")))
            for part in ("", "subtalker_")
        )
        return Picks(talker, depth, self.noise(old["seed"], old["frame"]))


_MOVING: Final = ("codes", *_COUNTS, *_SETTINGS)


def spec_of(name: str, c: CsmConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint. It has no voices but those that it hears."""
    codes, codec = Field((c.num_codebooks,), "i8"), c.codec_config
    return ModelSpec(
        name=name,
        family="csm",
        sample_rate=codec.sampling_rate,
        frame_rate_hz=codec.sampling_rate / codec.frame_samples,
        voices=(),
        frame={"codes": Field((c.num_codebooks,), "i2", c.vocab_size)},
        state={"codes": codes, **_COUNTS, **_SETTINGS},
        inputs={"text": NUMBER, "codes": codes},
        caches={"backbone": c.cache},
        accepts=frozenset(_ACCEPTS),
        max_positions=c.max_position_embeddings,
    )

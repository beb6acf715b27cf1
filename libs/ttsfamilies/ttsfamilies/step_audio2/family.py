"""Step-Audio 2 mini in the engine: ids of words and of sound by turns, one a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import (
    Shards,
    Source,
    decoder_sources,
    digest,
    filled,
    same,
    unfilled,
)
from ttscommon.sound.recordings import LEAST_SAID_S, Floats, read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.answering import STATE, AnsweringModel
from ttsfamilies.base.lm.depth import decoder_config
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.lm.recordings import windowed_sinc
from ttsfamilies.base.lm.stepped import DrawnStep
from ttsfamilies.base.lm.turns import REPLAY, AnswerIds, frame_of
from ttsfamilies.base.runners.computation import Prompts, Rows, SlotTensors
from ttsfamilies.base.s3.references import RATE_HZ, FlowReferences, silence
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.base.sampling import Noise, Rules, Settings, draw_ids
from ttsfamilies.base.talker.base import ModelSpec, Prepared, recorded, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.step_audio2.config import TOKENS, ChatIds, StepConfig, StepSizes, load_config
from ttsfamilies.step_audio2.facts import FAMILY
from ttsfamilies.step_audio2.hearing import SEGMENT_ROWS, StepHearing
from ttsfamilies.step_audio2.request import StepPrepared, StepStream, turns_of


class StepNet(nn.Module):
    """Ids and rows to hidden states, and those to logits of all ids."""

    def __init__(self, config: StepConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.text_config
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.backbone = Decoder(replace(decoder_config(sizes), qkv_bias=True))
        self.head = nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False)
        self.hearing = StepHearing(config.audio_encoder_config)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Inputs [tokens, dim] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(x, positions, attend)
        return states


def sources(net: StepNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    heard = {f"hearing.{name}": same(name) for name in net.hearing.state_dict()}
    return {
        "embedding.weight": same("model.embed_tokens.weight"),
        "head.weight": same("lm_head.weight"),
        **heard,
        **decoder_sources(net.backbone.config, "backbone.", "model."),
    }


def load_net(folder: Path, device: str, dtype: str) -> StepNet:
    """The networks of a folder; raises CheckpointError."""
    config, shards = load_config(folder), Shards.of(folder)
    net = unfilled(StepNet, config).to(getattr(torch, dtype))
    filled(net, sources(net), shards, device=device)
    net.hearing.mel = type(net.hearing.mel)().to(device)  # made of numbers, not of weights
    return net


_HIGHEST_HZ: Final = 8_000.0
_EXAMPLES: Final = ("What would you say to warm a voice up?", "Say so.")


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> StepAudio2:
    """A checkpoint's folder; raises CheckpointError."""
    net, voice = load_net(folder, how.where, how.dtype), folder / "token2wav"
    voices = FlowReferences(
        load_published_tokens(voice / "speech_tokenizer_v2_25hz.onnx", how.where),
        load_published_speaker(voice / "campplus.onnx", how.where),
        _HIGHEST_HZ,
        replicate=True,
    )
    return StepAudio2(name, net, Qwen2Tokenizer.load(folder), voices)


class StepAudio2(AnsweringModel):
    """A loaded checkpoint. Its answers are bounded by their ids, and repeat themselves rightly."""

    pauses = True  # of a text that is no speech there are none to make
    signs = None
    hears = True
    apart = ("seen",)  # as large as the vocabulary, and written an id at a time

    def __init__(
        self, name: str, net: StepNet, tokenizer: Qwen2Tokenizer, voices: FlowReferences
    ) -> None:
        sizes = net.config.text_config
        control = self._control = ChatIds.of(tokenizer, sizes.vocab_size)
        self.ids = AnswerIds(control.first_audio, TOKENS, tuple(sorted(control.ends)))
        self.spec = spec_of(name, sizes, self.ids)
        self.cache_dtype = net.embedding.weight.dtype
        self._net, self._tokenizer, self.recordings = net, tokenizer, voices
        self._revision = f"{voices.revision[:16]}{digest((net.hearing,))[:16]}"
        device = net.embedding.weight.device
        self._never = torch.zeros(sizes.vocab_size, dtype=torch.bool, device=device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> StepPrepared:
        said = turns_of(request, derived.turns or [None] * len(request.turns), SEGMENT_ROWS)
        width = self._net.config.text_config.hidden_size
        tokens, tokenizer = len(recorded(derived.reference)["token"]), self._tokenizer
        return StepPrepared(request, said, tokens, tokenizer, self._control, width, self.positions)

    def open(self, prepared: Prepared) -> StepStream:
        assert isinstance(prepared, StepPrepared)
        return StepStream(prepared, self.ids, self._tokenizer, len(self._never))

    def examples(self) -> Sequence[str]:
        return _EXAMPLES

    @property
    def revision(self) -> str:
        return self._revision

    def hear(self, recording: bytes) -> Arrays:
        """Rows of what was said."""
        return self.rows(*read_recording(recording, LEAST_SAID_S))

    @torch.inference_mode()
    def rows(self, samples: Floats, rate: int) -> Arrays:
        """The same of samples [samples]."""
        heard = torch.from_numpy(windowed_sinc(samples, rate, RATE_HZ))
        rows = self._net.hearing(heard.to(self._never.device))
        return {"row": rows.float().cpu().numpy()}

    def example_reference(self) -> Arrays | None:
        return silence(3)

    def hidden(self, ids: Tensor, rows: Rows, attend: Mapping[str, Attend]) -> Tensor:
        x = self._net.embedding(ids)
        if isinstance(rows, Prompts):
            heard = rows.inputs["heard"][:, None] > 0
            x = torch.where(heard, rows.inputs["row"].to(x.dtype), x)
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def logits(self, hidden: Tensor) -> Tensor:
        found: Tensor = self._net.head(hidden)
        return found

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        real = rows.slots[: rows.real]
        state["seen"][real, state["drawn"][real]] = 1
        seen = state["seen"].index_select(0, rows.slots)
        return super().drawn(hidden, {**old, "seen": seen}, rows, state)

    def choose(
        self, logits: Tensor, noise: Noise, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """All ids are punished that are in the sequence, the prompt's among them."""
        rules = Rules(old["seen"].bool(), old["penalty"], old["step"], self._never, 0, 0)
        return draw_ids(logits, noise, 0, Settings.of(old), rules)


def spec_of(name: str, c: StepSizes, ids: AnswerIds) -> ModelSpec:
    """What the engine has to know of a checkpoint. Its voices are recordings."""
    number = Field((), "i8")
    return ModelSpec(
        **stated(FAMILY, name),
        voices=(),
        frame=frame_of(ids),
        replay=REPLAY,
        state={**STATE, "penalty": Field((), "f4"), "seen": Field((c.vocab_size,), "u1")},
        inputs={"id": number, "heard": number, "row": Field((c.hidden_size,), "f4")},
        caches={"backbone": c.cache},
        max_positions=c.max_position_embeddings,
        says=True,
    )

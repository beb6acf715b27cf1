"""Step-Audio 2 mini in the engine: ids of words and of sound by turns, one a step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend
from ttscommon.engine.nn.weights import (
    Shards,
    Source,
    digest,
    filled,
    same,
    unfilled,
)
from ttscommon.sound.recordings import LEAST_SAID_S, Floats, read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.answers import REPLAY, STATE, AnswerIds, AnsweringModel, frame_of
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.base.lm.recordings import windowed_sinc
from ttsfamilies.base.lm.stepped import DrawnStep, LlamaNet
from ttsfamilies.base.lm.stepped import sources as language_sources
from ttsfamilies.base.runners.computation import Prompts, Rows, SlotTensors
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.s3.references import (
    RATE_HZ,
    FlowReferences,
    WhisperAttention,
    WhisperBlock,
    WhisperMel,
    silence,
)
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.base.sampling import Noise, Rules, Settings, draw_ids
from ttsfamilies.base.talker.base import ModelSpec, recorded, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.step_audio2.facts import FAMILY
from ttsfamilies.step_audio2.request import (
    SEGMENT_S,
    ChatIds,
    HearingSizes,
    StepConfig,
    StepPrepared,
    StepStream,
    load_config,
    turns_of,
)

# Sound to rows that stand in a prompt: a Whisper encoder, a pool of two, and an adaptor.
#
# Attention is full within a segment of 25 s, so that all of one is heard at once. Names of modules
# are those of published checkpoints.


_PADDING: Final = 479
_INNER: Final = 2048
# Mel frames at the end that are of padding alone.
_SPARE: Final = 2


class PooledWhisper(nn.Module):
    """Mel frames to a quarter as many states."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        dim = c.n_audio_state
        self.conv1 = nn.Conv1d(c.n_mels, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)
        self.positional_embedding = nn.Embedding(c.n_audio_ctx, dim)
        self.blocks = nn.ModuleList(
            WhisperBlock(WhisperAttention(dim, c.n_audio_head), dim, 4 * dim)
            for _ in range(c.n_audio_layer)
        )
        self.after_norm = nn.LayerNorm(dim)

    def forward(self, mel: Tensor) -> Tensor:
        """[mels, frames] -> [states, dim]; the last one may be of spare frames alone."""
        x = nn.functional.gelu(self.conv1(mel[None]))
        x = nn.functional.gelu(self.conv2(x))[0].T
        x = x + self.positional_embedding.weight[: len(x)]
        shown = torch.arange(len(x), device=x.device) < _counted(mel.shape[1])
        for block in self.blocks:
            x = block(x, shown[None])
        return self.after_norm(nn.functional.avg_pool1d(x.T, 2).T)


class Adaptor(nn.Module):
    """Half as many rows, as wide as the language model's."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        dim = c.n_audio_state
        self.conv = nn.Conv1d(dim, dim, c.kernel_size, c.adapter_stride, padding=1)
        self.linear1, self.linear2 = nn.Linear(dim, _INNER), nn.Linear(_INNER, c.llm_dim)

    def forward(self, x: Tensor) -> Tensor:
        """[states, dim] -> [rows, llm_dim]."""
        x = nn.functional.gelu(self.conv(x.T[None]))[0].T
        return self.linear2(nn.functional.relu(self.linear1(x)))


class StepHearing(nn.Module):
    """What was said to the model, as rows: 12.5 a second."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        self.mel = WhisperMel()
        self.encoder, self.adapter = PooledWhisper(c), Adaptor(c)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 at 16 kHz -> [rows, llm_dim]."""
        each = SEGMENT_S * RATE_HZ
        parts = (wav[at : at + each] for at in range(0, len(wav), each))
        return torch.cat([self._segment(part) for part in parts])

    def _segment(self, wav: Tensor) -> Tensor:
        mel = self.mel(nn.functional.pad(wav, (0, _PADDING)))
        found: Tensor = self.adapter(self.encoder(mel.to(self.encoder.conv1.weight.dtype)))
        return found[: rows_of(len(wav))]


def rows_of(samples: int) -> int:
    """Rows of so many samples, of one segment."""
    states = (_frames(samples) - _SPARE + 1) // 2 // 2
    return (states - 1) // 2 + 1


def _frames(samples: int) -> int:
    return (samples + _PADDING) // 160


def _counted(frames: int) -> int:
    """States before the pool that others see."""
    first = (frames + 1) % 2
    return len(range(first, frames - _SPARE, 2))


SEGMENT_ROWS: Final = rows_of(SEGMENT_S * RATE_HZ)


class StepNet(LlamaNet):
    """With what hears."""

    def __init__(self, config: StepConfig) -> None:
        super().__init__(config.text_config)
        self.hearing = StepHearing(config.audio_encoder_config)


def sources(net: StepNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    heard = {f"hearing.{name}": same(name) for name in net.hearing.state_dict()}
    return heard | language_sources(net)


def load_net(folder: Path, device: str, dtype: str) -> StepNet:
    """The networks of a folder; raises CheckpointError."""
    net = unfilled(StepNet, load_config(folder)).to(getattr(torch, dtype))
    filled(net, sources(net), Shards.of(folder), device=device)
    net.hearing.mel = type(net.hearing.mel)().to(device)  # made of numbers, not of weights
    return net


_HIGHEST_HZ: Final = 8_000.0


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
    """A loaded checkpoint."""

    _net: StepNet
    examples = ("What would you say to warm a voice up?", "Say so.")
    hears = True
    apart = ("seen",)  # as large as the vocabulary, and written an id at a time

    def __init__(
        self, name: str, net: StepNet, tokenizer: Qwen2Tokenizer, voices: FlowReferences
    ) -> None:
        sizes = net.config
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
        width = self._net.config.hidden_size
        tokens, tokenizer = len(recorded(derived.reference)["token"]), self._tokenizer
        return StepPrepared(request, said, tokens, tokenizer, self._control, width, self.positions)

    def open(self, prepared: StepPrepared) -> StepStream:
        return StepStream(prepared, self.ids, self._tokenizer, len(self._never))

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


def spec_of(name: str, c: LlamaSizes, ids: AnswerIds) -> ModelSpec:
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

"""Pocket TTS in the engine: a latent a step, made of noise by the flow head inside the step.

A frame's noise is a function of (seed, frame). The frame at which the model ends its speech is not
the last: so many more follow as the text asks for, and the log says how many are left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ttscommon.engine.checkpoint import TENSORS, CheckpointError
from ttscommon.sound.recordings import Floats, read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.recordings import NetworkRecordings
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.talker.base import NUMBER, REAL, CacheSpec, ModelSpec, known_voice, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.pocket_tts.facts import FAMILY
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, load_encoder, load_net
from ttsfamilies.pocket_tts.request import (
    KEPT,
    LEFT,
    PocketPrepared,
    PocketStream,
    VoicePrefix,
    parameters,
    published,
    recorded,
)
from ttsfamilies.pocket_tts.sizes import PocketBackbone, PocketConfig, load_config
from ttsfamilies.pocket_tts.tokenizer import Tokenizer, load_tokenizer

# Published voices: keys and values of the positions that a prompt begins with.
#
# A voice's file has them of every layer, as the published weights compute them of its recording.
# They are read into tables, from which a prompt's positions take theirs instead of computing any.


_TAPS, _BETA = 10, 5.0
_FRAME_S, _FADE_S, _PAUSE_S = 0.02, 0.02, 0.08
_FLOOR_DB: Final = 35.0


def resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] at another rate, as scipy's resample_poly does it: the official package's way."""
    shared = math.gcd(rate, wanted)
    up, down = wanted // shared, rate // shared
    if up == down:
        return samples
    half = _TAPS * max(up, down)
    filter = _low_pass(half, max(up, down)) * up
    padded = np.pad(samples.astype(np.float64), (half // up + 1, half // up + down + 1))
    count = -(-len(samples) * up // down)
    found = np.empty(count)
    for phase in range(min(up, count)):
        centre = np.arange(phase, count, up) * down  # on the grid of rate * up
        first = -(-(centre[0] - half) // up)
        taps = filter[half + centre[0] - up * np.arange(first, (centre[0] + half) // up + 1)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps))
        starts = first + half // up + 1 + np.arange(len(centre)) * down
        found[phase::up] = windows[starts] @ taps
    return found.astype(np.float32)


def _low_pass(half: int, rate: int) -> np.ndarray:
    """A windowed sinc of 2 * half + 1 taps that passes 1 / rate, as scipy's firwin."""
    at = np.arange(-half, half + 1)
    found = np.sinc(at / rate) * np.kaiser(2 * half + 1, _BETA)
    return np.asarray(found / found.sum())


def ended_on_a_pause(samples: Floats, rate: int) -> Floats:
    """Silence at the end cut, the end of the rest faded out, and 80 ms of silence behind it.

    Otherwise a voice goes on with its recording's last word, or begins late.
    """
    frame = max(1, int(_FRAME_S * rate))
    count = len(samples) // frame
    if not count:
        return samples
    power = np.square(samples[: count * frame]).reshape(count, frame).mean(1)
    loudness = 20 * np.log10(np.sqrt(power) + 1e-12)
    end = (int(np.flatnonzero(loudness > loudness.max() - _FLOOR_DB)[-1]) + 1) * frame
    fade = min(int(_FADE_S * rate), end)
    kept = samples[:end].copy()
    kept[end - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return np.concatenate([kept, np.zeros(int(_PAUSE_S * rate), np.float32)])


FOLDER: Final = "embeddings"


@dataclass(frozen=True)
class VoiceCache:
    """keys, values: [layers, rows, kv_heads, head_dim]. spans: each voice's rows."""

    keys: Tensor
    values: Tensor
    spans: Mapping[str, range]

    def attend(self, attend: Attend, rows: Tensor, kept: Tensor) -> Attend:
        """An attention in which tokens that are `kept` [tokens] have the keys and values of `rows`
        [tokens] int64.
        """
        index, here = rows.where(kept, 0), kept[:, None, None]

        def attended(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k = torch.where(here, self.keys[layer, index], k)
            return attend(layer, q, k, torch.where(here, self.values[layer, index], v))

        return attended


def load_voices(checkpoint: Path, c: PocketBackbone, device: str) -> VoiceCache | None:
    """The voices of a checkpoint's folder, None without any; raises CheckpointError."""
    paths = sorted((checkpoint / FOLDER).glob(f"*{TENSORS}"))
    if not paths:
        return None
    states, spans, at = [_read(path, c) for path in paths], {}, 0
    for path, state in zip(paths, states, strict=True):
        spans[path.name.removesuffix(TENSORS)] = range(at, at + state.shape[2])
        at += state.shape[2]
    keys, values = torch.cat(states, 2).to(device)
    return VoiceCache(keys, values, spans)


def _read(path: Path, c: PocketBackbone) -> Tensor:
    """[2, layers, positions, kv_heads, head_dim] float32."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is truncated or damaged ({error}): download it again"
        ) from error
    layers = [f"transformer.layers.{i}.self_attn/" for i in range(c.num_layers)]
    lengths = {_length(tensors, layer, path) for layer in layers}
    known = {f"{layer}{part}" for layer in layers for part in _PARTS}
    if len(lengths) != 1 or not tensors.keys() <= known:
        raise CheckpointError(f"{path} is a voice of another model: its layers differ")
    (length,) = lengths
    return torch.stack([_state(tensors[f"{layer}cache"], length, c, path) for layer in layers], 1)


_PARTS: Final = ("cache", "offset", "current_end", "pad")


def _length(tensors: Mapping[str, Tensor], layer: str, path: Path) -> int:
    """Positions of a layer: older files have a tensor of that length instead of the number."""
    if f"{layer}cache" not in tensors:
        raise CheckpointError(f"{path} is a voice of another model: it lacks {layer}cache")
    if (offset := tensors.get(f"{layer}offset")) is not None:
        return int(offset.view(-1)[0]) if offset.numel() else 0
    end = tensors.get(f"{layer}current_end")
    return 0 if end is None else len(end)


def _state(cache: Tensor, length: int, c: PocketBackbone, path: Path) -> Tensor:
    heads: Sequence[int] = (c.kv_heads, c.head_dim)
    if cache.ndim != 5 or (*cache.shape[:2], *cache.shape[3:]) != (2, 1, *heads):
        raise CheckpointError(f"{path} is a voice of another model: keys of {list(cache.shape)}")
    found = cache[:, 0, :length].float()
    if not 0 < length <= cache.shape[2] or not found.isfinite().all():
        raise CheckpointError(f"{path} is damaged: it lacks keys and values of its positions")
    return found


# A voice of half a minute, a sentence of 300 tokens and its speech.
_POSITIONS: Final = 2048
# Before speech begins, the logit of its end may exceed the threshold: the package's rule.
_LEAST_FRAMES: Final = 6
# A frame is 80 ms of sound, which slow cores make in half of that, talker and vocoder each.
_CHUNKS: Final = ChunkSeconds(alone=1)
# As a checkpoint is published whose encoder is none.
_WITHOUT_CLONING: Final = "pocket-tts-without-voice-cloning"


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> PocketTts:
    """A checkpoint's folder; raises CheckpointError.

    Latents are fed back, so all of it computes in float32 on every device.
    """
    config = load_config(folder)
    lm = config.flow_lm
    tokenizer = load_tokenizer(folder, lm.lookup_table)
    net, encoder = load_net(folder, how.where), load_encoder(folder, how.where)
    kept = load_voices(folder, lm.transformer, how.where)
    clones = config.voice_cloning and _WITHOUT_CLONING not in str(folder.resolve())
    if not (clones or kept):
        raise CheckpointError(f"{folder} has no voices, and no weights to clone any with")
    return PocketTts(name, net, encoder if clones else None, tokenizer, kept)


class PocketTts(SteppedModel):
    """A loaded checkpoint. encoder: None where it cannot clone. kept: its published voices."""

    last_alone = True

    def __init__(
        self,
        name: str,
        net: PocketNet,
        encoder: PocketEncoder | None,
        tokenizer: Tokenizer,
        kept: VoiceCache | None = None,
    ) -> None:
        self.spec = spec_of(
            name, net.config, tuple(kept.spans) if kept else (), encoder is not None
        )
        self._net, self._kept, self._tokenizer = net, kept, tokenizer
        if encoder is not None:
            self.recordings = NetworkRecordings(encoder, partial(self._latents, encoder))
        self._first = net.first.cpu().numpy()

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> PocketPrepared:
        voice = self._voice(request, derived.reference)
        return PocketPrepared(request, self._net.config, voice, self._tokenizer, self.positions)

    def _voice(self, request: SpeechRequest, reference: Arrays | None) -> VoicePrefix:
        if reference is not None:
            return recorded(reference["latents"], begins=self._net.begin is not None)
        spans = self._kept.spans if self._kept else {}
        known_voice(request.voice, spans, clones=self.recordings is not None)
        return published(spans[request.voice], self._net.config.mimi.heard)

    def open(self, prepared: PocketPrepared) -> PocketStream:
        return PocketStream(prepared, self._first)

    def example_reference(self) -> Arrays | None:
        if self._kept is not None:
            return None
        return {"latents": np.zeros((1, self._net.config.mimi.heard), np.float32)}

    def _latents(self, encoder: PocketEncoder, recording: bytes) -> Arrays:
        """Of a voice's recording: latents [frames, values] float32."""
        rate = self._net.config.mimi.sample_rate
        samples = ended_on_a_pause(resampled(*read_recording(recording), rate), rate)
        heard = torch.from_numpy(samples).to(self._net.first.device)
        return {"latents": encoder(heard).cpu().numpy()}

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        told, stored = rows.inputs, attend["backbone"]
        kept = self._kept
        backbone = kept.attend(stored, told["id"], told["kind"] == KEPT) if kept else stored
        x = self._net.embed(told["kind"], told["id"], told["row"])
        return self._net.hidden(x, rows.positions, backbone, rows.last)

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        x = self._net.latent(state["latent"][rows.slots])
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        noise = self.noise(old["seed"], old["frame"]).normal(0, old["latent"].shape[1])
        latent = self._net.head(hidden, noise * old["deviation"][:, None])
        ends = self._net.end(hidden)[:, 0] > old["threshold"]
        ends = ends & (old["said"] >= _LEAST_FRAMES) & (old["left"] < 0)
        due = torch.where(ends, old["after"], old["left"])  # frames, this one included
        gained, left = due != 0, torch.where(due > 0, due - 1, due)
        moved = {
            "latent": torch.where(gained[:, None], latent, old["latent"]),
            "left": left,
            "frame": old["frame"] + gained,
            "said": old["said"] + gained,
        }
        frames = {"latent": latent, "left": left.to(torch.int16)}
        return DrawnStep(moved, frames, gained, left == 0, latent.isfinite().all(-1))


def spec_of(name: str, c: PocketConfig, voices: Sequence[str], clones: bool) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    lm, values = c.flow_lm.transformer, c.mimi.quantizer.dimension
    latent = Field((values,), "f4")
    wide = Field((max(values, c.mimi.heard),), "f4")
    return ModelSpec(
        **stated(
            *(FAMILY, name, c.mimi.sample_rate, c.mimi.frame_rate),
            without=() if clones else ("ref_audio",),
        ),
        voices=tuple(Voice(id, id.replace("_", " ").title(), c.language) for id in voices),
        frame={"latent": latent, **REPLAY},
        replay=LEFT,
        state={
            "latent": latent,
            **dict.fromkeys(("left", "frame", "said", "over", "after", "seed"), NUMBER),
            **dict.fromkeys(("deviation", "threshold"), REAL),
        },
        inputs={"kind": NUMBER, "id": NUMBER, "row": wide},
        caches={"backbone": CacheSpec(lm.num_layers, lm.num_heads, lm.kv_heads, lm.head_dim)},
        max_positions=_POSITIONS,
        chunks=_CHUNKS,
        parameters=parameters(c),
    )

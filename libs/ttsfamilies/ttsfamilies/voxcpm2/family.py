"""VoxCPM2 in the engine: a patch a step, made of noise by a flow that is solved inside the step.

Two caches advance together. A patch's noise is a function of (seed, frame). Whether a patch is the
last is known from what it is made of, before it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER
from ttscommon.wire.replicas import MANY, Voice
from ttsfamilies.base.lm.recordings import NetworkRecordings, resampled
from ttsfamilies.base.lm.stepped import DrawnStep, before, gone_on
from ttsfamilies.base.runners.computation import (
    Attend,
    Out,
    Prompts,
    Rows,
    SlotTensors,
    TwoPartComputation,
)
from ttsfamilies.base.runners.model import AdaptedParts, AdaptingModel
from ttsfamilies.base.talker.base import NUMBER, REAL, CacheSpec, ModelSpec, stated
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.voxcpm2.blocks import VaeEncoder, load_encoder
from ttsfamilies.voxcpm2.facts import FAMILY, VoxcpmConfig
from ttsfamilies.voxcpm2.net import BASE, RESIDUAL, VoxcpmNet, adapted_sources, load_net
from ttsfamilies.voxcpm2.request import (
    LAST,
    PARAMETERS,
    CharacterTokenizer,
    VoxcpmPrepared,
    VoxcpmStream,
    clone_of,
)


@torch.inference_mode()
def derived(encoder: VaeEncoder, recording: bytes, latents: int) -> Arrays:
    """Patches [patches, latents, values] of a recording, padded to whole ones: behind its end where
    it stands by itself (`reference`), before its beginning where speech goes on from it (`prompt`).

    Raises BadRequest.
    """
    rate = encoder.sizes.sample_rate
    samples = resampled(*read_recording(recording), rate)
    if not len(samples):
        raise BadRequest("the recording is empty", param="ref_audio")
    missing = -len(samples) % (latents * encoder.sizes.heard_samples)
    behind = _patches(encoder, np.pad(samples, (0, missing)), latents)
    before = _patches(encoder, np.pad(samples, (missing, 0)), latents) if missing else behind
    return {"reference": behind, "prompt": before}


def _patches(encoder: VaeEncoder, samples: Array, latents: int) -> Array:
    told = torch.from_numpy(samples.astype(np.float32)).to(encoder.mean.weight.device)
    found: Array = encoder(told).float().cpu().numpy()
    return found.reshape(-1, latents, found.shape[1])


# The reference hears no end before it.
_LEAST_PATCHES: Final = 4


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Voxcpm2:
    """A checkpoint's folder; raises CheckpointError."""
    net, tokenizer = load_net(folder, how.where, how.dtype), CharacterTokenizer.load(folder)
    c = net.config
    if tokenizer.size > c.lm_config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has ids up to {tokenizer.size - 1}, config.json's"
            f" vocab_size is {c.lm_config.vocab_size}"
        )
    return Voxcpm2(name, net, load_encoder(folder, c.audio_vae_config, how.where), tokenizer)


class Voxcpm2(AdaptingModel, TwoPartComputation):
    """A loaded checkpoint."""

    fixed_prompts = True

    def __init__(
        self, name: str, net: VoxcpmNet, encoder: VaeEncoder, tokenizer: CharacterTokenizer
    ) -> None:
        self.spec = spec_of(name, net.config)
        self._net, self._tokenizer = net, tokenizer
        read = partial(derived, encoder, latents=net.config.patch_size)
        self.recordings = NetworkRecordings(encoder, read)
        self.cache_dtype = dtype = net.text.weight.dtype
        width = (net.config.lm_config.hidden_size,)
        patch = self.spec.frame["patch"].shape
        self.hidden = {
            BASE: (width, dtype),
            RESIDUAL: (width, dtype),
            "patch": (patch, torch.float32),
            "samples": ((), torch.bool),
        }

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> VoxcpmPrepared:
        c, clone = self._net.config, clone_of(request, derived.reference)
        found = VoxcpmPrepared(
            request, self._tokenizer, clone, (c.patch_size, c.feat_dim), self.positions
        )
        found.adapter = self.row_of(request)
        return found

    def open(self, prepared: VoxcpmPrepared) -> VoxcpmStream:
        return VoxcpmStream(prepared, self.spec.frame["patch"])

    def adapted_parts(self) -> AdaptedParts:
        return AdaptedParts(self._net, adapted_sources(self._net), ("",))

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        told = rows.inputs
        audio, last = told["audio"] > 0, rows.last
        with self.rows(lambda: told[ADAPTER]):
            heard = self._net.encoded(told["patch"], audio, sparse=self.device is None)
            x = torch.where(audio[:, None], heard, self._net.text(told["id"]))
            base, residual = self._net.hidden(x, heard, audio, rows.positions, attend)
        found = {BASE: base[last], RESIDUAL: residual[last], "patch": told["patch"][last]}
        return {**found, "samples": rows.samples}

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        patch = state["patch"].index_select(0, rows.slots)
        every = torch.ones(len(patch), dtype=torch.bool, device=patch.device)
        with self.rows(lambda: state[ADAPTER].index_select(0, rows.slots)):
            heard = self._net.encoded(patch, every, sparse=self.device is None)
            base, residual = self._net.hidden(heard, heard, every, rows.positions, attend)
        return {BASE: base, RESIDUAL: residual, "patch": patch, "samples": every}

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        old = before(state, slots)
        with self.rows(lambda: state[ADAPTER].index_select(0, slots)):
            patch = self._patches(old, hidden)
        ended = self._net.stops(hidden[BASE]) & (old["said"] >= _LEAST_PATCHES - 1)
        moved = {"patch": patch, "frame": old["frame"] + 1, "said": old["said"] + 1}
        frames = {"patch": patch, "last": ended.to(torch.uint8)}
        finite = patch.isfinite().flatten(1).all(1)
        found = DrawnStep(moved, frames, torch.ones_like(ended), ended, finite)
        return gone_on(found, old, slots, real, state, hidden["samples"])

    def _patches(self, old: Mapping[str, Tensor], hidden: Mapping[str, Tensor]) -> Tensor:
        """[rows, latents, values], of the type of the state."""
        before = hidden["patch"]
        noise = self.noise(old["seed"], old["frame"]).normal(0, before[0].numel())
        noise = noise.view(before.shape).to(before.dtype) * old["deviation"][:, None, None]
        told = self._net.conditioning(hidden[BASE], hidden[RESIDUAL])
        return self._net.solver(told, before, noise, old["guidance"])


def spec_of(name: str, c: VoxcpmConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint. A voice that is neither described nor recorded
    follows from the seed.
    """
    lm = c.lm_config
    patch = Field((c.patch_size, c.feat_dim), "f4")
    heads = lm.num_attention_heads, lm.num_key_value_heads, lm.head_dim
    return ModelSpec(
        **stated(
            FAMILY, name, c.audio_vae_config.out_sample_rate, c.frame_rate_hz, without=(ADAPTER,)
        ),
        voices=(Voice("default", "Default", MANY),),
        frame={"patch": patch},
        replay={**LAST, **REPLAY},
        state={
            "patch": patch,
            **dict.fromkeys(("frame", "said", "over", "seed"), NUMBER),
            **dict.fromkeys(("guidance", "deviation"), REAL),
        },
        inputs={"id": NUMBER, "patch": patch, "audio": NUMBER},
        caches={
            BASE: CacheSpec(lm.num_hidden_layers, *heads),
            RESIDUAL: CacheSpec(c.residual_lm_num_layers, *heads),
        },
        max_positions=min(c.max_length, lm.max_position_embeddings),
        parameters=PARAMETERS,
    )

"""A recording as patches: what a voice is."""

from __future__ import annotations

import numpy as np
import torch

from ttscommon.sound.recordings import read_recording
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.lm.recordings import resampled
from ttsfamilies.voxcpm2.blocks import VaeEncoder


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

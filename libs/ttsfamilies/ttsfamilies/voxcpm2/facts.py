"""VoxCPM2: its codec, a VAE of floats, is a file beside the talker's."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs
from ttsfamilies.voxcpm2.sizes import ARCHITECTURE


def _fits(signs: Signs) -> bool:
    return str(signs.config.get("architecture", "")).lower() == ARCHITECTURE


FAMILY = FamilyFacts(
    name="voxcpm2",
    title="VoxCPM2",
    fits=_fits,
    codec=CodecFacts(
        name="voxcpm2",
        title="AudioVAE, 48 kHz",
        fits=_fits,
        sample_rate=48_000,
        frame_rate_hz=6.25,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
    ),
    accepts=(
        *("adapter", "instructions", "ref_audio", "ref_text", "x_vector_only_mode"),
        *("temperature", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("openbmb/VoxCPM2",),
    files=("*.json", "*.txt", "*.safetensors", "audiovae.pth"),
)

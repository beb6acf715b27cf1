"""VoxCPM2's decoder in the engine: exact state, which a few patches build anew."""

from __future__ import annotations

from pathlib import Path

from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal_codec import TOLERANCE, CausalCodec
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.voxcpm2.codec.net import VaeDecoder, load_decoder


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> VoxcpmCodec:
    """A checkpoint's codec; raises CheckpointError."""
    return VoxcpmCodec(name, load_decoder(folder, how.where), how)


class VoxcpmCodec(CausalCodec):
    """A loaded decoder."""

    def __init__(self, name: str, net: VaeDecoder, how: CodecOptions = ON_CPU) -> None:
        c = net.config
        spec = CodecSpec(
            *(name, "voxcpm2", c.audio_vae_config.out_sample_rate, c.frame_samples),
            {"patch": Field((c.patch_size, c.feat_dim), "f4")},
            context_frames=c.context_frames,
            tolerance=TOLERANCE,
        )
        super().__init__(net, spec, how)

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """As many of a recording's last patches as samples depend on, where speech goes on."""
        asked = request.reference
        if reference is None or asked is None or asked.x_vector_only or not asked.text:
            return None
        assert self.spec.context_frames is not None
        return {"patch": reference["prompt"][-self.spec.context_frames :]}

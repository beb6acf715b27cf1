"""VoxCPM2's decoder in the engine: exact state, which a few patches build anew."""

from __future__ import annotations

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.carrying import TOLERANCE, CarryingCodec, CarryingOnDevice
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.voxcpm2.codec.net import VaeDecoder


class VoxcpmCodec(CarryingCodec):
    """A loaded decoder."""

    def __init__(self, name: str, net: VaeDecoder) -> None:
        super().__init__(net, spec_of(name, net))

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return continued(self.spec, request, reference)


class VoxcpmOnDevice(CarryingOnDevice):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, name: str, net: VaeDecoder, device: Device, room: DeviceLimits) -> None:
        super().__init__(net, spec_of(name, net), device, room)

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return continued(self.spec, request, reference)


def continued(spec: CodecSpec, request: SpeechRequest, reference: Arrays | None) -> Arrays | None:
    """As many of a recording's last patches as samples depend on, where speech goes on from it."""
    asked = request.reference
    if reference is None or asked is None or asked.x_vector_only or not asked.text:
        return None
    assert spec.context_frames is not None
    return {"patch": reference["prompt"][-spec.context_frames :]}


def spec_of(name: str, net: VaeDecoder) -> CodecSpec:
    """What the engine has to know of a decoder."""
    c = net.config
    return CodecSpec(
        name,
        "voxcpm2",
        c.audio_vae_config.out_sample_rate,
        c.frame_samples,
        {"patch": Field((c.patch_size, c.feat_dim), "f4")},
        context_frames=c.context_frames,
        tolerance=TOLERANCE,
    )

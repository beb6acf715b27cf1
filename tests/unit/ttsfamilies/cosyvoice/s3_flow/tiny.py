"""Codecs small enough for tests, with the published rates, kernels and steps."""

from functools import cache, partial

import numpy as np

from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import Networks, load_networks
from ttsfamilies.cosyvoice.s3_flow.sizes import MEL_FRAMES
from ttsfamilies.cosyvoice.s3_flow.stretches import S3Stream
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec

# Of the prompt: the first hop is eight tokens.
PROMPT = 17
AMPLE = 1 << 30
# On a device all of it is taken at once.
PAGED = 1 << 28


def recording(seed: int = 1) -> dict[str, Array]:
    """What a talker derives of one."""
    random = np.random.default_rng(seed)
    return {
        "token": random.integers(0, 6561, PROMPT).astype(np.int16),
        "mel": random.normal(-3.0, 1.0, (MEL_FRAMES * PROMPT, 80)).astype(np.float32),
        "speaker": random.normal(size=(1, 192)).astype(np.float32),
    }


class Tiny(S3Flow):
    """Has the recording that tests do not bring."""

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        del reference
        return super().conditions(request, recording())


@cache
def networks(kind: str, chunk: int | None = None) -> Networks:
    return loaded(partial(load_networks, chunk=chunk), write_codec, kind, seed=2)


def tiny(kind: str, chunk: int | None = None, memory: int = AMPLE) -> Tiny:
    """In the engine, on the CPU."""
    return Tiny("m", kind, networks(kind, chunk), CodecOptions(memory_bytes=memory))


def tiny_on(
    device: Device, limits: DeviceLimits, kind: str, chunk: int | None = None, memory: int = PAGED
) -> Tiny:
    """On a device; weights are shared with `tiny`, whose device is the same CPU."""
    how = CodecOptions(device=device, limits=limits, memory_bytes=memory)
    return Tiny("m", kind, networks(kind, chunk), how)


def told(codec: S3Flow, seed: int = 3, voice: int = 1) -> S3Stream:
    """A stream that was told of a recording; voice: which one."""
    state = codec.open(SpeechRequest("r", "m", "", "text", seed=seed))
    codec.tell(state, recording(voice))
    return state

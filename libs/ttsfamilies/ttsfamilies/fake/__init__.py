"""A family without a network: both stages speak the whole protocol at calibrated speed."""

from typing import Annotated, Final

import msgspec

from ttscommon.wire.fields import Field
from ttscommon.wire.replicas import Voice

# In a curve's file: no step lasts so long, which is a mistake of milliseconds; none has no stream.
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]
Counted = Annotated[int, msgspec.Meta(ge=1)]

CODEBOOKS: Final = 4
CODEBOOK_SIZE: Final = 512
VOICES: Final = (
    Voice("slt", "SLT", "en-US", "female"),
    Voice("rms", "RMS", "en-US", "male"),
    Voice("awb", "AWB", "en-GB", "male"),
)


def fake_fields(*, floats: bool) -> dict[str, Field]:
    """Of a frame: floats (mel, latents), or ids."""
    if floats:
        return {"latent": Field((CODEBOOKS,), "f4")}
    return {"codes": Field((CODEBOOKS,), "i2", CODEBOOK_SIZE)}

"""Chime, an example of a family: every letter strikes a bell. No torch here: gateways read this."""

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

RATE, FRAME, NOTES = 16_000, 1600, 64
_FITS = Marks(("chime",))

SOUND = CodecFacts(
    *("chime", "Bells", _FITS, RATE, RATE / FRAME, "Apache-2.0", "none"),
    inside=".",
    package="chime",
)
FAMILY = FamilyFacts(*("chime", "Chime", _FITS, SOUND, (), "Apache-2.0", "none"), package="chime")

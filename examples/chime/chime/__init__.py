"""Chime, an example of a family: every letter strikes a bell. No torch here: gateways read this."""

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

RATE, FRAME, NOTES = 16_000, 1600, 64


def _fits(signs: Signs) -> bool:
    return signs.config.get("model_type") == "chime"


SOUND = CodecFacts(
    *("chime", "Bells", _fits, RATE, RATE / FRAME, "Apache-2.0", "none"),
    inside=".",
    package="chime",
)
FAMILY = FamilyFacts(*("chime", "Chime", _fits, SOUND, (), "Apache-2.0", "none"), package="chime")

"""The default voice, and every voice that `training/` makes."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs


def _fits(signs: Signs) -> bool:
    return signs.config.get("family") == "vesper" and "format" in signs.config


FAMILY = FamilyFacts(
    name="vesper",
    title="vesper, the default voice",
    fits=_fits,
    codec=CodecFacts(
        package="ttsfamilies.vesper.codec",
        name="vesper",
        title="vesper",
        fits=_fits,
        sample_rate=24_000,
        frame_rate_hz=20.0,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
    ),
    accepts=("speed",),
    code="Apache-2.0",
    weights="Apache-2.0",
)

"""Facts of an engine that a vocoder's edge is told once."""

from __future__ import annotations

from dataclasses import dataclass

from ttsfamilies.base.codec.base import CodecSpec


@dataclass(frozen=True)
class VocoderFacts:
    """conditioned: whether the codec makes anything of a request or its reference, see
    Codec.prefix.
    """

    spec: CodecSpec
    conditioned: bool

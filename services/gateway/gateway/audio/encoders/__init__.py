"""One module a codec. An encoder turns PCM into what a client asked for, as it comes."""

from gateway.audio.encoders.chosen import AudioEncoder, cost_ms, encoder_for, ready
from gateway.audio.encoders.raw import RawPcm

__all__ = ["AudioEncoder", "RawPcm", "cost_ms", "encoder_for", "ready"]

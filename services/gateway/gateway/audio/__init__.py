"""Audio on its way to a client: skipped, resampled, encoded, and queued for its connection."""

from gateway.audio.outbox import Outbox
from gateway.audio.pipe import Encoder, Piece, RawPcm, pieces
from gateway.audio.resample import Pcm, resampler

__all__ = ["Encoder", "Outbox", "Pcm", "Piece", "RawPcm", "pieces", "resampler"]

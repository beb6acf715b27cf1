"""Audio on its way to a client: stretched, resampled, encoded, and queued for its connection."""

from gateway.audio.encoders import AudioEncoder, encoder_for
from gateway.audio.formats import AudioFormat
from gateway.audio.outbox import Outbox
from gateway.audio.pipe import ClientPipe, PcmBlock, pieces
from gateway.audio.provenance import Provenance
from gateway.audio.resample import Pcm

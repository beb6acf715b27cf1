"""One module a codec. An encoder turns PCM into what a client asked for, as it comes."""

from gateway.audio.encoders.chosen import AudioEncoder, RawPcm, cost_ms, encoder_for, ready

"""`python -m vocoder`."""

from ttscommon.process.service import launch
from vocoder.service import serve
from vocoder.settings import VocoderSettings

if __name__ == "__main__":
    launch("vocoder", VocoderSettings, serve)

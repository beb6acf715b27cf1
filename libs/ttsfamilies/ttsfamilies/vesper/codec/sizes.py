"""Numbers of the vesper codec's sound."""

from typing import Final

SAMPLE_RATE: Final = 24_000
HOP: Final = 300
FFT: Final = 1200
BINS: Final = FFT // 2 + 1
PARTS: Final = 4
WINDOWS: Final = FFT // HOP
"""Windows that a sample lies in."""
VOICED_HZ: Final = 40.0
HIGHEST_HARMONIC_HZ: Final = 11_000.0
CYCLE: Final = 1 << 32
LOUDEST: Final = 7.0

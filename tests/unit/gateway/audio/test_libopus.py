"""libopus is found where it lies, and its refusals are told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gateway.audio.encoders import chosen, libopus
from gateway.audio.formats import AudioFormat
from gateway.errors import Unsupported

RATE_HZ = 24_000


@pytest.fixture
def forgotten() -> Iterator[None]:
    """The library is looked for anew, before the test and behind it."""
    libopus.library.cache_clear()
    yield
    libopus.library.cache_clear()


def test_the_packages_library_comes_before_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = libopus.candidates()
    assert "opuslib_next" in first
    assert last == "libopus.0.dylib"
    monkeypatch.setattr(libopus, "find_spec", lambda name: None)
    assert list(libopus.candidates()) == ["libopus.so.0", "libopus.0.dylib"]


@pytest.mark.usefixtures("forgotten")
def test_opus_is_refused_with_a_remedy_where_there_is_no_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libopus, "candidates", lambda: iter(["libnothing.so.0"]))
    with pytest.raises(Unsupported, match="libopus0"):
        chosen.ready(AudioFormat("opus"))


def test_packets_are_as_small_as_the_bit_rate_asks() -> None:
    sound = np.random.default_rng(0).normal(scale=3000, size=(50, 480)).astype(np.int16)
    sizes = []
    for bit_rate in (16_000, 64_000):
        encoder = libopus.OpusEncoder(RATE_HZ, bit_rate, complexity=5)
        assert encoder.lookahead > 0
        sizes.append(sum(len(encoder.encode(frame)) for frame in sound))
    assert 0.7 < sizes[0] / 2000 < 1.5  # bytes of a second
    assert 0.7 < sizes[1] / 8000 < 1.5


def test_what_libopus_refuses_is_raised_with_its_reason() -> None:
    with pytest.raises(libopus.OpusFailed, match="invalid argument"):
        libopus.OpusEncoder(RATE_HZ, 48_000, complexity=5).encode(np.zeros(7, np.int16))
    with pytest.raises(libopus.OpusFailed, match="invalid argument"):
        libopus.OpusEncoder(44_100, 48_000, complexity=5)

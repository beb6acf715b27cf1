from __future__ import annotations

import numpy as np
import pytest

from gateway.audio.resample import resampler


def test_the_models_own_rate_passes_unchanged() -> None:
    same = resampler(16_000, 16_000)
    pcm = np.arange(100, dtype=np.int16)
    assert same.feed(pcm) is pcm
    assert len(same.flush()) == 0


@pytest.mark.parametrize("target", [8_000, 24_000, 44_100, 48_000])
def test_chunks_resample_to_the_same_as_the_whole(target: int) -> None:
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)).astype(np.int16)
    whole = resampler(16_000, target)
    chunked = resampler(16_000, target)
    expected = np.concatenate([whole.feed(tone), whole.flush()])
    parts = [chunked.feed(part) for part in np.array_split(tone, 13)]
    result = np.concatenate([*parts, chunked.flush()])
    assert len(result) == target
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1

"""The mark is the authors' own, wherever a stream is cut, left and taken up again."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from safetensors.numpy import save_file

from gateway.audio import Pcm
from gateway.audio.watermark import BlockGrid, NoWatermark, Perth, WatermarkedStream, scores_of_cuts
from gateway.audio.watermark.network import SpectrumFrames, levels
from tests.unit.gateway.audio.tiny_perth import (
    BINS,
    COMPARED,
    GOLDEN,
    RATE,
    SECONDS,
    sound,
    tiny,
    weights,
)

MODEL_HZ: Final = 24_000


def marked(pcm: Pcm, step: int, start: int = 0, rate: int = MODEL_HZ) -> Pcm:
    stream = WatermarkedStream(tiny(), rate, start)
    parts = [stream.feed(pcm[at : at + step]) for at in range(0, len(pcm), step)]
    return np.concatenate([*parts, stream.flush()])


def test_a_stream_is_marked_as_the_authors_code_marks_a_whole() -> None:
    found = marked(sound(SECONDS, RATE), 1000, rate=RATE)
    with np.load(GOLDEN) as golden:
        assert np.abs(found[COMPARED] - golden["marked"]).max() <= 0.51
    assert np.abs(found.astype(int) - sound(SECONDS, RATE)).max() > 100


def test_the_detector_hears_what_the_authors_does() -> None:
    frames, pcm = SpectrumFrames(RATE, BINS), sound(SECONDS, RATE)
    with np.load(GOLDEN) as golden:
        told = tiny().heard(levels(frames.spectra((pcm / 32_768).astype(np.float32))))
        assert told == pytest.approx(float(golden["heard"][0].clip(0, 1)), abs=1e-4)


@pytest.mark.parametrize("rate", [8000, 22_050, 24_000])
@pytest.mark.parametrize("step", [317, 9000])
def test_how_the_audio_is_cut_changes_no_sample(rate: int, step: int) -> None:
    pcm = sound(1.1, rate)
    found = marked(pcm, step, rate=rate)
    assert len(found) == len(pcm)
    assert np.array_equal(found, marked(pcm, 2400, rate=rate))


@pytest.mark.parametrize("sample", [1, 24_000, 31_999])
def test_a_stream_that_is_taken_up_again_is_marked_alike(sample: int) -> None:
    pcm = sound(2.0, MODEL_HZ)
    whole = marked(pcm, 3840)
    start = max(0, sample - BlockGrid(tiny(), MODEL_HZ).lead)
    assert np.array_equal(marked(pcm[start:], 1001, start)[sample - start :], whole[sample:])


def test_the_first_sound_leaves_at_once() -> None:
    stream, pcm = WatermarkedStream(tiny(), MODEL_HZ), sound(1.0, MODEL_HZ)
    assert np.array_equal(stream.feed(pcm[:8000]), pcm[:8000])


def test_no_sample_waits_longer_than_is_said() -> None:
    """docs/provenance.md: 204 to 404 ms."""
    stream, pcm = WatermarkedStream(tiny(), MODEL_HZ), sound(2.0, MODEL_HZ)
    waited, given = [], 0
    for at in range(0, len(pcm), 1200):
        given += len(stream.feed(pcm[at : at + 1200]))
        waited.append(at + 1200 - given)
    assert max(waited) <= 0.404 * MODEL_HZ
    assert min(waited[20:]) >= 0.194 * MODEL_HZ


def test_silence_stays_silence() -> None:
    pcm = np.zeros(MODEL_HZ, np.int16)
    assert not marked(pcm, 2400).any()
    assert tiny().heard(np.zeros((50, BINS), np.float32)) == 0.0


def test_a_recording_is_judged_part_by_part() -> None:
    heard = (sound(11.5, 8000) / 32_768).astype(np.float32)
    cuts = list(scores_of_cuts(tiny(), heard, 8000))
    assert [(cut.start_s, cut.end_s) for cut in cuts] == [(0, 5), (5, 10), (10, 11.5)]
    assert list(scores_of_cuts(tiny(), heard[:100], 8000)) == []


def test_weights_are_read_from_a_file_and_others_refused(tmp_path: Path) -> None:
    save_file(weights(), tmp_path / "perth.safetensors")
    assert Perth.load(tmp_path / "perth.safetensors").bins == BINS
    save_file({"a": weights()["encoder.layers.0.conv.bias"]}, tmp_path / "other.safetensors")
    with pytest.raises(NoWatermark, match="not Perth's"):
        Perth.load(tmp_path / "other.safetensors")
    with pytest.raises(NoWatermark, match="cannot be read"):
        Perth.load(tmp_path / "none.safetensors")

"""MP3 frames are counted as they come."""

import lameenc
import numpy as np
import pytest

from antiphon_bench.clients.http import BadMp3, Mp3Stream
from gateway.audio import Provenance
from gateway.audio.provenance import id3


def encoded(rate: int, kbit_s: int, seconds: int) -> bytes:
    encoder = lameenc.Encoder()
    encoder.set_bit_rate(kbit_s)
    encoder.set_in_sample_rate(rate)
    encoder.set_out_sample_rate(rate)
    encoder.set_channels(1)
    encoder.silence()
    noise = np.random.default_rng(0).integers(-9000, 9000, rate * seconds).astype("<i2")
    return bytes(encoder.encode(noise.tobytes()) + encoder.flush())


@pytest.mark.parametrize(
    ("rate", "kbit_s"), [(24_000, 64), (44_100, 128), (22_050, 32), (8000, 16)]
)
def test_samples_are_counted_however_the_stream_is_cut(rate: int, kbit_s: int) -> None:
    data, stream = encoded(rate, kbit_s, 2), Mp3Stream()
    samples = sum(stream.feed(data[at : at + 97]) for at in range(0, len(data), 97))
    assert stream.sample_rate == rate
    assert samples == pytest.approx(2 * rate, abs=4 * 1152)
    assert samples >= 2 * rate


@pytest.mark.parametrize("step", [1, 7, 5000])
def test_a_tag_in_front_counts_for_nothing(step: int) -> None:
    sound = encoded(24_000, 64, 1)
    plain, tagged = Mp3Stream(), Mp3Stream()
    data = id3(Provenance("vesper")) + sound
    samples = sum(tagged.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert samples == plain.feed(sound)


@pytest.mark.parametrize("data", [b"RIFF....", b"\xff\xfb\x00\x00", b"\xff\xff\xff\xff"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadMp3):
        Mp3Stream().feed(data)

"""Encoders: what they make is decoded by somebody else's decoder and compared."""

import io
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from gateway.audio import AudioFormat, Provenance, encoder_for
from gateway.audio.encoders import aac, chosen, opus
from gateway.audio.encoders.aac import REQUIREMENT, adts
from gateway.audio.encoders.chosen import ALAW, MULAW
from gateway.audio.encoders.compressed import GrowingFile
from gateway.audio.encoders.opus import OggStream, checksum
from gateway.audio.formats import Codec
from gateway.errors import Unsupported

ROOT = Path(__file__).resolve().parents[4]
RATE = 24_000
PACKED: tuple[Codec, ...] = ("mp3", "opus", "aac", "flac")
BARE: tuple[Codec, ...] = ("pcm_s16le", "pcm_f32le", "mulaw", "alaw")


def tone(seconds: float, rate: int = RATE) -> npt.NDArray[np.int16]:
    times = np.arange(int(seconds * rate)) / rate
    return (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)


def encoded(
    audio: AudioFormat,
    pcm: npt.NDArray[np.int16],
    step: int,
    rate: int = RATE,
    origin: Provenance | None = None,
) -> bytes:
    encoder = encoder_for(audio, rate, origin)
    parts = [encoder.feed(pcm[at : at + step]) for at in range(0, len(pcm), step)]
    return b"".join((*parts, encoder.finish()))


def decoded(data: bytes, rate: int = RATE) -> npt.NDArray[Any]:
    """[samples] by FFmpeg, at `rate`."""
    av = pytest.importorskip("av")
    resampler = av.AudioResampler("s16", "mono", rate)
    with av.open(io.BytesIO(data)) as file:
        frames = [f for frame in file.decode(audio=0) for f in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray().ravel() for frame in frames])


def loudest_hz(pcm: npt.NDArray[Any], rate: int = RATE) -> float:
    spectrum = np.abs(np.fft.rfft(pcm.astype(float) * np.hanning(len(pcm))))
    return float(np.argmax(spectrum)) * rate / len(pcm)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_a_packed_format_decodes_to_the_same_sound(codec: Codec, rate: int) -> None:
    pcm = tone(1.0, rate)
    found = decoded(encoded(AudioFormat(codec), pcm, 900, rate), rate)
    # mp3 and aac begin with silence of their filters: less than 0.1 s.
    assert 0 <= len(found) / rate - 1.0 < 0.1 or codec == "opus"
    assert abs(len(found) / rate - 1.0) < 0.1
    assert abs(loudest_hz(found, rate) - 440) < 2


@pytest.mark.parametrize("codec", PACKED)
def test_how_the_audio_is_cut_changes_no_sample(codec: Codec) -> None:
    pcm = tone(0.5)
    small = decoded(encoded(AudioFormat(codec), pcm, 317))
    large = decoded(encoded(AudioFormat(codec), pcm, 5000))
    assert np.array_equal(small, large)


@pytest.mark.parametrize("codec", [*PACKED, *BARE])
def test_first_bytes_leave_within_a_fifth_of_a_second_of_audio_and_none_without(
    codec: Codec,
) -> None:
    encoder, pcm = encoder_for(AudioFormat(codec), RATE), tone(0.2)
    assert b"".join(encoder.feed(pcm[at : at + 480]) for at in range(0, len(pcm), 480))
    assert encoder_for(AudioFormat(codec), RATE).finish() == b""


@pytest.mark.parametrize("codec", PACKED)
def test_an_encoder_holds_back_a_bounded_part(codec: Codec) -> None:
    encoder = encoder_for(AudioFormat(codec), RATE)
    for _ in range(20):
        encoder.feed(tone(0.5))
    assert len(encoder.finish()) < 5000


def test_flac_loses_nothing() -> None:
    pcm = np.random.default_rng(0).integers(-9000, 9000, RATE).astype(np.int16)
    assert np.array_equal(decoded(encoded(AudioFormat("flac"), pcm, 960)), pcm)


@pytest.mark.parametrize("codec", BARE)
def test_a_wav_of_any_samples_is_read_back(codec: Codec) -> None:
    data = encoded(AudioFormat(codec, "wav"), tone(0.2), 480)
    assert data[4:8] == data[40:44] == b"\xff\xff\xff\xff"
    sizes = [(4, len(data) - 8), (40, len(data) - 44)]
    whole = bytearray(data)
    for at, size in sizes:  # a file must name its length; a stream leaves it open
        whole[at : at + 4] = size.to_bytes(4, "little")
    found, rate = soundfile.read(io.BytesIO(bytes(whole)), dtype="float64")
    assert rate == RATE
    off = np.abs(found * 32768 - tone(0.2)).max()
    assert off <= (0 if codec.startswith("pcm") else 300)


@pytest.mark.parametrize(("table", "subtype"), [(MULAW, "ULAW"), (ALAW, "ALAW")])
def test_g711_agrees_with_libsndfile_on_every_sample(
    table: npt.NDArray[np.uint8], subtype: str
) -> None:
    file = io.BytesIO()
    samples = np.arange(-32768, 32768).astype(np.int16)
    soundfile.write(file, samples, 8000, subtype, format="RAW")
    theirs = np.frombuffer(file.getvalue(), np.uint8)
    # At a decision level either code is as near.
    assert (table == theirs).mean() > 0.99


def test_an_ogg_page_has_the_checksum_of_the_reference() -> None:
    # "OggS" pages of libogg begin from 0 with polynomial 0x04C11DB7: CRC-32/MPEG-2 without its
    # initial value; check value of "123456789" by hand.
    assert checksum(b"123456789") == 0x89A1897F
    page = OggStream(7).page([b"x" * 300], 0)
    assert page[:6] == b"OggS\x00\x02"
    assert page[26:29] == bytes((2, 255, 45))


def test_an_adts_header_names_its_profile() -> None:
    assert adts(b"abc", 24_000)[:3] == bytes((0xFF, 0xF1, (1 << 6) | (6 << 2)))


def test_without_any_encoder_aac_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(aac, "library", lambda: None)
    with pytest.raises(Unsupported) as caught:
        encoder_for(AudioFormat("aac"), RATE)
    assert caught.value.param == "response_format"
    assert f"pip install '{REQUIREMENT}'" in caught.value.message
    project = tomllib.loads((ROOT / "services/gateway/pyproject.toml").read_text("utf-8"))
    assert project["project"]["optional-dependencies"]["aac"] == [REQUIREMENT]


def test_a_growing_file_forgets_what_is_written_over_taken_bytes() -> None:
    file = GrowingFile()
    file.write(b"headbody")
    assert file.take() == b"headbody"
    file.seek(0)
    file.write(b"HEADBODYtail")
    assert file.take() == b"tail"
    file.seek(0, io.SEEK_END)
    assert file.tell() == 12


@pytest.mark.parametrize(
    ("codec", "wanted", "rate"),
    [("mp3", 22_050, 22_050), ("mp3", 9000, 11_025), ("opus", 22_050, 24_000), ("flac", 9000, 9000),
     ("opus", 44_100, 48_000)],
)  # fmt: skip
def test_a_codec_takes_the_next_rate_it_can(codec: Codec, wanted: int, rate: int) -> None:
    assert AudioFormat(codec).rate_for(wanted) == rate


def test_the_packages_library_comes_before_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = opus.candidates()
    assert "opuslib_next" in first
    assert last == "libopus.0.dylib"
    monkeypatch.setattr(opus, "find_spec", lambda name: None)
    assert list(opus.candidates()) == ["libopus.so.0", "libopus.0.dylib"]


def test_opus_is_refused_with_a_remedy_where_there_is_no_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opus, "candidates", lambda: iter(["libnothing.so.0"]))
    monkeypatch.setattr(chosen, "library", opus.library.__wrapped__)
    with pytest.raises(Unsupported, match="libopus0"):
        chosen.ready(AudioFormat("opus"))


def test_packets_are_as_small_as_the_bit_rate_asks() -> None:
    sound = np.random.default_rng(0).normal(scale=3000, size=(50, 480)).astype(np.int16)
    sizes = []
    for bit_rate in (16_000, 64_000):
        encoder = opus.OpusEncoder(RATE, bit_rate, complexity=5)
        assert encoder.lookahead > 0
        sizes.append(sum(len(encoder.encode(frame)) for frame in sound))
    assert 0.7 < sizes[0] / 2000 < 1.5  # bytes of a second
    assert 0.7 < sizes[1] / 8000 < 1.5


def test_what_libopus_refuses_is_raised_with_its_reason() -> None:
    with pytest.raises(opus.OpusFailed, match="invalid argument"):
        opus.OpusEncoder(RATE, 48_000, complexity=5).encode(np.zeros(7, np.int16))
    with pytest.raises(opus.OpusFailed, match="invalid argument"):
        opus.OpusEncoder(44_100, 48_000, complexity=5)

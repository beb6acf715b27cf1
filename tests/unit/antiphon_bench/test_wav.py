import io
import struct
import wave
from pathlib import Path

import pytest

from antiphon_bench.wav import BadWav, Layout, WavStream, write_wav
from tests.unit.antiphon_bench.loopback import stream_header

PCM = bytes(range(200))


def file_of(pcm: bytes, rate: int = 22_050, channels: int = 2) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return buffer.getvalue()


@pytest.mark.parametrize("size", [1, 3, 7, 44, 1000])
def test_the_header_may_arrive_in_any_pieces(size: int) -> None:
    data, stream = file_of(PCM), WavStream()
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    assert b"".join(stream.feed(piece) for piece in pieces) == PCM
    assert stream.layout == Layout(sample_rate=22_050, channels=2)


def test_other_chunks_are_skipped() -> None:
    data = file_of(PCM)
    extra = struct.pack("<4sI", b"LIST", 5) + b"hello\0"
    stream = WavStream()
    assert stream.feed(data[:12] + extra + data[12:]) == PCM


def test_a_stream_of_unknown_length_is_read_to_its_end() -> None:
    stream = WavStream()
    assert stream.feed(stream_header(16_000)) == b""
    assert stream.feed(PCM) == PCM
    assert stream.layout == Layout(sample_rate=16_000, channels=1)


@pytest.mark.parametrize(
    "data",
    [
        b"ID3\x04mp3 instead of wav",
        b"R",
        stream_header(16_000)[:34] + struct.pack("<H", 8) + stream_header(16_000)[36:],
        b"RIFF\0\0\0\0WAVE" + struct.pack("<4sI", b"data", 4) + b"abcd",
    ],
)
def test_what_is_not_16_bit_pcm_is_refused(data: bytes) -> None:
    stream = WavStream()
    if data == b"R":
        assert stream.feed(data) == b""  # still too little to tell
        data = b"IFX"
    with pytest.raises(BadWav):
        stream.feed(data)


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    write_wav(tmp_path / "deep" / "a.wav", PCM, 16_000)
    stream = WavStream()
    assert stream.feed((tmp_path / "deep" / "a.wav").read_bytes()) == PCM
    assert stream.layout == Layout(sample_rate=16_000, channels=1)

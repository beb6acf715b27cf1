import io
import wave

from gateway.audio import formats


def test_an_exact_header_is_read_back_by_the_standard_library() -> None:
    data = formats.header(16_000, 3) + b"\x01\x00\x02\x00\x03\x00"
    with wave.open(io.BytesIO(data)) as audio:
        assert audio.getparams()[:4] == (1, 2, 16_000, 3)
        assert audio.readframes(3) == data[44:]


def test_an_open_header_leaves_both_sizes_unknown() -> None:
    header = formats.header(24_000, None)
    assert len(header) == 44
    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"

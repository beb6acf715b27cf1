"""Every container says where its sound is from, and FFmpeg reads it; no sample is another."""

import io
from typing import Final

import numpy as np
import pytest

from gateway.audio import AudioFormat, Provenance, encoder_for
from gateway.audio.formats import Codec
from gateway.audio.pipe import silence
from gateway.audio.provenance import DIGITAL_SOURCE_TYPE, claims
from tests.unit.gateway.audio.test_encoders import BARE, PACKED, RATE, decoded, encoded, tone

ORIGIN: Final = Provenance("vesper", "Radio [Nord]; Köln")
FIELDS: Final = {
    "DigitalSourceType": DIGITAL_SOURCE_TYPE,
    "AISystemUsed": "Antiphon vesper",
    "GeneratedBy": "Radio Nord Köln",
}
TAGGED: Final = [*(AudioFormat(codec) for codec in PACKED), AudioFormat(container="wav")]
XMP: Final = (
    b"<rdf:Description Iptc4xmpExt:DigitalSourceType="
    b'"http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"/>'
)


def made(audio: AudioFormat, origin: Provenance | None = ORIGIN) -> bytes:
    return encoded(audio, tone(0.3), 900, origin=origin)


@pytest.mark.parametrize("audio", TAGGED, ids=lambda audio: audio.media_type)
def test_ffmpeg_reads_the_origin_and_the_same_sound(audio: AudioFormat) -> None:
    av = pytest.importorskip("av")
    with av.open(io.BytesIO(made(audio))) as file:
        tags = {**file.metadata, **file.streams[0].metadata}
    told = {name.lower(): value for name, value in tags.items()}
    assert told["comment"] == ORIGIN.comment
    if audio.container != "wav":
        assert {name: told[name.lower()] for name in FIELDS} == FIELDS
    assert np.array_equal(decoded(made(audio)), decoded(made(audio, None)))


@pytest.mark.parametrize("audio", TAGGED, ids=lambda audio: audio.media_type)
def test_what_a_file_claims_is_read_again(audio: AudioFormat) -> None:
    assert list(claims(made(audio))) == [FIELDS]
    assert list(claims(made(audio, None))) == []


@pytest.mark.parametrize("codec", PACKED)
def test_tags_leave_with_the_first_sound_and_not_before(codec: Codec) -> None:
    tagged, plain = (encoder_for(AudioFormat(codec), RATE, origin) for origin in (ORIGIN, None))
    pcm = tone(0.2)
    for at in range(0, len(pcm), 120):
        assert bool(tagged.feed(pcm[at : at + 120])) == bool(plain.feed(pcm[at : at + 120]))
    assert encoder_for(AudioFormat(codec), RATE, ORIGIN).finish() == b""


@pytest.mark.parametrize("codec", PACKED)
def test_the_tag_is_small(codec: Codec) -> None:
    sizes = [len(made(AudioFormat(codec), origin)) for origin in (ORIGIN, None)]
    assert 0 < sizes[0] - sizes[1] < 400


@pytest.mark.parametrize("codec", BARE)
def test_bare_samples_stay_bare(codec: Codec) -> None:
    assert made(AudioFormat(codec)) == made(AudioFormat(codec), None)


def test_silence_for_clients_says_it_too() -> None:
    data = b"".join(piece.data for piece in silence(AudioFormat("mp3"), RATE, 0.2, ORIGIN))
    assert list(claims(data)) == [FIELDS]


def test_a_copy_into_mp4_keeps_the_origin() -> None:
    av = pytest.importorskip("av")
    copy = io.BytesIO()
    with av.open(io.BytesIO(made(AudioFormat("aac")))) as source, av.open(copy, "w", "ipod") as out:
        stream = out.add_stream_from_template(source.streams[0])
        out.metadata.update(source.metadata)
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    assert list(claims(copy.getvalue())) == [FIELDS]


def test_a_tag_that_another_program_wrote_as_utf_16_is_read() -> None:
    assert list(claims(b"\xff\xfe" + ORIGIN.comment.encode("utf-16-le"))) == [FIELDS]


def test_what_other_systems_claim_is_their_term_alone() -> None:
    term = DIGITAL_SOURCE_TYPE.replace("trained", "compositeWithTrained")
    assert list(claims(b"RIFF" + XMP)) == [{"DigitalSourceType": term}]
    assert list(claims(b"Synthetic speech [of course]")) == []


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("Harbour", ', by="Harbour"'),
        ('a "b" \\', ', by="a \\"b\\" \\\\"'),
        ("Köln 5%", ', by=%"K%c3%b6ln 5%25"'),
        ("", ""),
    ],
)
def test_a_header_is_a_dictionary_of_structured_fields(by: str, said: str) -> None:
    origin = Provenance("vesper", by)
    assert ("GeneratedBy" in origin.fields) is bool(by)
    assert origin.header == (
        f'digital-source-type=trainedAlgorithmicMedia, system="Antiphon", model="vesper"{said}'
    )

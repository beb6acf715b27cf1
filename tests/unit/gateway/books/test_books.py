"""What of a book is the same whichever gateway speaks it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gateway.audio import AudioFormat, Provenance
from gateway.audio.chaptered import book_encoder
from gateway.audio.encoders.compressed import packed, unpacked
from gateway.books.encoding import BookEncoder, described, headed, is_file, raw_result
from gateway.books.job_store import made_of
from gateway.books.portions import is_final, passes, pause_s, seed_of
from gateway.books.records import BookOrder, BookRecord, PortionMade, PortionText
from gateway.errors import Poison, SynthesisFailed
from gateway.requests import RequestOptions
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Overloaded, UnknownVoice

RATE = 16_000


def record(audio: AudioFormat = AudioFormat(container="wav"), portions: int = 3) -> BookRecord:  # noqa: B008 -- frozen
    options = RequestOptions(extra_params={"min_p": 0.1}, lexicons=("brands",))
    order = BookOrder("vesper", audio, "wav", RATE, 7, options=options)
    return BookRecord("b" * 22, "acme", order, portions, 300, 1.0, epoch=2)


class Memory(dict[str, bytes]):
    """Parts that are kept here."""

    async def put(self, name: str, data: bytes) -> None:
        self[name] = data

    async def delete(self, name: str) -> None:
        self.pop(name, None)

    async def get(self, name: str) -> bytes | None:  # type: ignore[override]
        return super().get(name)


def sound(index: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    times = np.arange(RATE // 2 + index)
    return (8000 * np.sin(times * (index + 1) / 30)).astype(np.int16)


async def sound_of(index: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return sound(index)


def test_portions_have_seeds_of_their_own_that_never_change() -> None:
    seeds = [seed_of(7, index, redraw) for index in range(50) for redraw in range(3)]
    assert len(set(seeds)) == len(seeds)
    assert seed_of(7, 0, 0) == 1_896_524_673
    assert seed_of(8, 0, 0) != seed_of(7, 0, 0)


@pytest.mark.parametrize("samples", [0, 1, 40_000])
def test_stored_samples_come_back_bit_by_bit(samples: int) -> None:
    pcm = np.random.default_rng(0).integers(-32_768, 32_767, samples, np.int16, endpoint=True)
    assert np.array_equal(unpacked(packed(pcm, RATE)), pcm)


def test_a_wav_is_the_portions_behind_a_head_that_knows_their_length_and_their_origin() -> None:
    made = {2: PortionMade(30, 1), 0: PortionMade(10, 1), 1: PortionMade(20, 2)}
    one = replace(record(), made=made, samples=60)
    result = raw_result(one)
    owners = ((0, 1), (1, 2), (2, 1))
    assert [part.name for part in result.parts] == [one.portion_name(*each) for each in owners]
    assert result.size == 44 + 120
    assert int.from_bytes(result.head[40:44], "little") == 120
    told = replace(one, order=replace(one.order, provenance=Provenance("vesper", "Acme")))
    assert BookRecord.decode(told.encode()) == told
    head = raw_result(told).head  # whichever gateway makes it
    assert b"trainedAlgorithmicMedia" in head
    assert b"Acme" in head


async def test_an_encoded_book_is_the_same_bytes_whoever_encodes_it() -> None:
    first, second = Memory(), Memory()
    told: list[int] = []
    one = record(AudioFormat("flac"), portions=4)
    made = await BookEncoder(first, one, sound_of, told.append).run()
    again = await BookEncoder(second, one, sound_of, told.append).run()
    assert made == again
    assert first == second
    assert made.size == sum(map(len, first.values()))
    assert told


def test_what_an_owner_may_have_stored_is_known_to_its_successor() -> None:
    one = record()
    made, running = {0: PortionMade(5, 1)}, (one.request_id(2, 0),)
    names = set(made_of(replace(one, made=made, running=running, encoded=1)))
    assert {one.portion_name(0, 1), one.portion_name(2, 2), one.part_name(0, 2)} <= names


@pytest.mark.parametrize(
    ("error", "failures", "final"),
    [
        (Overloaded("full", retry_after_s=500.0), 99, False),
        (BusUnavailable("away"), 99, False),
        (UnknownVoice("gone"), 0, True),
        (Poison("it kills"), 0, True),
        (SynthesisFailed("why?"), 2, False),
        (SynthesisFailed("why?"), 3, True),
    ],
)
def test_a_book_fails_with_what_does_not_pass(
    error: AntiphonError, failures: int, final: bool
) -> None:
    assert is_final(error, failures) is final
    assert passes(error) is (failures == 99)
    assert 1.0 <= pause_s(error) <= 30.0


CHAPTERS = [
    PortionText("Before.", "a", 0.0),
    PortionText("One.", "a", 0.0, 1, "The First"),
    PortionText("Two.", "a", 0.0, 2, "The Second"),
]


@pytest.mark.parametrize("kind", ["mp3", "opus"])
async def test_a_result_has_its_text_s_chapters(kind: Any) -> None:
    audio = AudioFormat(kind)
    one = record(audio)
    one = replace(one, order=replace(one.order, title="A Book", author="Ann"))
    one = replace(one, made={n: PortionMade(RATE * (n + 1), 1) for n in range(3)})
    assert headed(one, CHAPTERS) == kind
    said = described(one, CHAPTERS)
    assert [(c.title, c.start_s, c.end_s) for c in said.chapters] == [
        ("The First", 1.0, 3.0), ("The Second", 3.0, 6.0),
    ]  # fmt: skip
    memory = Memory()
    encoder = book_encoder(kind, RATE, said)
    result = await BookEncoder(memory, one, sound_of, lambda _: None, encoder).run()
    data = b"".join(memory[part.name] for part in result.parts)
    assert all(word in data[:2000] for word in (b"The First", b"The Second", b"A Book", b"Ann"))


def test_without_titles_or_in_other_formats_there_are_none() -> None:
    assert headed(record(AudioFormat("mp3")), CHAPTERS[:1]) is None
    assert headed(record(AudioFormat("flac")), CHAPTERS) is None


async def test_an_m4b_is_whole_with_chapters(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    one = record(AudioFormat("aac", "mp4"))
    one = replace(one, made={n: PortionMade(len(sound(n)), 1) for n in range(3)})
    assert is_file(one)
    memory = Memory()
    encoder = BookEncoder(memory, one, sound_of, lambda _: None)
    result = await encoder.run_file(described(one, CHAPTERS))
    data = b"".join(memory[part.name] for part in result.parts)
    assert len(data) == result.size
    path = tmp_path / "book.m4b"
    path.write_bytes(data)
    with av.open(str(path)) as file:
        titles = [chapter["metadata"]["title"] for chapter in file.chapters()]
        seconds = sum(frame.samples for frame in file.decode(audio=0)) / RATE
    assert titles == ["The First", "The Second"]
    assert seconds == pytest.approx(1.5, abs=0.15)

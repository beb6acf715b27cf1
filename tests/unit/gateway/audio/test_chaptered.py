from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from gateway.audio import Provenance
from gateway.audio.chaptered import BOOK_FORMATS, BookFormat, BookMetadata, ChapterTime, book_file
from tests.books import png
from ttscommon.books import Cover

RATE = 24_000
SECONDS = 3
FORMATS = pytest.mark.parametrize("wanted", BOOK_FORMATS)
COVER = Cover(png(), "image/png")
BOOK = BookMetadata(
    "The Lamps & the Tide",
    "Ann Wright",
    "en-GB",
    COVER,
    (ChapterTime("Die Flut ü", 0.0, 1.25), ChapterTime("Two", 1.25, 3.0)),
    Provenance("vesper", "Example Press"),
)


def written(path: Path, wanted: BookFormat, book: BookMetadata, rate: int = RATE) -> Path:
    """A tone in blocks of odd lengths."""
    file = book_file(path, wanted, rate, book)
    tone = (8000 * np.sin(np.arange(rate * SECONDS) * 0.05)).astype(np.int16)
    for at in range(0, len(tone), 7001):
        file.write(tone[at : at + 7001])
    file.close()
    return path


def chapters(container: Any) -> Iterator[tuple[str, float, float]]:
    for one in container.chapters():
        base = float(one["time_base"])
        yield one["metadata"]["title"], one["start"] * base, one["end"] * base


def covers(container: Any) -> list[bytes]:
    disposition = av.stream.Disposition.attached_pic
    streams = [s for s in container.streams.video if s.disposition & disposition]
    return [bytes(packet) for packet in container.demux(streams) if packet.size] if streams else []


@FORMATS
def test_a_file_tells_its_chapters_its_book_and_its_origin(
    wanted: BookFormat, tmp_path: Path
) -> None:
    with av.open(str(written(tmp_path / "book", wanted, BOOK))) as container:
        found = list(chapters(container))
        said = {**container.metadata, **container.streams.audio[0].metadata}
        said = {name.lower(): value for name, value in said.items()}
        assert [title for title, _, _ in found] == ["Die Flut ü", "Two"]
        assert [time for _, *times in found for time in times] == pytest.approx(
            [0.0, 1.25, 1.25, 3.0], abs=0.03
        )
        assert said["title"] == "The Lamps & the Tide"
        assert said["artist"] == "Ann Wright"
        assert "trainedAlgorithmicMedia" in said["comment"]
        assert "Example Press" in said["comment"]
        assert covers(container) == [png()]


@FORMATS
def test_a_file_of_which_nothing_is_known_has_all_of_the_sound(
    wanted: BookFormat, tmp_path: Path
) -> None:
    path = written(tmp_path / "book", wanted, BookMetadata("T"), 22_050)
    with av.open(str(path)) as container:
        assert list(container.chapters()) == []
        assert covers(container) == []
        frames = list(container.decode(audio=0))
    samples = sum(frame.samples for frame in frames)
    assert samples / frames[0].sample_rate == pytest.approx(SECONDS, abs=0.15)
    assert frames[len(frames) // 2].to_ndarray().any()


def test_a_cover_that_fills_several_pages_is_whole(tmp_path: Path) -> None:
    noise = np.random.default_rng(7).bytes(200_000)
    large = Cover(png() + noise, "image/png")
    path = written(tmp_path / "book", "opus", BookMetadata("T", cover=large))
    with av.open(str(path)) as container:
        assert covers(container) == [large.data]
    with av.open(str(path)) as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) > 0


def test_more_chapters_than_a_table_of_id3_holds_are_all_there(tmp_path: Path) -> None:
    times = tuple(ChapterTime(str(n), n / 200, (n + 1) / 200) for n in range(600))
    with av.open(str(written(tmp_path / "book", "mp3", BookMetadata("T", chapters=times)))) as file:
        assert [title for title, _, _ in chapters(file)] == [str(n) for n in range(600)]

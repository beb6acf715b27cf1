"""The parts of `antiphon read`, without a server."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from antiphon.app import app
from antiphon.client import (
    Audio,
    Event,
    Finished,
    GatewayError,
    SpeechOptions,
    Started,
    Word,
    Words,
)
from antiphon.reading import speaking
from antiphon.reading.folder import (
    FolderInUse,
    MixedRates,
    SpokenPortion,
    Wanted,
    WorkFolder,
    lay_out,
    work_folder,
)
from antiphon.reading.speaking import InFlight, Server, Speaking
from ttscommon.books import Book, BookPassage, Chapter, Portion

RATE = 16_000
OPTIONS = SpeechOptions("vesper", "slt", 7)
HELLO = Wanted("Hello.", OPTIONS)
START = Started("r1", RATE, "slt", 7)
Answer = Callable[[str], list[Event | GatewayError]]


def told(_: Wanted, __: SpokenPortion) -> None:
    """No one listens."""


def spoken(folder: WorkFolder, wanted: Wanted, samples: int, rate: int = RATE) -> SpokenPortion:
    with folder.begin(wanted) as writer:
        writer.write(b"\1\0" * samples)
        return writer.finish(rate, [Word("Hello.", 0.0, 0.5)], "ok")


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Stands in for the connection: each request gets the events that `answer` has for it."""

    async def speak(
        url: str, text: AsyncIterable[str], options: SpeechOptions, key: str | None
    ) -> AsyncGenerator[Event, None]:
        said = "".join([piece async for piece in text])
        for event in answer(said):
            await asyncio.sleep(0)
            if isinstance(event, GatewayError):
                raise event
            yield event

    monkeypatch.setattr(speaking, "speak", speak)


def whole_answer(text: str) -> list[Event | GatewayError]:
    pcm = text.encode().ljust(20)
    return [START, Audio(pcm), Words((Word(text, 0, 0.1),)), Finished("ok", {})]


def test_a_portion_is_found_by_what_it_was_asked_for_with(tmp_path: Path) -> None:
    with work_folder(tmp_path / "work") as folder:
        made = spoken(folder, HELLO, 100)
        assert folder.find(HELLO) == made
        assert folder.find(Wanted("Hello.", replace(OPTIONS, voice="rms"))) is None
        assert folder.find(Wanted("Hello!", OPTIONS)) is None
    [block] = made.blocks()
    assert block.tolist() == [1] * 100
    assert made.words() == [Word("Hello.", 0.0, 0.5)]


def test_a_portion_that_was_broken_off_or_damaged_is_spoken_again(tmp_path: Path) -> None:
    with work_folder(tmp_path) as folder:
        with folder.begin(HELLO) as writer:
            writer.write(b"\1\0")
        assert folder.find(HELLO) is None
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        made = spoken(folder, HELLO, 100)
        (tmp_path / f"{made.key}.pcm").write_bytes(b"\1\0")
        assert folder.find(HELLO) is None


def test_two_runs_do_not_speak_into_one_folder(tmp_path: Path) -> None:
    with work_folder(tmp_path), pytest.raises(FolderInUse), work_folder(tmp_path):
        pass
    with work_folder(tmp_path):
        pass


async def test_every_request_is_spoken_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(text: str) -> list[Event | GatewayError]:
        asked.append(text)
        return whole_answer(text)

    answering(monkeypatch, answer)
    wanted = [Wanted(f"Sentence {n}.", OPTIONS) for n in range(30)]
    there: list[str] = []
    with work_folder(tmp_path) as folder:
        run = Speaking(Server("http://a"), folder, lambda one, _: there.append(one.text))
        await run.run(wanted)
        assert [folder.find(one) is not None for one in wanted] == [True] * 30
    assert sorted(asked) == sorted(there) == sorted(one.text for one in wanted)


async def test_a_refusal_halves_what_is_under_way_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([GatewayError("full", "overloaded", 0.001)] * 3)

    def answer(text: str) -> list[Event | GatewayError]:
        refusal = next(refusals, None)
        return whole_answer(text) if refusal is None else [refusal]

    answering(monkeypatch, answer)
    wanted = [Wanted(f"Sentence {n}.", OPTIONS) for n in range(8)]
    with work_folder(tmp_path) as folder:
        run = Speaking(Server("http://a"), folder, told)
        await run.run(wanted)
        assert all(folder.find(one) for one in wanted)
    assert run.in_flight.limit == 1 + 8


def test_requests_under_way_grow_by_one_and_fall_by_half() -> None:
    crowd = InFlight(6)
    limits = [crowd.limit]
    for change in (crowd.spoken, crowd.spoken, crowd.spoken, crowd.refused, crowd.refused):
        change()
        limits.append(crowd.limit)
    assert limits == [4, 5, 6, 6, 3, 1]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (GatewayError("there is no voice 'hal'", "unknown_voice"), "no voice 'hal' .at 'Hello"),
        (GatewayError("no server answers", ""), "no server answers"),
    ],
)
async def test_what_time_does_not_mend_ends_the_run(
    error: GatewayError, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda text: [START, Audio(b"\1\0"), error])
    with work_folder(tmp_path) as folder:
        run = Speaking(Server("http://a", timeout_s=-1), folder, told)
        with pytest.raises(GatewayError, match=says):
            await run.run([HELLO])
        assert folder.find(HELLO) is None


async def test_a_portion_without_anything_to_say_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda text: [GatewayError("nothing", "nothing_to_say")])
    with work_folder(tmp_path) as folder:
        await Speaking(Server("http://a"), folder, told).run([HELLO])
        found = folder.find(HELLO)
    assert found is not None
    assert (found.samples, found.outcome, list(found.blocks())) == (0, "silent", [])


async def test_a_request_that_was_cancelled_is_not_taken_for_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter(["cancelled", "ok"])
    monkeypatch.setattr(speaking, "_BACKOFF_S", 0.001)
    answering(monkeypatch, lambda text: [START, Audio(b"\1\0"), Finished(next(ends), {})])
    with work_folder(tmp_path) as folder:
        await Speaking(Server("http://a"), folder, told).run([HELLO])
        found = folder.find(HELLO)
    assert found is not None
    assert found.samples == 1


def test_pauses_are_zeros_and_chapters_begin_behind_them(tmp_path: Path) -> None:
    book = Book(
        *("T", "", "", None),
        (Chapter("A", (BookPassage("1"), BookPassage("2"))), Chapter("B", (BookPassage("3"),))),
    )
    with work_folder(tmp_path) as folder:
        sounds = [spoken(folder, Wanted(name, OPTIONS), 1600) for name in "123"]
    silent = replace(sounds[0], samples=0, sample_rate=0, outcome="silent")
    portions = [
        *(Portion(0, "1", None, 0.5), Portion(0, "2", None, 2.0)),
        *(Portion(1, "*", None, 0.25), Portion(1, "3", None, 0.0)),
    ]
    order = zip(portions, [*sounds[:2], silent, sounds[2]], strict=True)
    layout = lay_out(list(order))
    sound = np.concatenate([block for track in layout.tracks for block in track.blocks()])
    expected = [np.ones(1600), np.zeros(8000), np.ones(1600), np.zeros(32_000 + 4000)]
    assert np.array_equal(sound, np.concatenate([*expected, np.ones(1600)]))
    assert len(sound) == layout.samples
    times = [(one.title, one.start_s, one.end_s) for one in layout.chapters(book)]
    assert times == [("A", 0.0, 2.7), ("B", 2.7, layout.duration_s)]
    assert [words[0].start_s for words in layout.words()][:2] == [0.0, 0.6]


def test_portions_of_two_rates_are_no_book(tmp_path: Path) -> None:
    with work_folder(tmp_path) as folder:
        one = spoken(folder, HELLO, 10)
        other = spoken(folder, Wanted("Two.", OPTIONS), 10, 24_000)
    portion = Portion(0, "", None, 0.0)
    with pytest.raises(MixedRates, match=r"16000 Hz, 24000 Hz.*--restart"):
        lay_out([(portion, one), (portion, other)])


@pytest.mark.parametrize(
    ("book", "output", "says"),
    [
        ("good.txt", "a.wav", ".opus, .mp3, .m4b"),
        ("good.txt", "missing/a.mp3", "there is no folder"),
        ("good.pdf", "a.mp3", "no book that is read here"),
        ("bad.epub", "a.mp3", "no EPUB"),
        ("latin.txt", "a.mp3", "not UTF-8 at byte 2"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused_before_a_server_starts(
    book: str, output: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        pytest.fail("a server was started")

    # The environment of the test run is not the one that is tested.
    for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("antiphon.reading.run.LocalStack", started)
    content = {"latin.txt": b"na\xefve", "bad.epub": b"no archive"}.get(book, b"Good.")
    (tmp_path / book).write_bytes(content)
    arguments = ["read", str(tmp_path / book), "-o", str(tmp_path / output)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code != 0
    assert says in result.output
    assert [path.name for path in tmp_path.iterdir()] == [book]

"""Times of characters: every one of the text, in order, up to the end of the audio."""

from typing import Any

import pytest

from gateway.protocols.elevenlabs.alignment import Alignment, VoiceSegments
from ttscommon.wire.messages import WordTime


def words(text: str, *times: tuple[float, float]) -> list[WordTime]:
    """The words of a text, each at its place."""
    found, at = [], 0
    for word, (start_s, end_s) in zip(text.split(), times, strict=True):
        first = text.index(word, at)
        at = first + len(word)
        found.append(WordTime(word, start_s, end_s, word.strip(",.!").lower(), first, at))
    return found


def spelled(parts: list[dict[str, Any] | None], name: str = "characters") -> str:
    return "".join(char for part in parts if part for char in part[name])


def test_the_characters_are_those_of_the_text_and_last_to_its_end() -> None:
    text = "  In,  it\ncomes!"
    alignment = Alignment(text)
    alignment.add(words(text, (0.1, 0.3), (0.5, 0.6), (0.6, 1.0)))
    early = alignment.seconds()[0]
    alignment.end(1.3)
    late = alignment.seconds()[0]
    assert early is not None
    assert late is not None
    assert spelled([early, late]) == text
    starts, ends = (
        early[key] + late[key]
        for key in ("character_start_times_seconds", "character_end_times_seconds")
    )
    assert starts[0] == 0.0
    assert ends[-1] == 1.3
    assert starts[1:] == pytest.approx(ends[:-1], abs=1e-4)
    assert starts[text.index("i")] == 0.5


@pytest.mark.parametrize("relative", [False, True])
def test_alignments_of_a_socket_fill_its_audio_however_they_are_cut(relative: bool) -> None:
    alignment = Alignment(relative=relative)
    parts: list[dict[str, Any]] = []
    for start in range(30):
        alignment.add([WordTime("word", start / 3, start / 3 + 0.2003)])
        parts += [one for one in alignment.milliseconds()[:1] if one is not None]
    alignment.end(10.25)
    parts += [one for one in alignment.milliseconds()[:1] if one is not None]
    assert spelled(list(parts), "chars") == "word " * 30
    at_ms = 0
    for part in parts:
        times = zip(part["charStartTimesMs"], part["charDurationsMs"], strict=True)
        base_ms = at_ms if relative else 0
        for start_ms, duration_ms in times:
            assert base_ms + start_ms == at_ms
            at_ms += duration_ms
    assert at_ms == 10_250


def test_segments_of_a_dialogue_are_the_characters_of_its_inputs() -> None:
    segments = VoiceSegments([("a", "Hi <b>you</b>."), ("b", "Yes.")])
    written = "Hi you. Yes."
    times = [float(index) for index in range(len(written) + 1)]

    def part(first: int, last: int) -> list[dict[str, Any]]:
        starts, ends = times[first:last], times[first + 1 : last + 1]
        names = ("character_start_times_seconds", "character_end_times_seconds")
        return segments.of(dict(zip(names, (starts, ends), strict=True)))

    told = [part(0, 5), segments.of(None), part(5, 12)]
    found = [
        (one["voice_id"], one["dialogue_input_index"], one["character_start_index"],
         one["character_end_index"], one["start_time_seconds"], one["end_time_seconds"])
        for each in told for one in each
    ]  # fmt: skip
    assert found == [("a", 0, 0, 5, 0.0, 5.0), ("a", 0, 0, 2, 5.0, 7.0), ("b", 1, 3, 7, 8.0, 12.0)]


def said(*words: tuple[str, str]) -> list[WordTime]:
    """Words as they are written and spoken, whose places are not known."""
    return [
        WordTime(word, 0.5 * at, 0.5 * at + 0.4, spoken) for at, (word, spoken) in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("text", "found", "written", "spoken"),
    [
        (
            'One.<break time="1s"/>Two. <b>',  # markup is no part of it
            [WordTime("One.", 0.0, 0.5, "", 0, 4), WordTime("Two.", 1.5, 2.0, "", 22, 26)],
            "One. Two. ",
            "One. Two.",
        ),
        ("What it was, before", said(("It", ""), ("is", "")), "It is", "It is"),
        ("3/3,", [WordTime("3/3,", 0.5, 1.5, "march third", 0, 4)], "3/3,", "March third,"),
        (
            None,  # LiveKit's transcripts are made of the spoken form
            said(("The", "the"), ("tide,", "tide"), ("it's", "it's"), ("in.", "in"), ("T.", "")),
            "The tide, it's in. T. ",
            "The tide, it's in. T. ",
        ),
        (
            None,  # and captions, which need its case
            said(("“Dr.", "doctor"), ("Smith", "smith"), ("paid", "paid"), ("$5", "five dollars"),
                 ("to", "to"), ("IBM", "i b m"), ("(NASA)", "nasa"), ("on", "on"),
                 ("3/3.”", "march third"), ("3", "three"), ("came.", "came")),
            "“Dr. Smith paid $5 to IBM (NASA) on 3/3.” 3 came. ",
            "“Doctor Smith paid five dollars to I B M (NASA) on March third.” Three came. ",
        ),
    ],
)  # fmt: skip
def test_both_spellings_have_characters_of_their_own_that_last_to_the_end(
    text: str | None, found: list[WordTime], written: str, spoken: str
) -> None:
    alignment = Alignment(text)
    alignment.add(found)
    alignment.end(9.0)
    both = alignment.seconds()
    assert [spelled([one]) for one in both] == [written, spoken]
    for one in both:
        assert one is not None
        assert one["character_end_times_seconds"][-1] == 9.0
    assert alignment.seconds() == alignment.milliseconds() == (None, None)


def test_without_words_there_is_nothing_to_align() -> None:
    alignment = Alignment("text")
    alignment.end(1.0)
    assert alignment.seconds() == (None, None)

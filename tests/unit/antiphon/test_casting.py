"""Voices of a book's passages."""

from pathlib import Path

import pytest

from antiphon import client
from antiphon.client import GatewayError, ServedModel, SpeechOptions, Voice
from antiphon.reading.order import Labels, Order, Plan, plan
from ttscommon.books import BookPauses, Cast

TEXT = "It is dark.\n\nAnn: Yes.\nBob: No.\nRMS: Well.\nNote: it is.\n\nAnn: Yes."
MODELS = [ServedModel("vesper", "vesper", 24_000, ()), ServedModel("other", "x", 24_000, ())]
VOICES = [
    Voice("slt", "Slt", "en-US", ("en-US",)),
    Voice("eva", "Eva", "de-DE", ("de-DE", "fr")),
    Voice("rms", "Rms", "en-US", ("en-US",)),
    *(Voice(f"p{number}", f"Speaker {number}", "en-US", ("en-US",)) for number in range(904)),
]
NO_CAST = Cast()


@pytest.fixture(autouse=True)
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    async def models(url: str, key: str | None = None) -> list[ServedModel]:
        return MODELS

    async def voices(url: str, key: str | None = None, *, model: str) -> list[Voice]:
        return VOICES if model == "vesper" else []

    monkeypatch.setattr(client, "models", models)
    monkeypatch.setattr(client, "voices", voices)


async def planned(folder: Path, text: str = TEXT, cast: Cast = NO_CAST, **options: object) -> Plan:
    source = folder / "book.md"
    source.write_text(text, "utf-8")
    chosen = SpeechOptions(**options)  # type: ignore[arg-type]
    order = Order(
        *(source, folder / "a.mp3", "mp3", chosen, cast, BookPauses(), Labels(), None),
        url="http://a",
    )
    return await plan(order, "http://a")


def said(found: Plan) -> list[tuple[str, str | None]]:
    return [(wanted.text, wanted.options.voice) for _, wanted in found.portions]


async def test_speakers_are_those_of_the_cast_and_the_voices_themselves(tmp_path: Path) -> None:
    found = await planned(tmp_path, cast=Cast({"ann": "eva", "Bob": "rms"}))
    assert said(found) == [
        ("It is dark.", "slt"),
        ("Yes.", "eva"),
        ("No.", "rms"),
        ("Well. Note: it is.", "rms"),
        ("Yes.", "eva"),
    ]


async def test_each_voice_is_tried_first_and_equal_passages_are_spoken_once(
    tmp_path: Path,
) -> None:
    found = await planned(tmp_path, cast=Cast({"Ann": "hal", "Bob": "slt"}))
    assert [wanted.options.voice for wanted in found.wanted[:3]].count("hal") == 1
    assert sorted(wanted.text for wanted in found.wanted) == [
        *("It is dark.", "No.", "Well. Note: it is.", "Yes."),
    ]


@pytest.mark.parametrize(
    ("language", "cast", "voice", "narrator"),
    [
        ("fr-CA", {}, None, "eva"),
        ("ja", {}, None, "slt"),
        ("fr-CA", {"narrator": "rms"}, None, "rms"),
        ("fr-CA", {"narrator": "rms"}, "slt", "slt"),
    ],
)
async def test_the_narrator_is_named_or_speaks_the_books_language(
    language: str, cast: dict[str, str], voice: str | None, narrator: str, tmp_path: Path
) -> None:
    text = f"---\nlang: {language}\n---\nBonjour."
    found = await planned(tmp_path, text, Cast(cast), voice=voice)
    assert said(found) == [("Bonjour.", narrator)]


async def test_a_run_that_goes_on_asks_with_the_same_seed_and_model(tmp_path: Path) -> None:
    [(_, wanted)] = (await planned(tmp_path, "Hello.")).portions
    assert (wanted.options.model, wanted.options.seed) == ("vesper", 0)
    [(_, wanted)] = (await planned(tmp_path, "Hello.", model="other", seed=7)).portions
    assert (wanted.options.model, wanted.options.seed, wanted.options.voice) == ("other", 7, None)


async def test_a_model_that_is_not_served_is_named(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="no model 'hal'; it serves vesper, other"):
        await planned(tmp_path, model="hal")

"""The report of an evaluation: in parts, of one voice, beside the card that shows it."""

import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from ttsfamilies.base.talker.options import LEXICON
from voicetrain.vesper import report as measures
from voicetrain.vesper.card import figures
from voicetrain.vesper.evaluate import Evaluation
from voicetrain.vesper.parts import REPORT_NAME, Report
from voicetrain.vesper.report import evaluate_voice, texts_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the key of a voice is made from."""
    for name in ("config.json", "lexicon.json.gz"):
        shutil.copy(LEXICON / name, tmp_path)
    return tmp_path


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts of an evaluation that only note that they were measured."""
    calls: list[str] = []
    fakes = {
        part: lambda _, count, part=part: calls.append(part) or count for part in ("long", "paces")
    }
    monkeypatch.setattr(measures, "MEASURES", fakes)
    return calls


def evaluate(folder: Path, texts: dict[str, int]) -> dict[str, int]:
    report = Report(folder / REPORT_NAME, folder)
    evaluate_voice(cast(Evaluation, None), report, texts)
    return Report(folder / REPORT_NAME, folder).parts


def test_parts_are_added_and_measured_again_only_on_more_texts(
    folder: Path, measured: list[str]
) -> None:
    assert evaluate(folder, {"long": 10}) == {"long": 10}
    assert evaluate(folder, {"long": 10, "paces": 40}) == {"long": 10, "paces": 40}
    assert evaluate(folder, {"paces": 12}) == {"long": 10, "paces": 40}
    assert evaluate(folder, {"paces": 60}) == {"long": 10, "paces": 60}
    assert measured == ["long", "paces", "paces"]


def test_parts_and_notes_of_another_voice_are_dropped(folder: Path, measured: list[str]) -> None:
    evaluate(folder, {"paces": 40})
    path = folder / REPORT_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "notes": ["Trained by hand."]}))
    assert Report(path, folder).notes == ["Trained by hand."]
    (folder / "config.json").write_text("{}")
    assert Report(path, folder).notes == []
    assert evaluate(folder, {"long": 10}) == {"long": 10}


def test_fewer_sentences_shorten_the_parts_that_are_made_of_sentences() -> None:
    assert texts_of(("easy", "paces", "long"), 100, 1000) == {"easy": 100, "paces": 40, "long": 10}
    assert texts_of(("hard", "paces", "reliability"), 12, 50) == {
        "hard": 12, "paces": 12, "reliability": 50,
    }  # fmt: skip


def test_the_shipped_card_shows_the_evaluation_of_the_shipped_voice() -> None:
    report = Report(LEXICON / REPORT_NAME, LEXICON)
    card = (LEXICON / "README.md").read_text("utf-8")
    missing = [name for name, shown in figures(report.parts).items() if shown not in card]
    assert not missing

"""The command line itself, and what its small commands list."""

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon import app as app_module
from antiphon import up
from antiphon.app import app
from antiphon.client import ServedModel
from antiphon.listen import KNOWN, SERVED, known_families, served
from antiphon.stack import StackConfig

runner = CliRunner()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[StackConfig]:
    """The configurations that `up` was to run."""
    configs: list[StackConfig] = []

    def run(config: StackConfig, *_: Any, **__: Any) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(up, "run", run)
    return configs


@pytest.fixture(autouse=True)
def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the test run is not the one that is tested."""
    for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
        monkeypatch.delenv(name)


def test_up_gives_services_the_settings_in_its_environment(
    started: list[StackConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = "http://127.0.0.1:4318"
    monkeypatch.setenv("ANTIPHON_TRACING__ENDPOINT", endpoint)
    monkeypatch.setenv("ANTIPHON_MAX_TEXT_CHARS", "100")
    monkeypatch.setenv("ANTIPHON_SLOTS", "4")
    monkeypatch.setenv("ANTIPHON_PIECE_FRAMES", "8")  # an old name
    monkeypatch.setenv("ANTIPHON_URL", "http://elsewhere")
    assert runner.invoke(app, ["up", "--set", "talker.slots=8"]).exit_code == 0
    assert (started[0].port, started[0].engine, started[0].voice_dir) == (8000, "torch", None)
    traced = {"ANTIPHON_TRACING__ENDPOINT": endpoint}
    assert started[0].environ == {
        "gateway": {**traced, "ANTIPHON_MAX_TEXT_CHARS": "100"},
        "talker": {**traced, "ANTIPHON_SLOTS": "8"},
        "vocoder": {**traced, "ANTIPHON_SLOTS": "4", "ANTIPHON_PIECE_FRAMES": "8"},
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ANTIPHON_TRACNG__ENDPOINT", "ANTIPHON_TRACING"),
        ("ANTIPHON_PORT", "--port"),
        ("ANTIPHON_BUS__URLS", "broker"),
    ],
)
def test_up_refuses_settings_that_no_service_would_take(
    started: list[StackConfig], monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setenv(name, "1")
    result = runner.invoke(app, ["up"], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert name in result.output
    assert told in result.output
    assert started == []


def test_up_gives_each_fake_engine_its_curve(started: list[StackConfig], tmp_path: Path) -> None:
    arguments = ["up", "--engine", "fake", "--curve", str(tmp_path)]
    assert runner.invoke(app, arguments).exit_code == 0
    for stage in ("talker", "vocoder"):
        curve = started[0].environ[stage]["ANTIPHON_FAKE_CURVE"]
        assert curve == str(tmp_path / f"{stage}.json")
    assert "ANTIPHON_FAKE_CURVE" not in started[0].environ["gateway"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "slots=8"],
        ["--set", "singer.slots=8"],
        ["--set", "talker.slots"],
        ["--brokers", "2"],
        ["--curve", "."],  # of real engines
    ],
)
def test_up_refuses_what_makes_no_sense(started: list[StackConfig], arguments: list[str]) -> None:
    assert runner.invoke(app, ["up", *arguments]).exit_code == 2
    assert started == []


def test_a_setting_that_a_stage_has_not_is_told_before_the_start(
    started: list[StackConfig],
) -> None:
    result = runner.invoke(app, ["up", "--set", "talker.slot=8"], env={"COLUMNS": "200"})
    assert (result.exit_code, started) == (2, [])
    assert "talker.slot: there is no such setting; did you mean talker.slots?" in result.output
    for known in ("gateway.tracing__sample_ratio=1", "vocoder.piece_frames=8"):
        assert runner.invoke(app, ["up", "--set", known]).exit_code == 0


def test_the_version_is_shown() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output.split()[0]) == (0, "antiphon")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["say", "Hi.", "-o", "a.doc"], "no format that is written here"),
        (["say", "Hi.", "-o", "-", "--url", "ftp://a"], "no address of a gateway"),
        (
            ["say", "-f", "/no/such/file", "-o", "-"],
            "say: No such file or directory: /no/such/file",
        ),
        (["say", "Hi.", "-o", "/no/such/a.wav"], "say: there is no folder: /no/such"),
        (
            ["say", "Hi.", "-o", "-", "--srt", "/no/such/a.srt"],
            "say: there is no folder: /no/such",
        ),
        (["say", "Hi.", "-o", "-", "--url", "http://127.0.0.1:1"], "antiphon up"),
        (["voices", "--url", "http://127.0.0.1:1"], "no server answers at http://127.0.0.1:1"),
        (["models", "--url", "http://127.0.0.1:1"], "antiphon up"),
        (["models", "--url", "http://a:b"], "no address of a gateway"),
    ],
)
def test_what_cannot_be_done_is_a_line_and_no_traceback(arguments: list[str], told: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 1
    assert told in result.output
    assert "Traceback" not in result.output


def test_what_was_not_foreseen_is_a_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("the moon")

    monkeypatch.setattr(app_module, "app", broken)
    with pytest.raises(SystemExit) as left:
        app_module.main()
    assert left.value.code == 70
    assert (
        "antiphon: RuntimeError: the moon (ANTIPHON_DEBUG=1 shows where)" in capsys.readouterr().err
    )
    monkeypatch.setenv("ANTIPHON_DEBUG", "1")
    with pytest.raises(RuntimeError, match="the moon"):
        app_module.main()


DOCUMENT = Path(__file__).parents[3] / "docs" / "models.md"


def test_a_served_model_shows_what_it_obeys() -> None:
    (row,) = served([ServedModel("tara", "orpheus", 24_000, ("temperature", "top_p"))])
    assert dict(zip(SERVED, row, strict=True))["accepts"] == "temperature, top_p"


def test_the_document_has_the_table_of_families() -> None:
    lines = [KNOWN, ["---"] * len(KNOWN), *known_families()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    assert table in DOCUMENT.read_text("utf-8")

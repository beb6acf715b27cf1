"""What `antiphon doctor` finds."""

import socket
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon import client, doctor
from antiphon.app import app
from antiphon.printing import Finding, Grade


def test_this_machine_can_speak() -> None:
    for look in (doctor.versions, doctor.broker, doctor.voice, doctor.disk):
        assert look().state is Grade.GOOD, look()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PACKAGES", ("no-such-package",))
    found = doctor.versions()
    assert (found.state, "no-such-package" in found.text) == (Grade.BAD, True)


def test_a_server_is_asked_what_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def served(*_: Any) -> list[client.ServedModel]:
        return [client.ServedModel("vesper", "vesper", 24_000, ())]

    monkeypatch.setattr(client, "models", served)
    assert doctor.server("http://a", None).text == "http://a serves vesper"


def test_a_port_that_something_else_took_is_bad() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = doctor.server(f"http://127.0.0.1:{port}", None)
        assert found.state is Grade.BAD
        assert f"port {port} is taken" in found.text
    free = doctor.server(f"http://127.0.0.1:{port}", None)
    assert (free.state, "antiphon up" in free.text) == (Grade.NOTE, True)


def test_what_is_amiss_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LEAST_DISK_BYTES", 1 << 62)
    result = CliRunner().invoke(app, ["doctor", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "✗ disk" in result.output


def test_findings_are_read_at_80_columns_and_commands_stay_whole() -> None:
    long = Finding("kernels", Grade.NOTE, f"{'many words ' * 20}\nantiphon up \\\n  --set a=1")
    lines = str(long.__rich__()).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("· kernels    many words")
    assert lines[-2:] == [" " * 13 + "antiphon up \\", " " * 13 + "  --set a=1"]

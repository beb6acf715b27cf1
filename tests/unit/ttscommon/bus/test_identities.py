"""Passwords of a deployment on one machine: one for each service, made once."""

import subprocess
from pathlib import Path

import pytest

from antiphon.stack.broker import find_server
from ttscommon.bus.__main__ import main
from ttscommon.bus.credentials import issue
from ttscommon.bus.permissions import ROLES

EVERYTHING = {
    "backup/password",
    "broker/accounts.conf",
    "gateway/password",
    "gateway/resume",
    "gateway/system",
    "setup/password",
    "talker/password",
    "vocoder/password",
}


def contents(folder: Path) -> dict[str, str]:
    """Every file below `folder`, by its path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_each_service_finds_its_own_password_and_no_others(tmp_path: Path) -> None:
    issue(tmp_path, "antiphon", ["vesper"])
    found = contents(tmp_path)
    assert found.keys() == EVERYTHING
    secrets = [text for name, text in found.items() if not name.startswith("broker")]
    assert len(set(secrets)) == len(secrets)
    assert all(len(secret) >= 32 for secret in secrets)
    assert all(found[f"{role}/password"] in found["broker/accounts.conf"] for role in ROLES)
    assert found["gateway/resume"] not in found["broker/accounts.conf"]


def test_what_was_made_is_kept_and_what_is_lost_is_made_again(tmp_path: Path) -> None:
    issue(tmp_path, "antiphon", ["vesper"])
    before = contents(tmp_path)
    (tmp_path / "talker/password").unlink()
    assert issue(tmp_path, "antiphon", ["vesper"]) == ["talker/password"]
    after = contents(tmp_path)
    changed = {name for name in EVERYTHING if before[name] != after[name]}
    assert changed == {"talker/password", "broker/accounts.conf"}
    assert issue(tmp_path, "antiphon", ["vesper"]) == []
    assert contents(tmp_path) == after


def test_the_broker_takes_the_accounts_and_serves_every_model_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["issue", str(tmp_path), "--model", "vesper", "tiny"]) == 0
    assert "setup/password" in capsys.readouterr().out
    accounts = tmp_path / "broker/accounts.conf"
    assert "antiphon-talk-tiny" in accounts.read_text()
    subprocess.run([find_server(), "-t", "-c", accounts], check=True, timeout=20)


def test_a_folder_that_cannot_be_written_is_said_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway").write_text("not a folder")
    assert main(["issue", str(tmp_path), "--model", "vesper"]) == 1
    assert "gateway" in capsys.readouterr().err

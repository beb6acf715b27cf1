"""`antiphon keys`: one key changes, and gateways understand the file."""

from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from antiphon.app import app
from gateway.errors import InvalidApiKey
from gateway.keys import KeyRing

runner = CliRunner()
WRITTEN: Final = f"""\
# Keys of the staging cluster.

[keys.other]  # of the other team
sha256 = "{"1" * 64}"
streams = 3

# The last comment.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(WRITTEN)
    return path


def run(file: Path, *arguments: str, fails: bool = False) -> str:
    result = runner.invoke(app, ["keys", *arguments, "--file", str(file)])
    assert (result.exit_code != 0) == fails, result.output
    return result.stdout.strip()


def test_a_key_that_is_made_is_known_with_its_rights(file: Path) -> None:
    options = ["--streams", "2", "--model", "vesper", "--voice", "warm", "--expires", "2099-12-31"]
    options += ["--adapter", "narrator", "--adapter-uploads", "5"]
    key = run(file, "make", "acme", *options)
    keys = KeyRing.load(file)
    assert keys.tenant(key) == "acme"
    tenant = keys.tenants["acme"]
    assert tenant.streams == 2
    assert tenant.models == frozenset({"vesper"})
    assert tenant.voices == frozenset({"warm"})
    assert (tenant.adapters, tenant.adapter_uploads) == (frozenset({"narrator"}), 5)
    assert tenant.expires is not None
    assert tenant.expires.isoformat() == "2099-12-31T00:00:00+00:00"
    assert key not in file.read_text()
    assert file.read_text().startswith(WRITTEN)


def test_the_first_key_makes_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    key = run(path, "make", "acme")
    assert KeyRing.load(path).tenant(key) == "acme"
    assert path.stat().st_mode & 0o077 == 0


def test_a_rotation_keeps_the_old_key_until_it_is_finished(file: Path) -> None:
    old = run(file, "make", "acme")
    new = run(file, "rotate", "acme")
    assert [KeyRing.load(file).tenant(key) for key in (old, new)] == ["acme", "acme"]
    run(file, "rotate", "acme", "--finish")
    keys = KeyRing.load(file)
    assert keys.tenant(new) == "acme"
    with pytest.raises(InvalidApiKey):
        keys.tenant(old)


def test_a_key_that_is_revoked_is_gone_and_no_other_line(file: Path) -> None:
    key = run(file, "make", "acme")
    run(file, "revoke", "acme")
    assert file.read_text().strip() == WRITTEN.strip()
    with pytest.raises(InvalidApiKey):
        KeyRing.load(file).tenant(key)


def test_without_the_last_key_no_caller_may_speak(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    run(path, "make", "acme")
    run(path, "revoke", "acme")
    assert KeyRing.parse(path.read_text()).tenants == {}


@pytest.mark.parametrize(
    "arguments",
    [("make", "other"), ("make", "a.b"), ("rotate", "nobody"), ("revoke", "nobody"),
     ("rotate", "other", "--finish")],
)  # fmt: skip
def test_what_makes_no_sense_changes_nothing(file: Path, arguments: tuple[str, ...]) -> None:
    run(file, *arguments, fails=True)
    assert file.read_text() == WRITTEN


def test_the_list_names_tenants_and_rights_and_no_hashes(file: Path) -> None:
    said = run(file, "list")
    assert "other" in said
    assert "streams" in said
    assert "1111" not in said

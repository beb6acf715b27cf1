"""Who calls, and what a minute allows."""

import hashlib
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.errors import InvalidApiKey
from gateway.keys import ANONYMOUS, KeyRing, KeysError, KeysWatch
from ttscommon.wire.errors import UnknownModel, UnknownVoice


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def ring(tmp_path: Path, text: str) -> KeyRing:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    return KeyRing.load(path)


def test_without_a_file_everybody_may_speak() -> None:
    keys = KeyRing.load(None)
    assert keys.tenant(None) == ANONYMOUS
    assert keys.tenant("whatever") == ANONYMOUS


def test_a_key_is_known_by_its_hash(tmp_path: Path) -> None:
    keys = ring(tmp_path, f'[keys.acme]\nsha256 = "{sha256("s3cret")}"\nweight = 2.0\n')
    assert keys.tenant("s3cret") == "acme"
    assert keys.tenants["acme"].weight == 2.0


@pytest.mark.parametrize("key", [None, "", " ", "other"])
def test_without_a_known_key_nobody_speaks(tmp_path: Path, key: str | None) -> None:
    keys = ring(tmp_path, f'[keys.acme]\nsha256 = "{sha256("s3cret")}"\n')
    with pytest.raises(InvalidApiKey):
        keys.tenant(key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[keys]\n",
        "[keys.acme]\nsha256 = 'no hash'\n",
        "[keys.acme]\nkey = 's3cret'\n",
        f"[keys.a]\nsha256 = '{sha256('x')}'\n[keys.b]\nsha256 = '{sha256('x')}'\n",
        "not toml",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeysError):
        ring(tmp_path, text)


def entry(name: str, rights: str = "") -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f'[keys.{name}]\nsha256 = "{digest}"\n{rights}\n'


def watched(path: Path, text: str) -> tuple[KeyRing, KeysWatch, list[int]]:
    path.write_text(text)
    keys, changes = KeyRing.load(path), list[int]()
    return keys, KeysWatch(path, keys, lambda: changes.append(1)), changes


async def test_a_changed_file_is_taken_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    keys, watch, changes = watched(path, entry("alice"))
    await watch.look(path)
    assert changes == []
    path.write_text(entry("bob"))
    await watch.look(path)
    await watch.look(path)
    assert changes == [1]
    assert keys.tenant("bob") == "bob"
    with pytest.raises(InvalidApiKey):
        keys.tenant("alice")
    with pytest.raises(InvalidApiKey):
        keys.check("alice")  # whose socket is still open


@pytest.mark.parametrize("text", ["", "[keys.alice", entry("alice", "colour = 1"), "\udcff"])
async def test_a_file_that_cannot_be_used_leaves_the_keys_as_they_are(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "keys.toml"
    keys, watch, changes = watched(path, entry("alice"))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with capture_logs() as logs:
        await watch.look(path)
    assert [log["event"] for log in logs] == ["keys.rejected"]
    assert keys.tenant("alice") == "alice"
    assert changes == []


async def test_a_file_that_is_gone_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    keys, watch, _ = watched(path, entry("alice"))
    path.unlink()
    await watch.look(path)
    assert keys.tenant("alice") == "alice"


async def test_a_table_without_keys_closes_the_door(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    keys, watch, _ = watched(path, entry("alice"))
    path.write_text("[keys]\n")
    await watch.look(path)
    with pytest.raises(InvalidApiKey):
        keys.tenant("alice")


def test_a_key_expires() -> None:
    text = entry("alice", "expires = 2020-01-01T00:00:00Z")
    with pytest.raises(InvalidApiKey, match="expired"):
        KeyRing.parse(text).tenant("alice")
    assert KeyRing.parse(text.replace("2020", "2999")).tenant("alice") == "alice"


def test_a_key_may_be_for_some_models_and_voices_alone() -> None:
    keys = KeyRing.parse(entry("alice", 'models = ["vesper"]\nvoices = ["warm"]'))
    keys.permit("alice", "vesper", "warm")
    keys.permit("alice", "vesper", None)  # a recording of its own
    with pytest.raises(UnknownModel):
        keys.permit("alice", "large", "warm")
    with pytest.raises(UnknownVoice):
        keys.permit("alice", "vesper", "dark")


def test_the_previous_key_works_beside_the_present_one() -> None:
    old = hashlib.sha256(b"old").hexdigest()
    keys = KeyRing.parse(entry("alice", f'previous_sha256 = "{old}"'))
    assert keys.tenant("old") == keys.tenant("alice") == "alice"

"""Who calls, and what a minute allows."""

import hashlib
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.errors import InvalidApiKey
from gateway.keys import KeyRing, KeysError, KeysWatch
from ttscommon.wire.errors import UnknownModel, UnknownVoice


def entry(name: str, rights: str = "") -> str:
    """Of a key that is its tenant's name."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f'[keys.{name}]\nsha256 = "{digest}"\n{rights}\n'


@pytest.mark.parametrize("key", [None, "", " ", "other"])
def test_without_a_known_key_nobody_speaks(key: str | None) -> None:
    with pytest.raises(InvalidApiKey):
        KeyRing.parse(entry("acme")).tenant(key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[keys]\n",
        "[keys.acme]\nsha256 = 'no hash'\n",
        "[keys.acme]\nkey = 's3cret'\n",
        entry("a") + entry("a").replace("keys.a", "keys.b"),
        "not toml",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(KeysError):
        KeyRing.load(path)


class Watched:
    """A file of alice's key, and how often the keys changed."""

    def __init__(self, folder: Path) -> None:
        self.path, self.changes = folder / "keys.toml", 0
        self.path.write_text(entry("alice"))
        self.keys = KeyRing.load(self.path)
        self._watch = KeysWatch(self.path, self.keys, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def look(self) -> None:
        await self._watch.look(self.path)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_changed_file_is_taken_and_an_unchanged_one_is_not(watched: Watched) -> None:
    await watched.look()
    assert watched.changes == 0
    watched.path.write_text(entry("bob"))
    await watched.look()
    await watched.look()
    assert watched.changes == 1
    assert watched.keys.tenant("bob") == "bob"
    with pytest.raises(InvalidApiKey):
        watched.keys.tenant("alice")
    with pytest.raises(InvalidApiKey):
        watched.keys.check("alice")  # whose socket is still open


@pytest.mark.parametrize("text", [None, "", "[keys.alice", entry("alice", "colour = 1"), "\udcff"])
async def test_a_file_that_is_gone_or_cannot_be_used_leaves_the_keys_as_they_are(
    watched: Watched, text: str | None
) -> None:
    if text is None:
        watched.path.unlink()
    else:
        watched.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with capture_logs() as logs:
        await watched.look()
    assert [log["event"] for log in logs] == [
        "keys.unreadable" if text is None else "keys.rejected"
    ]
    assert watched.keys.tenant("alice") == "alice"
    assert watched.changes == 0


async def test_a_table_without_keys_closes_the_door(watched: Watched) -> None:
    watched.path.write_text("[keys]\n")
    await watched.look()
    with pytest.raises(InvalidApiKey):
        watched.keys.tenant("alice")


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

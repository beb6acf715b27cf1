"""Who calls, and what a minute allows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gateway.errors import InvalidApiKey
from gateway.keys import ANONYMOUS, KeyRing, KeysError


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

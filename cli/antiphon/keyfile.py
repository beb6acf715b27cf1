"""The text of a keys file: one key's lines change, and the rest stays as it was written."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADER: Final = re.compile(r"^\s*\[", re.MULTILINE)
_EMPTY: Final = "[keys]\n"
_SHA256: Final = "sha256"
_PREVIOUS: Final = "previous_sha256"


class KeyFileError(Exception):
    """The file, or what is asked for, makes no sense; the text says why."""


def new_key() -> tuple[str, str]:
    """A key and its hash."""
    key = f"ak-{secrets.token_urlsafe(32)}"
    return key, hashlib.sha256(key.encode()).hexdigest()


def tenants(text: str) -> dict[str, dict[str, Any]]:
    """What the file says of each tenant; raises KeyFileError."""
    try:
        found = tomllib.loads(text).get("keys", {})
    except tomllib.TOMLDecodeError as error:
        raise KeyFileError(str(error)) from error
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def made(text: str, name: str, rights: Mapping[str, Any]) -> tuple[str, str]:
    """The key of a new tenant, and the text with it."""
    if not _NAME.fullmatch(name):
        raise KeyFileError("a name has letters, digits, '-' and '_', at most 64")
    if name in tenants(text):
        raise KeyFileError(f"there is a key '{name}' already: rotate or revoke it")
    key, digest = new_key()
    given = {_SHA256: digest, **{k: v for k, v in rights.items() if v is not None}}
    lines = [f"{field} = {_value(value)}" for field, value in given.items()]
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return key, before + "\n".join([f"[keys.{name}]", *lines]) + "\n"


def rotated(text: str, name: str) -> tuple[str, str]:
    """A tenant's new key, and the text with it; the old one is kept as the previous one."""
    block = _block(text, name)
    old = tenants(text)[name][_SHA256]
    key, digest = new_key()
    fresh = _without(block, _PREVIOUS)
    pair = f'{_SHA256} = "{digest}"\n{_PREVIOUS} = "{old}"'
    fresh = re.sub(rf"^\s*{_SHA256}\s*=.*$", pair, fresh, count=1, flags=re.MULTILINE)
    return key, text.replace(block, fresh, 1)


def finished(text: str, name: str) -> str:
    """The text without a tenant's previous key."""
    block = _block(text, name)
    if _PREVIOUS not in tenants(text)[name]:
        raise KeyFileError(f"'{name}' has no previous key")
    return text.replace(block, _without(block, _PREVIOUS), 1)


def revoked(text: str, name: str) -> str:
    """The text without a tenant. Without any, no caller may speak."""
    left = text.replace(_block(text, name), "", 1)
    return left if tenants(left) else f"{_EMPTY}{left}"


def write(path: Path, text: str) -> None:
    """Replace the file at once, readable by those who could read it before; raises OSError."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, "utf-8")
    if path.exists():
        fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


def _block(text: str, name: str) -> str:
    """A tenant's lines, up to the next table."""
    if name not in tenants(text):
        raise KeyFileError(f"there is no key '{name}'")
    head = re.search(rf"^\s*\[keys\.(\"?){re.escape(name)}\1\].*$\n?", text, re.MULTILINE)
    if head is None:
        raise KeyFileError(f"'{name}' does not stand in a table [keys.{name}]: edit it by hand")
    after = _HEADER.search(text, head.end())
    return text[head.start() : after.start() if after else len(text)]


def _without(block: str, field: str) -> str:
    return re.sub(rf"^\s*{field}\s*=.*\n?", "", block, flags=re.MULTILINE)


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return json.dumps(value, ensure_ascii=False)

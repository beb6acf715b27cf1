"""Passwords of a deployment on one machine: made at its first start, kept from then on.

A folder holds one folder for each service, with what this service has to know and nothing else,
and one for the broker. Compose mounts each of them where it belongs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ttscommon.bus.accounts import accounts
from ttscommon.bus.permissions import ROLES

BROKER: Final = "broker"
ACCOUNTS: Final = "accounts.conf"
PASSWORD: Final = "password"
# For gateways: the password of the user `system`, and what resume tokens are made with.
SYSTEM: Final = "system"
RESUME: Final = "resume"

# Every folder is a volume of its own, which only those see who may read it.
_MODE: Final = 0o444


def issue(folder: Path, prefix: str, models: Sequence[str]) -> list[str]:
    """Make what is missing below `folder`, and write the broker's accounts; returns what is new.

    A service's folder is made if it is not there. Raises OSError.
    """
    made: list[str] = []
    passwords = {role: _kept(folder / role / PASSWORD, made) for role in ROLES}
    passwords["system"] = _kept(folder / "gateway" / SYSTEM, made)
    _kept(folder / "gateway" / RESUME, made)
    variables = "".join(f"{r.upper()}_PASSWORD: {json.dumps(p)}\n" for r, p in passwords.items())
    _write(folder / BROKER / ACCOUNTS, f"{variables}\n{accounts(prefix, models)}")
    return made


def _kept(path: Path, made: list[str]) -> str:
    """The secret in `path`, drawn if there is none."""
    if path.exists():
        return path.read_text("utf-8")
    secret = secrets.token_urlsafe(32)
    _write(path, secret)
    made.append(f"{path.parent.name}/{path.name}")
    return secret


def _write(path: Path, text: str) -> None:
    """Replace `path` at once: a broker that reads meanwhile sees the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text, "utf-8")
    fresh.chmod(_MODE)
    fresh.replace(path)

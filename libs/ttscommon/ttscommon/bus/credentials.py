"""Credentials of a process: passwords, keys and certificates, read anew for each connection.

So a secret that is rotated in place (a mounted file) is taken up at the next connection, without a
restart.
"""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ttscommon.bus.accounts import accounts
from ttscommon.bus.permissions import ROLES
from ttscommon.process.settings import BusSettings

BROKER: Final = "broker"
ACCOUNTS: Final = "accounts.conf"
PASSWORD: Final = "password"
# For gateways: the password of the user `system`, and what resume tokens are made with.
SYSTEM: Final = "system"
RESUME: Final = "resume"

# Every folder is a volume of its own, which only those see who may read it.
_MODE: Final = 0o444


def credentials(settings: BusSettings) -> dict[str, Any]:
    """Options of the client library for a service's own user."""
    options = _tls(settings)
    if settings.creds_file is not None:
        return {**options, "user_credentials": str(settings.creds_file)}
    if settings.nkey_file is not None:
        return {**options, "nkeys_seed": str(settings.nkey_file)}
    return {**options, **_password(settings.user, settings.password, settings.password_file)}


def system_credentials(settings: BusSettings) -> dict[str, Any]:
    """The same for the user of the system account."""
    options = _tls(settings)
    if settings.system_creds_file is not None:
        return {**options, "user_credentials": str(settings.system_creds_file)}
    secret = (settings.system_password, settings.system_password_file)
    return {**options, **_password(settings.system_user, *secret)}


def _password(user: str | None, password: str | None, file: Path | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "password": password if file is None else _reader(file)}


def _reader(file: Path) -> Callable[[], str]:
    """What stands in the file when a connection is made."""

    def read() -> str:
        return file.read_text("utf-8").strip()

    return read


def _tls(settings: BusSettings) -> dict[str, Any]:
    """A context that knows the given authority alone, if one is given."""
    if not settings.tls:
        return {}
    context = ssl.create_default_context(cafile=settings.tls_ca and str(settings.tls_ca))
    if settings.tls_cert is not None:
        context.load_cert_chain(str(settings.tls_cert), settings.tls_key and str(settings.tls_key))
    options: dict[str, Any] = {"tls": context}
    if settings.tls_hostname is not None:
        options["tls_hostname"] = settings.tls_hostname
    return options


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

"""Credentials of a process: passwords, keys and certificates, read anew for each connection.

So a secret that is rotated in place (a mounted file) is taken up at the next connection, without a
restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ttscommon.process.settings import BusSettings


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

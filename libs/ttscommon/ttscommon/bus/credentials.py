"""Accounts of a broker's configuration, and the credentials of a process for one of them."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from ttscommon.bus.permissions import ROLES, Permissions, Role, permissions
from ttscommon.process.settings import BusSettings
from ttscommon.wire.subjects import LOGS, TALKER, VOCODER

# The account that holds JetStream, with the users that prepare it and back it up.
STORE: Final = "ANTIPHON"
_KEEPERS: Final[tuple[Role, ...]] = ("setup", "backup")
_SERVICES: Final[tuple[Role, ...]] = ("gateway", TALKER.name, VOCODER.name)
_STORED: Final = ("job", *(log.prefix for log in LOGS))
# Questions that are answered by several messages.
_MANY: Final = ("$JS.API.DIRECT.GET.", "$JS.API.CONSUMER.MSG.NEXT.")
# An account without JetStream imports all of `$JS.API` from the system's, which answers that there
# is none, unless it has this subject from elsewhere. No service may publish to it.
_ENABLED: Final = "$JS.API.INFO"
# A question without an answer is forgotten after so long; more than a pull of a job waits.
_FORGOTTEN: Final = "10s"


def accounts(prefix: str, models: Sequence[str]) -> str:
    """The accounts of a broker's configuration; passwords are variables of its environment."""
    rights = {role: permissions(role, prefix, models) for role in _SERVICES}
    offered: dict[str, list[Role]] = {_ENABLED: list(_SERVICES)}
    for role in _SERVICES:
        for subject in filter(_is_stored, rights[role].publish):
            offered.setdefault(subject, []).append(role)
    system = _user("system", permissions("system", prefix, models))
    keepers = "\n".join(_user(role, permissions(role, prefix, models)) for role in _KEEPERS)
    services = "\n".join(_service(role, rights) for role in _SERVICES)
    return f"""\
# Written by `antiphon bus accounts`. One user for each service, with what it needs and no more;
# passwords are variables of the broker's environment. {STORE} holds what is stored; each service is
# alone in an account, because a broker's answers are bound to an account and not to a user.
# `system` watches disconnects, so that a dead worker's jobs go on at once.

accounts {{
  SYS {{
    users: [
{system}
    ]
  }}
  {STORE} {{
    jetstream: enabled
    users: [
{keepers}
    ]
    exports: [
{_lines(_export(subject, roles) for subject, roles in offered.items())}
    ]
  }}
{services}
}}
system_account: SYS
"""


def _service(role: Role, rights: Mapping[Role, Permissions]) -> str:
    mine = rights[role]
    stored = [_ENABLED, *filter(_is_stored, mine.publish)]
    imported = [(STORE, subject) for subject in stored]
    imported += [(other.upper(), s) for other in _others(role) for s in _said(mine, rights[other])]
    heard: dict[str, list[Role]] = {}
    for other in _others(role):
        for subject in _said(rights[other], mine):
            heard.setdefault(subject, []).append(other)
    imports = (f"{{ service: {{ account: {a}, subject: {json.dumps(s)} }} }}" for a, s in imported)
    return f"""\
  {role.upper()} {{
    users: [
{_user(role, mine)}
    ]
    exports: [
{_lines(_export(subject, roles) for subject, roles in heard.items())}
    ]
    imports: [
{_lines(imports)}
    ]
  }}"""


def _others(role: Role) -> Iterator[Role]:
    return (other for other in _SERVICES if other != role)


def _said(speaker: Permissions, listener: Permissions) -> list[str]:
    """What one publishes and the other subscribes to."""
    return [s for s in speaker.publish if any(_covers(rule, s) for rule in listener.subscribe)]


def _covers(rule: str, subject: str) -> bool:
    """Whether a rule, whose wildcards are single tokens, allows all of a subject."""
    pairs = zip_longest(rule.split("."), subject.split("."))
    return all(token is not None and wanted in ("*", token) for wanted, token in pairs)


def _is_stored(subject: str) -> bool:
    """Whether the broker keeps what is published to it, or acts on it."""
    return subject.startswith("$") or subject.split(".")[1] in _STORED


def _export(subject: str, to: Iterable[Role]) -> str:
    names = ", ".join(role.upper() for role in to)
    many = not _is_stored(subject) or subject.startswith(_MANY)
    kind = "response_type: stream, " if many else ""
    return (
        f"{{ service: {json.dumps(subject)}, accounts: [ {names} ], {kind}"
        f'response_threshold: "{_FORGOTTEN}" }}'
    )


def _user(role: Role, rights: Permissions) -> str:
    publish = _list(rights.publish) if rights.publish else '{ deny: ">" }'
    lines = [
        f"{{ user: {role}, password: ${role.upper()}_PASSWORD,",
        "  permissions: {",
        f"    publish: {publish}",
        f"    subscribe: {_list(rights.subscribe)}",
        *(["    allow_responses: true"] if role != "system" else []),
        "  } }",
    ]
    return "\n".join(" " * 6 + line for text in lines for line in text.split("\n"))


def _list(subjects: Iterable[str]) -> str:
    items = "\n".join(f"      {json.dumps(subject)}" for subject in subjects)
    return f"[\n{items}\n    ]"


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(" " * 6 + text for text in texts)


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

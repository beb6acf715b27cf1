"""A broker of a test's own configuration, on ports of its own."""

import asyncio
import json
import socket
import subprocess
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from antiphon.stack.broker import find_server
from tests.waits import TIMEOUT_S
from ttscommon.bus.export import BrokerMetrics, look


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Server:
    """nats-server with a monitoring port."""

    def __init__(self, folder: Path, configuration: str = "", tls: str = "") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        path = folder / "nats.conf"
        path.write_text(
            f'server_name: {folder.name}\nlisten: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\n'
            f"ports_file_dir: {json.dumps(str(folder))}\n"
            f"jetstream {{ store_dir: {json.dumps(str(folder))}\n max_file_store: 2MB }}\n"
            f"{configuration}{tls}"
        )
        command = [find_server(), "--config", str(path)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    async def ports(self) -> dict[str, int]:
        path = self.folder / f"nats-server_{self.process.pid}.ports"
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    found = json.loads(path.read_text())
                except (OSError, ValueError):
                    await asyncio.sleep(0.02)
                else:
                    return {name: urlsplit(urls[0]).port or 0 for name, urls in found.items()}

    async def shown(self, metrics: BrokerMetrics) -> None:
        await look(metrics, f"http://127.0.0.1:{(await self.ports())['monitoring']}", self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

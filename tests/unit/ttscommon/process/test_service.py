"""The life of a service: ready, watched, drained."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ttscommon.process.metrics import Metrics
from ttscommon.process.service import DEFAULT_HEARTBEAT_LIMIT_S, Service
from ttscommon.process.settings import ServiceSettings


def make(**settings: object) -> Service:
    return Service("example", ServiceSettings(**settings))  # type: ignore[arg-type]


async def test_readiness_follows_announcement_conditions_and_draining() -> None:
    service = make()
    connected = False
    service.ready_when("bus", lambda: connected)
    assert service.ready().problems == ("bus", "starting")
    service.announce(http=1)
    assert service.ready().problems == ("bus",)
    connected = True
    assert service.ready().ok
    service.stop()
    assert service.ready().problems == ("draining",)


async def test_liveness_is_red_when_a_watched_loop_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    service = make()
    service.watch("engine", limit_s=2.0)
    now = 101.9
    assert service.live().ok
    now = 103.0
    assert service.live().problems == ("engine stalled for 3.0 s",)
    assert not service.ready().ok
    service.heartbeat("engine")
    assert service.live().ok
    now = 200.0
    service.unwatch("engine")
    service.heartbeat("engine")  # of a thread that ends a moment later
    assert service.live().ok


async def test_a_loop_hangs_in_a_turn_that_takes_much_longer_than_any_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    service = make()
    watch, found = service.watch("engine", limit_s=30.0), []
    first_s = DEFAULT_HEARTBEAT_LIMIT_S + 2.0
    for now in (first_s, 2.5 * first_s, 3.5 * first_s):
        found.append((watch.turning_s, watch.hangs))
        if now == first_s:
            service.heartbeat("engine")
    assert found == [(first_s, True), (1.5 * first_s, False), (2.5 * first_s, True)]


async def test_ports_are_announced_in_a_file_and_probes_answer_there(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"

    async def main(service: Service) -> None:
        assert not path.exists()
        service.announce(http=8000)
        ports = json.loads(path.read_text())
        assert ports == {"admin": service.ports["admin"], "http": 8000}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['admin']}") as http:
            assert (await http.get("/livez")).status_code == 200
            assert (await http.get("/readyz")).status_code == 200
            service.export(Metrics().registry)
            assert "tts_active_streams" in (await http.get("/metrics")).text

    assert await make(port_file=path).run(main) == 0
    assert list(tmp_path.iterdir()) == [path]


async def test_sigterm_lets_main_finish_its_work() -> None:
    service = make()
    finished: list[str] = []

    async def main(service: Service) -> None:
        service.announce()
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        await asyncio.sleep(0)
        finished.append("work")

    assert await service.run(main) == 0
    assert finished == ["work"]


@pytest.mark.parametrize(
    ("drain_s", "worked", "signals", "status"),
    [
        pytest.param(0.01, True, 1, 1, id="cancelled after the drain time"),
        pytest.param(3600, False, 1, 0, id="no work yet: at once"),
        pytest.param(3600, True, 2, 1, id="a second signal cuts the drain short"),
    ],
)
async def test_main_that_does_not_end(
    drain_s: float, worked: bool, signals: int, status: int
) -> None:
    service = make(drain_s=drain_s)

    async def main(service: Service) -> None:
        if worked:
            service.announce()
        service.stop()
        if signals > 1:
            asyncio.get_running_loop().call_soon(service.stop)
        await asyncio.Event().wait()

    assert await service.run(main) == status


async def test_an_error_of_main_is_the_exit_status() -> None:
    async def main(service: Service) -> None:
        raise RuntimeError("broken")

    assert await make().run(main) == 1


async def test_a_taken_admin_port_is_an_error_in_words() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def main(service: Service) -> None:
        raise AssertionError("must not start")

    assert await make(admin_port=port).run(main) == 1
    server.close()


PROGRAM = """
import logging, structlog
from ttscommon.process.service import Service, launch
from ttscommon.process.settings import ServiceSettings

async def serve(service, settings):
    structlog.get_logger().info("own", request_id="r1")
    logging.getLogger("library").warning("foreign %d", 1)
    service.announce()

launch("example", ServiceSettings, serve)
"""


CLINGING = """
import asyncio
from ttscommon.process import service
from ttscommon.process.service import launch
from ttscommon.process.settings import ServiceSettings

service._LEAVE_S = 2.0

async def cling(often):
    for _ in range(often):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def serve(service, settings):
    service.task = asyncio.create_task(cling({often}), name="clinging")
    service.announce()
    await asyncio.sleep(0)

launch("example", ServiceSettings, serve)
"""


def run_program(program: str = PROGRAM, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_launch_logs_json_from_structlog_and_from_libraries() -> None:
    result = run_program()
    assert (result.returncode, result.stderr) == (0, "")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    said = ["own", "foreign 1", "service.ready", "service.stopped"]
    assert [event["event"] for event in events] == said
    assert events[0]["request_id"] == "r1"
    assert {event["service"] for event in events} == {"example"}
    assert events[1]["level"] == "warning"


@pytest.mark.parametrize(("often", "stuck"), [(2, False), (1_000_000, True)])
def test_a_task_that_misses_cancellation_keeps_no_process_alive(often: int, stuck: bool) -> None:
    result = run_program(CLINGING.replace("{often}", str(often)))
    assert result.returncode == 0
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["event"] == "service.stuck") == stuck
    assert not stuck or last["tasks"] == ["clinging"]


def test_launch_refuses_wrong_settings_with_status_2() -> None:
    result = run_program(ANTIPHON_LOG_LEVEL="loud")
    assert result.returncode == 2
    assert "ANTIPHON_LOG_LEVEL" in result.stderr

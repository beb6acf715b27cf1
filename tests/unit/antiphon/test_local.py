"""The local stack: order, restarts and ports, with tiny services in place of the real ones."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pytest

from antiphon.stack import LocalStack, StackConfig, StackFailed
from antiphon.stack.checkpoints import Checkpoint
from tests.waits import TIMEOUT_S, until
from ttscommon.process.settings import BusSettings

Environs = dict[str, dict[str, str]]

SERVICE = """
import asyncio, json, os, signal
async def main():
    wanted = int(os.environ.get("ANTIPHON_PORT", 0))
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", wanted)
    port = server.sockets[0].getsockname()[1]
    with open(os.environ["ANTIPHON_PORT_FILE"], "w") as file:
        json.dump({"http": port}, file)
    print(json.dumps({"event": "up", "engine": os.environ.get("ANTIPHON_ENGINE")}), flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
asyncio.run(main())
"""


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shadows the three services with tiny ones that keep the same rules."""
    folder = tmp_path / "services"
    for name in ("gateway", "talker", "vocoder"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
        (folder / name / "__main__.py").write_text(SERVICE)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def config(tmp_path: Path, **fields: object) -> StackConfig:
    return StackConfig(**{"port": 0, "store": tmp_path / "store", **fields})  # type: ignore[arg-type]


def checkpoints(folder: Path, *names: str, codec: str = "") -> tuple[Checkpoint, ...]:
    """Each with a codec of its own, or this one."""
    return tuple(Checkpoint(name, folder, folder, codec or name) for name in names)


async def restarted(stack: LocalStack, name: str) -> None:
    child = stack.children[name]
    starts = child.starts
    child.kill()
    await until(lambda: child.starts != starts and child.ready.is_set())


async def answer_to_a_stranger(url: str) -> str:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b'CONNECT {"verbose": false}\r\nPING\r\n')
    answer = await asyncio.wait_for(reader.read(), TIMEOUT_S)
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def test_everything_is_up_inside_and_gone_after(services: Path, tmp_path: Path) -> None:
    async with LocalStack(config(tmp_path, talkers=2)) as stack:
        assert list(stack.children) == ["broker", "gateway", "talker-1", "talker-2", "vocoder-1"]
        pids = [child.pid for child in stack.children.values()]
        assert None not in pids
        port = stack.children["gateway"].ports["http"]
        assert stack.url == f"http://127.0.0.1:{port}"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid or 0, 0)


async def test_restarts_keep_the_ports(services: Path, tmp_path: Path) -> None:
    async with LocalStack(config(tmp_path)) as stack:
        url, bus = stack.url, stack.bus.urls
        await restarted(stack, "gateway")
        await restarted(stack, "broker")
        assert (stack.url, stack.bus.urls) == (url, bus)


@pytest.mark.own_broker
async def test_the_broker_knows_our_users_and_nobody_else(broker: LocalStack) -> None:
    bus = broker.bus
    client = await nats.connect(bus.urls[0], user=bus.user, password=bus.password)
    await client.jetstream().account_info()
    system = await nats.connect(bus.urls[0], user=bus.system_user, password=bus.system_password)
    gone = await system.subscribe("$SYS.ACCOUNT.*.DISCONNECT")
    await system.flush()
    await client.close()
    assert (await gone.next_msg(timeout=TIMEOUT_S)).subject.endswith("ANTIPHON.DISCONNECT")
    await system.close()
    assert "Authorization Violation" in await answer_to_a_stranger(bus.urls[0])


@pytest.mark.own_broker
async def test_the_configuration_with_its_passwords_is_private(broker: LocalStack) -> None:
    assert broker.config.store is not None
    path = broker.config.store / "broker" / "nats.conf"
    assert path.stat().st_mode & 0o077 == 0


async def test_three_brokers_form_a_cluster_with_replicated_streams(tmp_path: Path) -> None:
    alone = {"gateways": 0, "talkers": 0, "vocoders": 0}
    async with LocalStack(config(tmp_path, brokers=3, **alone)) as stack:
        assert stack.bus.replicas == 3
        client = await nats.connect(
            list(stack.bus.urls), user=stack.bus.user, password=stack.bus.password
        )
        stream = client.jetstream(timeout=1)
        async with asyncio.timeout(60):
            while True:
                try:
                    info = await stream.add_stream(name="S", subjects=["s"], num_replicas=3)
                    break
                except (nats.errors.Error, nats.js.errors.Error):
                    await asyncio.sleep(0.1)
        assert info.config.num_replicas == 3
        await client.close()


async def test_a_service_that_cannot_start_fails_the_stack_in_words(
    services: Path, tmp_path: Path
) -> None:
    (services / "vocoder" / "__main__.py").write_text("print('no voice here'); exit(2)")
    with pytest.raises(
        StackFailed, match=r"  no voice here\nvocoder-1 does not start[^\n]*: no voice here$"
    ):
        async with LocalStack(config(tmp_path)):
            pass


LATE = """
import os, pathlib, time
while os.environ.get("ANTIPHON_MODEL") == "slow" and not pathlib.Path("come").exists():
    time.sleep(0.02)
"""


async def test_what_is_ready_in_time_is_served_and_a_slow_model_joins_when_it_comes(
    services: Path, tmp_path: Path
) -> None:
    (services / "talker" / "__main__.py").write_text(LATE + SERVICE)
    models = checkpoints(tmp_path, "slow", "good")
    async with LocalStack(config(tmp_path, models=models, start_timeout_s=3.0)) as stack:
        assert stack.serving == ["good", "vesper"]
        assert (stack.late, stack.waiting) == (["slow"], ["talker-slow-1"])
        waiting = asyncio.create_task(stack.wait())
        (tmp_path / "come").touch()
        async with asyncio.timeout(TIMEOUT_S):
            await stack.children["talker-slow-1"].ready.wait()
        assert stack.serving == ["good", "slow", "vesper"]
        assert not waiting.done()
        assert stack.children["talker-good-1"].starts == 1, "nobody was started anew"
        waiting.cancel()


async def test_a_process_of_several_models_says_which_of_them_it_does_without(
    services: Path, tmp_path: Path
) -> None:
    without = '{"http": port, "left_out": {"bad": "rope_theta is 0.0"}}'
    told = SERVICE.replace(
        '{"http": port}', f'{without} if "ANTIPHON_MODELS" in os.environ else {{}}'
    )
    (services / "talker" / "__main__.py").write_text(told)
    models = checkpoints(tmp_path, "bad", "good")
    async with LocalStack(config(tmp_path, models=models, models_per_worker=16)) as stack:
        assert {"talker-bad-1", "vocoder-bad-1"} <= stack.children.keys()
        assert "talker-good-1" not in stack.children
        assert stack.left_out == {"bad": "rope_theta is 0.0"}
        assert (stack.serving, stack.late) == (["good", "vesper"], [])


async def test_a_model_that_never_comes_is_left_out_when_it_gives_up(
    services: Path, tmp_path: Path
) -> None:
    fails = CHOOSY.replace("bad", "slow")
    (services / "talker" / "__main__.py").write_text(LATE + fails + SERVICE)
    models = checkpoints(tmp_path, "slow", "good")
    async with LocalStack(config(tmp_path, models=models, start_timeout_s=3.0)) as stack:
        waiting = asyncio.create_task(stack.wait())
        (tmp_path / "come").touch()
        await until(lambda: not stack.waiting)
        assert stack.left_out == {"slow": "rope_theta is 0.0"}
        assert stack.serving == ["good", "vesper"]
        assert not waiting.done()
        waiting.cancel()


async def test_a_stack_in_which_nothing_can_be_heard_in_time_ends(
    services: Path, tmp_path: Path
) -> None:
    (services / "vocoder" / "__main__.py").write_text("import time; time.sleep(60)")
    models = checkpoints(tmp_path, "good")
    late = "not ready after 2 s: vocoder-1, vocoder-good-1"
    with pytest.raises(StackFailed, match=late):
        async with LocalStack(config(tmp_path, models=models, start_timeout_s=2.0)):
            pass


async def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackFailed, match=f"cannot listen on 127.0.0.1:{port}"):
            async with LocalStack(config(tmp_path, port=port)):
                pass
    assert not (tmp_path / "store").exists()


@pytest.mark.own_broker
async def test_a_store_belongs_to_one_stack_at_a_time(broker: LocalStack) -> None:
    with pytest.raises(StackFailed, match="in use by another stack"):
        async with LocalStack(broker.config):
            pass
    assert broker.children["broker"].ready.is_set()


def test_ctrl_c_stops_the_command_and_leaves_nothing(services: Path) -> None:
    # Settings in the environment are for the services: those of the tests' runner are not.
    environ = {name: v for name, v in os.environ.items() if not name.startswith("ANTIPHON_")}
    with subprocess.Popen(
        [sys.executable, "-m", "antiphon", "up", "--port", "0", "--engine", "fake"],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None
        seen: list[str] = []
        for line in up.stdout:
            seen.append(line)
            if "vocoder-1" in line and "pid" in line:
                break
        up.send_signal(signal.SIGINT)
        seen += up.stdout.readlines()
        assert up.wait(20) == 0
    text = "".join(seen)
    assert "engine=fake" in text
    pids = [int(pid) for pid in re.findall(r"pid (\d+),", text)]
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


CHOOSY = """
import json, os, sys
if os.environ.get("ANTIPHON_MODEL") == "bad":
    print(json.dumps({"event": "loading", "level": "info"}), flush=True)
    print(json.dumps({"event": "service.failed", "error": "rope_theta is 0.0"}), flush=True)
    sys.exit(2)
"""


@pytest.mark.parametrize("codec", ["", "one"])
async def test_one_bad_model_leaves_the_others_running_and_a_codec_that_they_share(
    services: Path, tmp_path: Path, codec: str
) -> None:
    (services / "talker" / "__main__.py").write_text(CHOOSY + SERVICE)
    models = checkpoints(tmp_path, "bad", "good", codec=codec)
    async with LocalStack(config(tmp_path, models=models)) as stack:
        assert stack.left_out == {"bad": "rope_theta is 0.0"}
        assert stack.waiting == []
        running = {name for name, child in stack.children.items() if child.pid is not None}
        assert {"talker-1", "talker-good-1"} <= running
        shared = {"vocoder-bad-1"} if codec else {"vocoder-1", "vocoder-good-1"}
        others = {"talker-bad-1", "vocoder-bad-1", "vocoder-good-1"} - shared
        assert shared <= running
        assert not running & others
        waiting = asyncio.create_task(stack.wait())
        done, _ = await asyncio.wait((waiting,), timeout=0.5)
        assert not done
        waiting.cancel()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Environs]:
    """Settings of all processes of engines, by name."""
    monkeypatch.setattr(LocalStack, "bus", BusSettings(urls=("nats://broker",)))

    def found(**fields: object) -> Environs:
        models = tuple(
            Checkpoint(name, tmp_path, tmp_path, name, device)
            for name, device in (("a", None), ("b", "cuda:0"), ("c", "cuda:1"))
        )
        services = LocalStack(config(tmp_path, models=models, **fields))._services(tmp_path)
        return {one.name: dict(one.environ) for one in services if one.module != "gateway"}

    return found


def test_a_pair_serves_each_checkpoint_beside_the_default_voice(
    programs: Callable[..., Environs],
) -> None:
    found = programs(pair=True, device="cuda")
    assert found.keys() == {"pair-1", "pair-a-1", "pair-b-1", "pair-c-1"}
    assert found["pair-a-1"]["ANTIPHON_TALKER__MODEL"] == "a"
    assert found["pair-a-1"]["ANTIPHON_DEVICE"] == "cuda"
    assert found["pair-c-1"]["ANTIPHON_VOCODER__DEVICE"] == "cuda:1"
    shared = [found[f"pair-{n}"]["ANTIPHON_DEVICE_SHARERS"] for n in ("1", "a-1", "b-1", "c-1")]
    assert shared == ["3", "3", "3", "1"]


def test_a_talker_knows_how_many_processes_share_its_gpu_and_a_cpu_counts_none(
    programs: Callable[..., Environs],
) -> None:
    found = programs()
    assert "ANTIPHON_DEVICE_SHARERS" not in found["talker-a-1"]
    assert found["talker-b-1"]["ANTIPHON_DEVICE_SHARERS"] == "2", "and its vocoder"
    assert "ANTIPHON_DEVICE_SHARERS" not in found["vocoder-b-1"], "which has no cache"

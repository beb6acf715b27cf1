"""Both talkers of a model restart: who waits is told so, and served by the first that is ready."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from antiphon.stack import LocalStack
from antiphon.stack.child import RestartPolicy
from tests.waits import TIMEOUT_S

BOTH: Final = ("talker-1", "talker-2")
# The worker that was killed would have had this long to acknowledge the job: 30 s.
AT_ONCE_S: Final = 10.0
# Away for longer than it takes to know that the last worker of a model is gone.
TWINS: Final = [
    {"engine": "fake", "talkers": 2, "restarts": RestartPolicy(first_backoff_s=14.0)},
]
JOB: Final = {"input": "The tide came in.\n\n" * 5000, "response_format": "pcm"}


async def say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: ClientConnection, *kinds: str) -> dict[str, Any]:
    """The next message of these kinds; audio is `pcm`."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            data = await socket.recv()
            told = {"type": "pcm"} if isinstance(data, bytes) else json.loads(data)
            assert told["type"] != "error" or "error" in kinds, told
            if told["type"] in kinds:
                return dict(told)


async def first_ready(stack: LocalStack) -> str:
    """The talker that is ready first, as soon as it is."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            for name in BOTH:
                if stack.children[name].ready.is_set():
                    return name
            await asyncio.sleep(0.02)


async def kill_both(stack: LocalStack) -> None:
    """One after the other, so that the second has the jobs of the first."""
    for name in BOTH:
        stack.children[name].kill()
        async with asyncio.timeout(TIMEOUT_S):
            while stack.children[name].ready.is_set():
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("stack", TWINS, indirect=True)
async def test_a_stream_and_a_job_are_told_and_go_on_with_the_first_that_is_ready(
    stack: LocalStack,
) -> None:
    """Both of one restart: it takes long to know that the last worker of a model is gone."""
    async with (
        httpx.AsyncClient(base_url=stack.url, timeout=TIMEOUT_S) as http,
        connect(stack.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket,
    ):
        path = f"/v1/audio/jobs/{(await http.post('/v1/audio/jobs', json=JOB)).json()['id']}"

        async def reached(condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition(card := (await http.get(path)).json()):
                    await asyncio.sleep(0.05)
            return dict(card)

        async def more() -> dict[str, Any]:
            spoken = (await http.get(path)).json()["progress"]["spoken"]
            return await reached(lambda card: card["progress"]["spoken"] > spoken)

        begun = await reached(lambda card: card["progress"]["spoken"])
        assert begun["warning"] is None
        await say(socket, "session.config", seed=5)
        await say(socket, "input.text", text="The tide came in before dawn. ")
        await until(socket, "pcm")
        await kill_both(stack)
        await say(socket, "input.text", text="It was slow, and silver. ")
        await say(socket, "input.done")
        warning = await until(socket, "warning")
        assert warning["warning"]["code"] == "unavailable"
        assert "talker" in warning["warning"]["message"]
        told = await reached(lambda card: card["warning"])
        assert (told["status"], told["warning"]["code"]) == ("running", "unavailable")
        end = asyncio.create_task(until(socket, "audio.done"))
        name = await first_ready(stack)
        ready_s = time.monotonic()
        await more()
        done = await end
        took_s = time.monotonic() - ready_s
        print(f"\n{name} was ready; the stream had ended and the job gone on {took_s:.2f} s later")
        assert took_s < AT_ONCE_S
        assert done["outcome"] == "ok"
        assert (await more())["warning"] is None
        assert (await http.delete(path)).is_success

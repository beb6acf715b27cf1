"""Both talkers of a model restart: who waits is told so, and served by the first that is ready."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from antiphon.stack import LocalStack
from antiphon.stack.child import RestartPolicy
from tests.native import Client
from tests.waits import TIMEOUT_S

BOTH: Final = ("talker-1", "talker-2")
# The worker that was killed would have had this long to acknowledge the job: 30 s.
AT_ONCE_S: Final = 10.0
# Away for longer than it takes to know that the last worker of a model is gone.
TWINS: Final = [
    {"engine": "fake", "talkers": 2, "restarts": RestartPolicy(first_backoff_s=14.0)},
]
JOB: Final = {"input": "The tide came in.\n\n" * 5000, "response_format": "pcm"}


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
        await Client.opened(stack.url) as client,
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
        await client.send("session.config", seed=5)
        await client.send("input.text", text="The tide came in before dawn. ")
        await client.until("audio")
        await kill_both(stack)
        await client.send("input.text", text="It was slow, and silver. ")
        await client.send("input.done")
        warning = await client.until("warning")
        assert warning["warning"]["code"] == "unavailable"
        assert "talker" in warning["warning"]["message"]
        told = await reached(lambda card: card["warning"])
        assert (told["status"], told["warning"]["code"]) == ("running", "unavailable")
        end = asyncio.create_task(client.until("audio.done"))
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

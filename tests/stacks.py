"""What tests ask of a running stack."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from antiphon.stack import LocalStack
from tests.waits import TIMEOUT_S

JOBS: Final = "/v1/audio/jobs"


async def metric(stack: LocalStack, child: str, name: str) -> float:
    """The sum of a metric's samples, as the child's /metrics shows them."""
    url = f"http://127.0.0.1:{stack.children[child].ports['admin']}/metrics"
    async with httpx.AsyncClient(verify=False) as client:
        lines = (await client.get(url)).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def until_metric(
    stack: LocalStack, child: str, name: str, holds: Callable[[float], bool]
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not holds(await metric(stack, child, name)):
            await asyncio.sleep(0.02)


def is_done(card: Mapping[str, Any]) -> bool:
    return bool(card["status"] == "done")


async def job_card(
    http: httpx.AsyncClient,
    job_id: str,
    reached: Callable[[dict[str, Any]], bool] = is_done,
    **options: Any,
) -> dict[str, Any]:
    """A job's card when it has come so far."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            card: dict[str, Any] = (await http.get(f"{JOBS}/{job_id}", **options)).json()
            if reached(card):
                return card
            assert card["status"] != "failed", card
            await asyncio.sleep(0.05)

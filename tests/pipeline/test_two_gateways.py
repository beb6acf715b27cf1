"""Two gateways as processes see every job at the same moment: each is spoken once."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from antiphon.stack import LocalStack, StackConfig
from tests.stacks import job_card
from tests.waits import TIMEOUT_S

PATH: Final = "/v1/audio/jobs"
JOBS: Final = 6
TEXT: Final = "\n\n".join(f"Paragraph {number} of a job." for number in range(10))
TAKEN: Final = re.compile(r'"job": "([^"]+)".*"event": "book.taken"')
CHARACTERS: Final = JOBS * len(TEXT.replace("\n\n", ""))
BODY: Final = {"input": TEXT, "response_format": "pcm", "seed": 5, "paragraph_pause_s": 0}


async def made(http: httpx.AsyncClient, url: str) -> str:
    answer = await http.post(f"{url}{PATH}", json=BODY)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


@pytest.mark.slow
async def test_of_two_gateways_exactly_one_speaks_each_job(tmp_path: Path) -> None:
    lines: list[str] = []
    config = StackConfig(port=0, gateways=2, engine="fake", store=tmp_path / "store")
    async with (
        LocalStack(config, lambda name, line: lines.append(f"{name}: {line}")) as stack,
        httpx.AsyncClient(timeout=TIMEOUT_S) as http,
    ):
        port = stack.children["gateway-2"].ports["http"]
        urls = [stack.url, f"http://127.0.0.1:{port}"]
        ids = await asyncio.gather(*(made(http, urls[number % 2]) for number in range(JOBS)))
        http.base_url = httpx.URL(urls[0])
        cards = [await job_card(http, one) for one in ids]
        sounds = [(await http.get(card["audio_url"])).content for card in cards]
        used: Any = {}
        async with asyncio.timeout(TIMEOUT_S):
            while used.get("characters", 0) < CHARACTERS:
                used = (await http.get("/v1/usage")).json()["total"]
                await asyncio.sleep(0.1)
    assert len(set(sounds)) == 1
    assert sounds[0]
    assert (used["requests"], used["characters"]) == (JOBS, CHARACTERS)
    taken = Counter(found[1] for line in lines if (found := TAKEN.search(line)))
    assert {one: taken[one] for one in ids} == dict.fromkeys(ids, 1), taken

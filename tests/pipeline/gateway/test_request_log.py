"""The gateway's log names each request's tenant, model and size, and each refusal's reason."""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

from antiphon.stack import LocalStack, StackConfig

TEXT = "Good morning."


async def test_what_was_spoken_for_whom_and_who_was_refused(tmp_path: Path) -> None:
    keys, lines = tmp_path / "keys.toml", list[str]()
    digest = hashlib.sha256(b"bob").hexdigest()
    keys.write_text(f'[keys.bob]\nsha256 = "{digest}"\nrequests_per_minute = 1\n')
    environ = {"gateway": {"ANTIPHON_KEYS_FILE": str(keys)}}
    config = StackConfig(port=0, engine="fake", store=tmp_path / "store", environ=environ)
    async with (
        LocalStack(config, lambda name, line: lines.append(line)) as stack,
        httpx.AsyncClient(base_url=stack.url) as client,
    ):
        headers = {"authorization": "Bearer bob"}
        for status in (200, 429):
            body = {"input": TEXT, "response_format": "pcm"}
            answer = await client.post("/v1/audio/speech", json=body, headers=headers)
            assert answer.status_code == status
    [ended] = events(lines, "request.ended")
    assert ended["tenant"] == "bob"
    assert ended["model"] == "vesper"
    assert ended["characters"] == len(TEXT)
    assert ended["outcome"] == "ok"
    [refused] = events(lines, "request.refused")
    assert (refused["tenant"], refused["code"]) == ("bob", "rate_limit_exceeded")
    assert "requests a minute" in refused["reason"]


def events(lines: list[str], name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [one for one in found if one["event"] == name]

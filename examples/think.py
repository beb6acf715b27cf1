"""A synthetic thinker: what it says is rows of numbers, sent while it makes them: python think.py

Its numbers are drawn, so the speech is babble; a real one sends its model's embeddings. It comes
back where a connection was lost, to whichever gateway answers.
"""

import asyncio
import base64
import json
import os
import random
import struct
import sys
import zlib

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

URL = os.environ.get("ANTIPHON_URL", "ws://127.0.0.1:8000") + "/v1/audio/speech/stream"
MODEL = os.environ.get("MODEL", "omni")
WIDTH = int(os.environ.get("WIDTH", "2048"))  # `row_width` of the model in /v1/models
TOKENS = int(os.environ.get("TOKENS", "60"))
THINKS_S = float(os.environ.get("THINKS_S", "0.03"))  # so long for a token
CONTEXT = 8  # rows of the prompt


def rows(at):
    """Message number `at`: the prompt, then a token each."""
    kind, start, count = ("context", 0, CONTEXT) if at == 0 else ("said", CONTEXT + at - 1, 1)
    numbers = random.Random(at)
    data = struct.pack(f"<{count * WIDTH}f", *(numbers.gauss(0, 1) for _ in range(count * WIDTH)))
    told = {"kind": kind, "dtype": "f4", "shape": [count, WIDTH], "crc32": zlib.crc32(data)}
    return {"start": start, "rows": {**told, "data": base64.b64encode(data).decode()}}


def message_of(row):
    """The message that row number `row` is in."""
    return 0 if row < CONTEXT else row - CONTEXT + 1


async def think(socket, request_id, stored):
    """Send what is not stored yet, as it comes to mind."""
    for at in range(message_of(stored), TOKENS + 1):
        await asyncio.sleep(THINKS_S)
        await socket.send(json.dumps({"type": "input.rows", "request_id": request_id, **rows(at)}))
    await socket.send(json.dumps({"type": "input.done", "request_id": request_id}))


async def converse(known, out):
    """One connection; whether all was heard."""
    thinking = None
    async with connect(URL) as socket:
        config = {"type": "session.config", "model": MODEL, "resumable": True}
        await socket.send(json.dumps(config))
        if known:
            came = {"type": "session.resume", "from_sample": known["bytes"] // 2}
            for message in (came, {"type": "input.attach"}):
                named = {"request_id": known["request_id"], "token": known["resume_token"]}
                await socket.send(json.dumps({**message, **named}))
        else:
            await socket.send(json.dumps({"type": "input.rows", **rows(0)}))
        async for message in socket:
            if isinstance(message, bytes):
                out.write(message)
                known["bytes"] = known.get("bytes", 0) + len(message)
                continue
            told = json.loads(message)
            if told["type"] == "input.accepted" and thinking is None:
                known.update(told)
                thinking = asyncio.create_task(think(socket, told["request_id"], told["rows"]))
            elif told["type"] in ("audio.done", "error"):
                print(message, file=sys.stderr)
                return True
    return False


async def main():
    known = {}
    while True:
        try:
            if await converse(known, sys.stdout.buffer):
                return
        except (ConnectionClosed, OSError) as lost:
            print(f"lost ({lost}); coming back", file=sys.stderr)
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main())

"""Speak what a language model writes, while it writes: llm "Tell me a story" | python speak.py"""

import asyncio
import codecs
import json
import os

from websockets.asyncio.client import connect

URL = os.environ.get("ANTIPHON_URL", "ws://127.0.0.1:8000") + "/v1/audio/speech/stream"
PLAYER = os.environ.get("PLAYER", "aplay -q -f S16_LE -r 24000 -c 1")


async def send_tokens(socket):
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")  # a character may come in two reads
    while data := await asyncio.to_thread(os.read, 0, 64):
        await socket.send(json.dumps({"type": "input.text", "text": decoder.decode(data)}))
    await socket.send('{"type": "input.done"}')
    await socket.send('{"type": "session.close"}')


async def main():
    player = await asyncio.create_subprocess_shell(PLAYER, stdin=asyncio.subprocess.PIPE)
    async with connect(URL) as socket, asyncio.TaskGroup() as group:
        await socket.send('{"type": "session.config", "sample_rate": 24000}')
        group.create_task(send_tokens(socket))
        async for message in socket:
            if isinstance(message, bytes):
                player.stdin.write(message)
                await player.stdin.drain()
            elif message.startswith('{"type":"error"'):
                print(message)
    player.stdin.close()
    await player.wait()


asyncio.run(main())

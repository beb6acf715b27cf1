"""Antiphon's own socket, over a real broker."""

import asyncio
import gc
import json
import weakref
from typing import Any, Final

import pytest
from websockets.exceptions import ConnectionClosed

from gateway.protocols.shared.sockets import WebSocketTransport
from gateway.settings import GatewaySettings
from ttscommon.wire.messages import TextPiece
from ttscommon.wire.pieces import Boundary, Pause, Phones
from ttscommon.wire.subjects import TEXT as TEXT_LOG

TEXT = "The tide is coming in."


async def test_speed_changes_the_length_and_the_times_of_words(stand: Any, talk: Any) -> None:
    heard = []
    for speed in (1.0, 2.0):
        async with stand.session(seed=4, speed=speed) as socket:
            await talk.say(socket, TEXT * 4)
            heard.append(await talk.until(socket, "audio.done"))
    plain, fast = (messages[-1]["samples"] for messages in heard)
    assert fast == pytest.approx(plain / 2, abs=2)
    ends = [m["words"][-1]["end_s"] for messages in heard for m in messages if "end_s" in str(m)]
    assert ends[-1] == pytest.approx(ends[0] / 2, abs=0.001)


async def test_the_configuration_may_change_between_requests(stand: Any, talk: Any) -> None:
    async with stand.session(voice="slt") as socket:
        await talk.send(socket, "session.config", voice="awb")
        assert (await talk.receive(socket))["type"] == "session.updated"
        await talk.send(socket, "input.text", text="one")
        await talk.send(socket, "session.config", voice="slt")
        await talk.send(socket, "input.done")
        messages = await talk.until(socket, "audio.done")
    assert [m["error"]["code"] for m in messages if m["type"] == "error"] == ["wrong_order"]
    assert messages[-1]["outcome"] == "ok"
    assert stand.stage.jobs[0].request.voice == "awb"


async def test_cancel_stops_everything_and_says_how_far_it_was_heard(stand: Any, talk: Any) -> None:
    stand.stage.script = talk.hold
    async with stand.session() as socket:
        for _ in range(2):
            await talk.say(socket, TEXT)
        messages = await talk.until(socket, "pcm")
        await talk.send(socket, "cancel")
        first, second = await talk.receive(socket), await talk.receive(socket)
        assert first["outcome"] == second["outcome"] == "cancelled"
        assert first["request_id"] == messages[0]["request_id"]
        assert 0 <= first["played_s"] <= first["duration_s"] == 0.05
        assert second["samples"] == 0
        await stand.stage.freed(first["request_id"])
        stand.stage.script = talk.recite
        await talk.say(socket, "Go on.")
        assert (await talk.until(socket, "audio.done"))[-1]["outcome"] == "ok"
    assert len(stand.stage.jobs) == 2


# recorded/native.txt has others, unit/gateway/protocols/test_native_messages.py their parsing.
MISTAKES: Final = {
    '{"type": "session.config", "model": "nobody"}': "unknown_model",
    '{"type": "session.config", "response_format": "mp3"}': "unsupported",
    '{"type": "session.config", "seed": "x"}': "bad_request",
    '{"type": "input.text"}': "bad_request",
}


async def test_a_mistake_is_named_and_survived(stand: Any, talk: Any) -> None:
    async with stand.socket() as socket:
        for message, code in MISTAKES.items():
            await socket.send(message)
            error = await talk.receive(socket)
            assert (error["type"], error["error"]["code"]) == ("error", code)
        await talk.send(socket, "session.config")
        assert (await talk.receive(socket))["type"] == "session.created"


LARGE: Final = json.dumps({"type": "input.text", "extra": ["a" * 9_000] * 60})


async def test_a_broken_client_is_told_and_let_go(stand: Any, talk: Any) -> None:
    for message, code, close in (("{", "invalid_json", 1008), (LARGE, "message_too_big", 1009)):
        async with stand.session() as socket:
            await socket.send(message)
            error = await talk.receive(socket)
            assert error["error"]["code"] == code
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == close


@pytest.mark.parametrize("settings", [{"max_text_chars": 100}], indirect=True)
async def test_too_much_text_ends_only_that_request(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="abcd " * 18)
        await talk.until(socket, "pcm")
        await talk.send(socket, "input.text", text="more " * 4)
        await talk.say(socket, "ignored")
        error = (await talk.until(socket, "error", "audio.done"))[-1]
        assert error["error"]["code"] == "text_too_long"
        for job in stand.stage.jobs:
            await stand.stage.freed(job.request_id)
        await talk.say(socket, "short")
        assert (await talk.until(socket, "audio.done"))[-1]["outcome"] == "ok"


@pytest.mark.parametrize("settings", [{"input_timeout_s": 0.2}, {"max_text_s": 0.2}], indirect=True)
async def test_text_that_does_not_end_in_time_is_given_up(
    stand: Any, talk: Any, settings: GatewaySettings
) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text=TEXT)
        error = (await talk.until(socket, "error", "audio.done"))[-1]["error"]
        assert error["code"] == "input_timeout"
        assert ("ANTIPHON_MAX_TEXT_S" in error["message"]) == (settings.max_text_s == 0.2)


@pytest.mark.parametrize("settings", [{"idle_timeout_s": 0.2}], indirect=True)
async def test_a_text_in_which_nothing_can_be_said_does_not_keep_a_session(
    stand: Any, talk: Any
) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="...")
        assert (await talk.receive(socket))["error"]["code"] == "idle_timeout"


@pytest.mark.parametrize("settings", [{"ttfp_target_s": 0.2}], indirect=True)
async def test_the_end_of_a_request_says_whether_the_machine_was_too_busy_for_it(
    stand: Any, talk: Any
) -> None:
    async with stand.session() as socket:
        for late_s in (0.0, 0.4):

            async def script(performance: Any, late_s: float = late_s) -> None:
                await asyncio.sleep(late_s)
                await talk.recite(performance)

            stand.stage.script = script
            await talk.say(socket, TEXT)
            done = (await talk.until(socket, "audio.done"))[-1]
            assert done["busy"] == (late_s > 0.2)


@pytest.mark.parametrize("settings", [{"max_streams": 1}], indirect=True)
async def test_a_refused_request_is_spoken_when_it_comes_again_on_the_same_socket(
    stand: Any, talk: Any
) -> None:
    stand.stage.script = talk.hold
    async with stand.session() as holder:
        await talk.send(holder, "input.text", text=TEXT)
        await talk.until(holder, "pcm")
        async with stand.session() as socket:
            await talk.send(socket, "input.text", text=TEXT)
            refusal = (await talk.receive(socket))["error"]
            assert refusal["code"] == "overloaded"
            assert refusal["retry_after_s"] >= 1
            await talk.send(socket, "input.done")
            await talk.send(holder, "cancel")
            await talk.until(holder, "audio.done")
            await talk.send(socket, "input.text", text=TEXT)
            await talk.until(socket, "pcm")


@pytest.mark.parametrize(
    "settings", [{"slow_client_timeout_s": 0.5, "send_buffer_bytes": 65536}], indirect=True
)
async def test_a_client_that_does_not_read_is_cut_off_alone(stand: Any, talk: Any) -> None:
    long = "a" * 90

    async def flood(performance: Any) -> None:
        if performance.job.request.text.startswith("short"):
            await talk.recite(performance)
            return
        for _ in range(2000):
            await performance.say(long)
        await asyncio.Event().wait()  # said in no time, and not over before it is cancelled

    stand.stage.script = flood
    async with stand.socket(max_queue=1) as deaf, stand.session() as well:
        await talk.send(deaf, "session.config")
        await talk.say(deaf, "a flood")
        gateway = stand.gateway
        async with asyncio.timeout(10):
            while len(gateway.sockets.sessions) == 2:
                await talk.say(well, "short")
                assert (await talk.until(well, "audio.done"))[-1]["outcome"] == "ok"
        assert stand.metric("tts_active_streams", stage="gateway") == 0
        await stand.stage.freed(stand.stage.jobs[0].request_id)
        deaf.transport.abort()


async def test_a_session_that_ended_is_no_garbage_for_the_collector(stand: Any, talk: Any) -> None:
    gc.disable()
    try:
        async with stand.session() as socket:
            await talk.say(socket, TEXT)
            await talk.until(socket, "audio.done")
            (session,) = stand.gateway.sockets.sessions
            left, ended = weakref.ref(session), session.ended
            del session
        async with asyncio.timeout(10):
            await ended.wait()
            while left() is not None:  # what served it still has to return
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_cancelling_a_request_of_the_session_leaves_its_contexts_alone(
    stand: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, go = asyncio.Event(), asyncio.Event()
    send = WebSocketTransport.send

    async def slowly(self: WebSocketTransport, data: str | bytes) -> None:
        if "audio.chunk" in str(data):
            taken.set()
            await go.wait()
        await send(self, data)

    async def script(performance: Any) -> None:
        await performance.say("first")
        if performance.job.request.text == "long":
            await asyncio.Event().wait()
        await performance.end()

    stand.stage.script = script
    monkeypatch.setattr(WebSocketTransport, "send", slowly)
    async with stand.session() as socket:
        await talk.say(socket, "long")
        await talk.until(socket, "pcm")
        await talk.say(socket, "short", context_id="c")
        await taken.wait()
        await talk.send(socket, "cancel")
        await stand.stage.freed(stand.stage.jobs[0].request_id)
        go.set()
        messages = [await talk.receive(socket) for _ in range(4)]
    done = {m.get("context_id"): m["outcome"] for m in messages if m["type"] == "audio.done"}
    assert done == {None: "cancelled", "c": "ok"}


async def test_boundaries_phones_and_pauses_reach_the_talker(stand: Any, talk: Any) -> None:
    pieces: list[Any] = []

    async def script(performance: Any) -> None:
        request = performance.job.request
        pieces.extend(mark.piece for mark in request.marks)
        if not request.text_final:
            async with performance.bus.reader(TEXT_LOG, request.request_id) as reader:
                async for record in reader:
                    if isinstance(record, TextPiece):
                        pieces.extend(mark.piece for mark in record.marks)
        await performance.say("done")
        await performance.end()

    stand.stage.script = script
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="One")
        await talk.send(socket, "input.flush")
        await talk.send(socket, "input.phones", text="tide", phones="taɪd", alphabet="ipa")
        await talk.send(socket, "input.pause", seconds=0.5)
        await talk.say(socket, '<phoneme ph="taɪd">tide</phoneme>')
        await talk.until(socket, "audio.done")
    markup = Phones("tide", "taɪd", "ipa", optional=True)
    assert pieces == [Boundary(), Phones("tide", "taɪd", "ipa"), Pause(0.5), markup]

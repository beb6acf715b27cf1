"""A listener whose connection is lost hears the rest over another one, sample for sample."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from tests.waits import until
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import AUDIO

TEXT = "half and half"


class Halves:
    """A script that says one half, waits, and says the other."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, performance: Any) -> None:
        await performance.say("first half")
        await self.go.wait()
        await performance.say("second half")
        await performance.end()


@pytest.fixture
def halves(stand: Any) -> Halves:
    stand.stage.script = Halves()
    return stand.stage.script


@dataclass(frozen=True)
class Ticket:
    """What a client keeps of a request, in order to come back."""

    request_id: str
    token: str


async def first_half(
    stand: Any, talk: Any, context: str | None = None, **config: Any
) -> tuple[Ticket, Any, Any]:
    """Speak until the first audio; returns the ticket, what was heard, and the open socket."""
    about = {"context_id": context} if context else {}
    socket = await stand.socket()
    await talk.send(socket, "session.config", seed=0, **config)
    await talk.say(socket, TEXT, **about)
    messages = await talk.until(socket, "pcm", "audio.chunk")
    start = next(m for m in messages if m["type"] == "audio.start")
    ticket = Ticket(start["request_id"], start.get("resume_token", ""))
    return ticket, talk.pcm(messages), socket


async def the_rest(
    stand: Any, talk: Any, ticket: Ticket, sample: int, context: str | None = None, **config: Any
) -> Any:
    about = {"context_id": context} if context else {}
    async with stand.session(seed=0, **config) as socket:
        await talk.send(socket, "session.resume", **asdict(ticket), from_sample=sample, **about)
        messages = await talk.until(socket, "audio.done", "error")
        assert messages[-1].get("outcome") == "ok", messages[-1]
        start = next(m for m in messages if m["type"] == "audio.start")
        assert (start["request_id"], start["from_sample"]) == (ticket.request_id, sample)
        assert {m["context_id"] for m in messages if "sequence" in m} == set(about.values())
        return talk.pcm(messages)


async def gone(stand: Any) -> None:
    await until(lambda: not stand.gateway.sockets.sessions)


async def test_silence_in_front_is_left_out_before_a_loss_and_behind_it(
    stand: Any, talk: Any, halves: Halves
) -> None:
    stand.stage.lead = 300
    ticket, heard, socket = await first_half(stand, talk, resumable=True)
    socket.transport.abort()
    await gone(stand)
    halves.go.set()
    rest = await the_rest(stand, talk, ticket, len(heard) - 100)
    whole = talk.sound("first halfsecond half")
    assert np.array_equal(np.concatenate([heard[:-100], rest]), whole[300:])
    # What was said is made again for one who comes when all is over.
    assert np.array_equal(await the_rest(stand, talk, ticket, 5), whole[305:])


async def test_who_hangs_up_or_never_meant_to_come_back_frees_the_stage(
    stand: Any, talk: Any, halves: Halves
) -> None:
    for context, resumable in ((None, True), (None, False), ("c", True)):
        ticket, _, socket = await first_half(stand, talk, context, resumable=resumable)
        if resumable:
            await socket.close()
        else:
            socket.transport.abort()
        await stand.stage.freed(ticket.request_id)


async def test_a_gateway_out_of_time_hands_its_listeners_over(
    stand: Any, talk: Any, halves: Halves
) -> None:
    ticket, heard, socket = await first_half(stand, talk, resumable=True)
    await stand.gateway.drain(0.0)
    told = await talk.receive(socket)
    assert (told["error"]["code"], told["request_id"]) == ("draining", ticket.request_id)
    with pytest.raises(ConnectionClosed):
        await socket.recv()
    assert socket.close_code == 1012
    assert not stand.stage.jobs[0].cancelled.is_set()
    halves.go.set()
    stand.gateway.context.services.admission.draining = False  # as another gateway would be
    rest = await the_rest(stand, talk, ticket, len(heard))
    assert len(heard) + len(rest) == len(talk.sound("first halfsecond half"))


async def test_text_that_was_being_typed_ends_where_the_connection_did(
    stand: Any, talk: Any
) -> None:
    socket = await stand.socket()
    await talk.send(socket, "session.config", seed=0, resumable=True)
    await talk.send(socket, "input.text", text="unfinished")
    messages = await talk.until(socket, "pcm")
    start = next(m for m in messages if m["type"] == "audio.start")
    ticket = Ticket(start["request_id"], start["resume_token"])
    socket.transport.abort()
    await gone(stand)
    rest = await the_rest(stand, talk, ticket, 0)
    assert np.array_equal(rest, talk.sound("unfinished"))


async def test_http_resumes_too_and_a_stranger_is_not_found(
    stand: Any, talk: Any, halves: Halves
) -> None:
    body = {"input": TEXT, "response_format": "pcm", "seed": 0, "resumable": True}
    body["sample_rate"] = 16_000
    async with stand.http.stream("POST", "/v1/audio/speech", json=body) as response:
        request_id = response.headers["x-request-id"]
        token = {"x-resume-token": response.headers["x-resume-token"]}
        heard = await anext(response.aiter_bytes())
    halves.go.set()
    sample = len(heard) // 2
    rest = await stand.http.get(
        f"/v1/audio/speech/{request_id}?from_sample={sample}&sample_rate=16000", headers=token
    )
    whole = talk.sound("first halfsecond half")
    assert np.array_equal(np.frombuffer(heard[: 2 * sample] + rest.content, "<i2"), whole)
    stranger = await stand.http.get("/v1/audio/speech/nobody-knows-me")
    assert stranger.status_code == 404


async def test_a_request_is_heard_over_the_latest_connection_alone(
    stand: Any, talk: Any, halves: Halves
) -> None:
    ticket, heard, first = await first_half(stand, talk, resumable=True)
    rest = asyncio.create_task(the_rest(stand, talk, ticket, len(heard), resumable=True))
    message = (await talk.until(first, "error"))[-1]
    assert message["error"]["code"] == "heard_elsewhere"
    halves.go.set()
    assert len(heard) + len(await rest) == len(talk.sound("first halfsecond half"))
    assert not stand.stage.jobs[0].cancelled.is_set()
    await first.close()


async def ended(bus: Any, ticket: Ticket) -> None:
    async def over() -> bool:
        last = await bus.log(AUDIO, ticket.request_id).last()
        return last is not None and isinstance(last.record, End)

    await until(over)


async def test_a_request_that_has_ended_is_made_again_as_often_as_it_is_resumed(
    stand: Any, talk: Any, halves: Halves
) -> None:
    ticket, heard, socket = await first_half(stand, talk, resumable=True)
    halves.go.set()
    await talk.until(socket, "audio.done")
    await socket.close()
    await ended(stand.gateway.context.services.bus, ticket)
    whole = talk.sound("first halfsecond half")
    for sample in (0, len(heard) - 1):
        rest = await the_rest(stand, talk, ticket, sample)
        assert np.array_equal(rest, whole[sample:])
    assert stand.stage.remakes == 2
    async with stand.session(seed=0) as again:  # it has all of it
        await talk.send(again, "session.resume", **asdict(ticket), from_sample=len(whole))
        done = await talk.receive(again)
    assert (done["type"], done["outcome"]) == ("audio.done", "ok")
    assert stand.stage.remakes == 2


async def test_a_context_that_is_open_cannot_be_resumed(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", context_id="c", text="open")
        await talk.until(socket, "audio.chunk")
        await talk.send(socket, "session.resume", context_id="c", request_id="x" * 16, token="x")
        error = (await talk.until(socket, "error"))[-1]
        assert error["error"]["code"] == "wrong_order"

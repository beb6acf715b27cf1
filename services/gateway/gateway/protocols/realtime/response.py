"""One response as clients are told of it: its item, its audio, its transcript, and its one end."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from gateway import errors
from gateway.audio import PcmBlock
from gateway.protocols.framing import Framing, WrittenText
from gateway.protocols.realtime.configuration import WantedResponse, format_of
from gateway.protocols.realtime.items import Conversation, ConversationItem
from gateway.protocols.shared.sockets import JsonObject
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime

# Of audio in one message. In base64 it stays far below the MiB that some clients take.
_MOST_BYTES: Final = 96 << 10
_UNTIMED_S: Final = 1.0
_COMPLETED: Final = "completed"


class ResponseEvents:
    """Tells the events of one response, in their order. `tell` queues one.

    conversation: what its item is added to, and `added` is called with what had to go for it; None
    where the response is no part of one.
    """

    def __init__(
        self,
        wanted: WantedResponse,
        tell: Callable[[JsonObject], None],
        conversation: Conversation | None,
        added: Callable[[ConversationItem], None],
    ) -> None:
        self.wanted = wanted
        self.ended = self.completed = False
        self._tell = tell
        self._conversation = conversation
        self._added = added
        self._item: ConversationItem | None = None
        self._transcript = ""
        self._marks: list[tuple[int, float]] = []

    @property
    def ids(self) -> dict[str, Any]:
        """What the events of its audio begin with."""
        wanted = self.wanted
        about = {"response_id": wanted.response_id, "item_id": wanted.item_id}
        return {**about, "output_index": 0, "content_index": 0}

    @property
    def item(self) -> ConversationItem | None:
        """What it says; None before it says anything."""
        return self._item

    def begin(self) -> None:
        self._tell({"type": "response.created", "response": self._response("in_progress")})

    def open(self) -> None:
        """It has something to say; safe to call twice."""
        if self._item is not None:
            return
        told: dict[str, Any] = {
            "id": self.wanted.item_id,
            "object": "realtime.item",
            "type": "message",
        }
        told |= {"role": "assistant", "content": [], "status": "in_progress"}
        self._item = item = ConversationItem(told, spoken=True)
        self._tell_item("response.output_item.added")
        if self._conversation is not None:
            self._added(item)
        self._tell_part("response.content_part.added", "")

    def words(self, delta: str, start_s: float | None = None) -> None:
        """More of the transcript, and when it is heard."""
        if not delta:
            return
        self.open()
        self._transcript += delta
        timed = {} if start_s is None else {"start_time": round(start_s, 4)}
        if start_s is not None:
            self.mark(len(self._transcript), start_s)
        kind = f"response.{self._kind}.delta"
        self._tell({"type": kind, **self.ids, "delta": delta, **timed})

    def mark(self, end: int, start_s: float) -> None:
        """The word that ends there in the transcript is heard from then on."""
        self._marks.append((end, start_s))

    def audio(self, data: bytes) -> JsonObject:
        """The message for more audio."""
        self.open()
        delta = base64.b64encode(data).decode()
        return {"type": "response.output_audio.delta", **self.ids, "delta": delta}

    def end(
        self,
        status: str,
        details: JsonObject | None = None,
        *,
        duration_s: float = 0.0,
        usage: JsonObject | None = None,
    ) -> None:
        """Close what is open, and tell how it ended; what comes later is not told."""
        if self.ended:
            return
        self.ended, self.completed = True, status == _COMPLETED
        if self._item is not None:
            self._close(self._item, status, duration_s)
        told = self._response(status, details, usage)
        self._tell({"type": "response.done", "response": told})

    def fail(self, error: AntiphonError, duration_s: float = 0.0) -> None:
        """It ends too early."""
        told = errors.body(error)
        error_ = {name: told[name] for name in ("type", "code", "message")}
        self.end("failed", {"type": "failed", "error": error_}, duration_s=duration_s)

    def _close(self, item: ConversationItem, status: str, duration_s: float) -> None:
        """Its words are those whose audio has left, should it not be complete."""
        audible, whole = self.wanted.audible, status == _COMPLETED
        kind = "output_audio" if audible else "output_text"
        said = {"transcript" if audible else "text": self._transcript}
        item.shown["content"] = [{"type": kind, **said}]
        item.shown["status"] = _COMPLETED if whole else "incomplete"
        item.marks, item.duration_s = self._marks, duration_s
        if audible and not whole:
            item.cut(duration_s)
        if self._conversation is not None:
            self._conversation.resized()
        said = {name: item.shown["content"][0][name] for name in said}
        if audible:
            self._tell({"type": "response.output_audio.done", **self.ids})
        self._tell({"type": f"response.{self._kind}.done", **self.ids, **said})
        self._tell_part("response.content_part.done", next(iter(said.values())))
        if self._conversation is not None:
            before = self._conversation.before(item) if item in self._conversation else None
            done = {"type": "conversation.item.done", "previous_item_id": before}
            self._tell({**done, "item": item.shown})
        self._tell_item("response.output_item.done")

    @property
    def _kind(self) -> str:
        return "output_audio_transcript" if self.wanted.audible else "output_text"

    def _tell_item(self, kind: str) -> None:
        assert self._item is not None
        about = {"response_id": self.wanted.response_id, "output_index": 0}
        self._tell({"type": kind, **about, "item": self._item.shown})

    def _tell_part(self, kind: str, said: str) -> None:
        audible = self.wanted.audible
        part = {"type": "audio", "transcript": said} if audible else {"type": "text", "text": said}
        self._tell({"type": kind, **self.ids, "part": part})

    def _response(
        self, status: str, details: JsonObject | None = None, usage: JsonObject | None = None
    ) -> JsonObject:
        settings = self.wanted.settings
        output = settings["audio"]["output"]
        return {
            "object": "realtime.response",
            "id": self.wanted.response_id,
            "status": status,
            "status_details": details,
            "output": [] if self._item is None else [self._item.shown],
            "conversation_id": None if self._conversation is None else settings.get("id"),
            "output_modalities": settings["output_modalities"],
            "max_output_tokens": settings["max_output_tokens"],
            "audio": {"output": {"format": output["format"], "voice": output["voice"]}},
            "usage": usage,
            "metadata": self.wanted.metadata,
        }


class SpokenResponse(Framing):
    """A response that is spoken. heard_s: of its audio, over another connection. begun_s: when its
    first sound left, by the monotonic clock.

    A model that times no word in its first second times none: its text is told as one then.
    """

    def __init__(
        self, events: ResponseEvents, encode: Callable[[JsonObject], str], heard_s: float = 0.0
    ) -> None:
        self.events = events
        self._encode = encode
        self._heard_s = heard_s
        self._written = WrittenText(events.wanted.text)
        audio, self._rate = format_of(events.wanted.settings["audio"]["output"])
        self._sample_bytes = audio.sample_bytes
        self._samples = self._position = 0
        self.begun_s: float | None = None
        self._untimed = self._answered = False

    def parts(self, piece: PcmBlock) -> Iterable[PcmBlock]:
        for start in range(0, max(1, len(piece.data)), _MOST_BYTES):
            data = piece.data[start : start + _MOST_BYTES]
            samples = len(data) // self._sample_bytes
            first = piece if start == 0 else replace(piece, words=(), said=())
            yield replace(first, data=data, samples=samples)

    def audio(self, speech: Speech, piece: PcmBlock) -> str:
        if self.begun_s is None and piece.data:
            self.begun_s = time.monotonic()
        for word in piece.words:
            self._take(word)
        for said in piece.said:
            self._answered = True
            self.events.words(said.text, said.at_s)
        self._samples += piece.samples
        late = self._samples > _UNTIMED_S * self._rate
        if late and not (self._position or self._untimed or speech.spec.model.says):
            self._tell_all()
        audible = piece.data and self.events.wanted.audible
        return self._encode(self.events.audio(piece.data)) if audible else ""

    def last(self, speech: Speech, samples: int) -> str:
        if samples and not (self._untimed or self._answered or speech.spec.answers):
            self.events.words(self._written.rest().rstrip())
        return ""

    def end(self, speech: Speech) -> str:
        self.events.end(_COMPLETED, duration_s=self._duration_s(speech), usage=self._usage(speech))
        return ""

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        self.events.fail(error, self._duration_s(speech))
        return ""

    def cancelled(self, speech: Speech, reason: str) -> None:
        """It ends because its client, or the client's user, wants no more of it."""
        details = {"type": "cancelled", "reason": reason}
        duration_s, usage = self._duration_s(speech), self._usage(speech)
        self.events.end("cancelled", details, duration_s=duration_s, usage=usage)

    def _duration_s(self, speech: Speech) -> float:
        return self._heard_s + speech.delivery.duration_s

    def _take(self, word: WordTime) -> None:
        delta = self._written.before(word) + word.word
        self._position += len(delta)
        if self._untimed:
            self.events.mark(self._position, word.start_s)
        else:
            self.events.words(delta, word.start_s)

    def _tell_all(self) -> None:
        self._untimed = True
        self.events.words(self._written.rest().rstrip())

    def _usage(self, speech: Speech) -> JsonObject:
        """Characters count as input tokens, frames of the model as output tokens."""
        model, characters = speech.spec.model, len(self.events.wanted.text)
        frames = round(speech.delivery.duration_s * speech.spec.stretch * model.frame_rate_hz)
        given = {"text_tokens": characters, "audio_tokens": 0}
        return {
            "total_tokens": characters + frames,
            "input_tokens": characters,
            "output_tokens": frames,
            "input_token_details": {**given, "cached_tokens": 0, "image_tokens": 0},
            "output_token_details": {"text_tokens": 0, "audio_tokens": frames},
        }

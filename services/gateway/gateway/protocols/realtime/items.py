"""The items of a session, in order, within bounds, and their events."""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.errors import ItemExists, UnknownItem
from gateway.protocols.shared.sockets import JsonObject
from ttscommon.wire.errors import BadRequest

MOST_ITEMS: Final = 256
MOST_BYTES: Final = 256 << 10
_LONGEST_ID: Final = 128
_ROOT: Final = "root"
_TEXTS: Final = ("input_text", "output_text", "text")
_SOUND: Final = "input_audio"
# Is not sent back: it would fill frames, and the client has it.
_HEAVY: Final = ("audio", "image_url")


def new_id(kind: str) -> str:
    """`item_...`, `resp_...`: 128 random bits."""
    return f"{kind}_{secrets.token_urlsafe(16)}"


@dataclass
class ConversationItem:
    """shown: as clients see it. spoken: nothing of it is left to say. marks: where in its
    transcript each word ends, and when it begins, in seconds. duration_s: of its audio. sound: the
    recording of it, for a model that hears, and when it was made. unheard: what its client sent as
    sound, in base64, until it is a recording.
    """

    shown: dict[str, Any]
    spoken: bool = False
    marks: Sequence[tuple[int, float]] = ()
    duration_s: float = 0.0
    sound: str = ""
    sound_unix_s: float = 0.0
    unheard: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return str(self.shown["id"])

    @property
    def text(self) -> str:
        """What it says in writing."""
        parts = (part for part in self.shown.get("content") or () if isinstance(part, dict))
        texts = (part.get("text") for part in parts if part.get("type") in _TEXTS)
        return "\n".join(text for text in texts if isinstance(text, str) and text.strip())

    @property
    def transcript(self) -> str:
        """What of its audio is known in writing."""
        parts = (part for part in self.shown.get("content") or () if isinstance(part, dict))
        texts = (part.get("transcript") for part in parts)
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def size(self) -> int:
        return len(msgspec.json.encode(self.shown))

    def cut(self, heard_s: float) -> float:
        """Keep what was heard until then, to the word; returns how much audio is left of it."""
        heard_s = min(heard_s, self.duration_s)
        for part in self.shown.get("content") or ():
            if isinstance(part, dict) and isinstance(part.get("transcript"), str):
                part["transcript"] = self._heard(part["transcript"], heard_s)
        self.duration_s = heard_s
        return heard_s

    def _heard(self, transcript: str, heard_s: float) -> str:
        """Words that began before; where none is timed, their share of the audio's length."""
        if self.marks:
            count = bisect_left(self.marks, heard_s, key=lambda mark: mark[1])
            return transcript[: self.marks[count - 1][0]] if count else ""
        if not self.duration_s or heard_s >= self.duration_s:
            return transcript
        end = round(len(transcript) * heard_s / self.duration_s)
        return transcript[:end].rpartition(" ")[0]

    def stored(self) -> dict[str, Any]:
        """What a record holds of it."""
        more: dict[str, Any] = {"marks": list(self.marks)} if self.marks else {}
        if self.sound:
            more |= {"sound": self.sound, "sound_unix_s": self.sound_unix_s}
        return {"told": self.shown, "spoken": self.spoken, "duration_s": self.duration_s, **more}

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> ConversationItem:
        marks = [(end, start_s) for end, start_s in stored.get("marks", ())]
        sound = stored.get("sound", ""), stored.get("sound_unix_s", 0.0)
        return cls(stored["told"], stored["spoken"], marks, stored["duration_s"], *sound)


def parsed_item(given: Any) -> ConversationItem:
    """An item as a client makes it; raises BadRequest."""
    if not isinstance(given, Mapping):
        raise BadRequest("'item': an object is expected", param="item")
    name = given.get("id")
    if name is not None and not _is_id(name):
        raise BadRequest("'item.id': a short string is expected", param="item.id")
    kind = given.get("type") or "message"
    told = {**given, "id": name or new_id("item"), "object": "realtime.item", "type": kind}
    told["status"] = given.get("status") or "completed"
    if kind == "message":
        told |= {"role": given.get("role") or "user", "content": _content(given.get("content"))}
    item = ConversationItem(told, unheard=_unheard(given))
    if item.size > MOST_BYTES:
        raise BadRequest(f"an item has at most {MOST_BYTES} bytes", param="item")
    return item


def _content(given: Any) -> list[dict[str, Any]]:
    """Parts of a message, without what would only be carried to and fro."""
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "input_text", "text": given}]
    if not isinstance(given, list) or not all(isinstance(part, dict) for part in given):
        raise BadRequest("'item.content': a list of parts is expected", param="item.content")
    return [{k: v for k, v in part.items() if k not in _HEAVY} for part in given]


def _unheard(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Sound of a message of the user's."""
    if (given.get("role") or "user") != "user" or not isinstance(given.get("content"), list):
        return ()
    heard = (part.get("audio") for part in given["content"] if part.get("type") == _SOUND)
    return tuple(audio for audio in heard if isinstance(audio, str) and audio)


def _is_id(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_ID


@dataclass
class Conversation:
    """The items of a session. The oldest go when there are too many, or too much is in them.

    An item that was spoken, deleted and made again is not spoken again: LiveKit changes items so.
    """

    items: list[ConversationItem] = field(default_factory=list)
    _bytes: int = 0
    _once: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_ITEMS))

    def __iter__(self) -> Iterator[ConversationItem]:
        return iter(self.items)

    def add(self, item: ConversationItem, after: Any = None) -> list[str]:
        """Put it behind another, in front of all (`root`), or at the end, where the other is not
        known as well. Returns what had to go; raises ItemExists.
        """
        if self.find(item.id) is not None:
            raise ItemExists(f"there is an item '{item.id}' already", param="item.id")
        item.spoken = item.spoken or item.id in self._once
        self.items.insert(self._place(after), item)
        self._bytes += item.size
        return self._trimmed(item)

    def before(self, item: ConversationItem) -> str | None:
        """The id of the item in front of it."""
        place = self.items.index(item)
        return self.items[place - 1].id if place else None

    def find(self, name: Any) -> ConversationItem | None:
        return next((item for item in self.items if item.id == name), None)

    def get(self, name: Any) -> ConversationItem:
        """Raises UnknownItem."""
        if (found := self.find(name)) is None:
            raise UnknownItem("there is no such item in the conversation", param="item_id")
        return found

    def remove(self, item: ConversationItem) -> None:
        self.items.remove(item)
        self._bytes -= item.size
        if item.spoken:
            self._once.append(item.id)

    def resized(self) -> None:
        """What items say has changed."""
        self._bytes = sum(item.size for item in self.items)

    def newest(self) -> ConversationItem | None:
        """The newest item that says something and was not spoken."""
        return newest(self.items)

    def speak(self, item: ConversationItem) -> None:
        """It is spoken now, and what stands in front of it is not caught up on."""
        for one in self.items[: self.items.index(item) + 1]:
            one.spoken = True

    def _place(self, after: Any) -> int:
        if after == _ROOT:
            return 0
        places = (place for place, item in enumerate(self.items) if item.id == after)
        return next(places, len(self.items) - 1) + 1

    def _trimmed(self, kept: ConversationItem) -> list[str]:
        gone = []
        for item in list(self.items):
            if len(self.items) <= MOST_ITEMS and self._bytes <= MOST_BYTES:
                break
            if item is not kept:
                self.remove(item)
                gone.append(item.id)
        return gone


def newest(items: Sequence[ConversationItem]) -> ConversationItem | None:
    """The last of them that says something and was not spoken."""
    says = (item for item in reversed(items) if item.text or item.sound or item.unheard)
    return next((item for item in says if not item.spoken), None)


class ConversationEvents:
    """Takes `conversation.item` events. `tell` queues an event.

    stop: called with the id of an item that is not wanted any more, should it be spoken now. hear:
    called with an item, for the sound that came with it.
    """

    def __init__(
        self,
        tell: Callable[[JsonObject], None],
        stop: Callable[[Any], Awaitable[None]],
        hear: Callable[[ConversationItem], Awaitable[None]],
    ) -> None:
        self.items = Conversation()
        self._tell, self._stop, self._hear = tell, stop, hear

    async def take(self, kind: str, message: JsonObject) -> None:
        """Do what an event says; raises ItemExists, UnknownItem, BadRequest, what `hear` raises."""
        name = message.get("item_id")
        match kind:
            case "create":
                item = parsed_item(message.get("item"))
                await self._hear(item)
                self.add(item, message.get("previous_item_id"))
                self.tell_item("done", item)
            case "retrieve":
                found = self.items.get(name)
                self._tell({"type": "conversation.item.retrieved", "item": found.shown})
            case "delete":
                await self._stop(name)
                if (unwanted := self.items.find(name)) is not None:
                    self.items.remove(unwanted)
                self._tell({"type": "conversation.item.deleted", "item_id": name})
            case "truncate":
                await self._truncate(name, message)
            case other:
                told = f"unknown event type 'conversation.item.{other[:64]}'"
                raise BadRequest(told, param="type")

    def add(self, item: ConversationItem, after: Any = None) -> None:
        """Raises ItemExists."""
        gone = self.items.add(item, after)
        self.tell_item("added", item)
        for name in gone:
            self._tell({"type": "conversation.item.deleted", "item_id": name})

    def commit(self, item: ConversationItem) -> None:
        """The user has said it."""
        before = self.items.items[-1].id if self.items.items else None
        told = {"type": "input_audio_buffer.committed", "previous_item_id": before}
        self._tell({**told, "item_id": item.id})
        self.add(item)
        self.tell_item("done", item)

    def tell_item(self, kind: str, item: ConversationItem) -> None:
        """`added` or `done`, and where it stands."""
        before = self.items.before(item)
        told = {"type": f"conversation.item.{kind}", "previous_item_id": before}
        self._tell({**told, "item": item.shown})

    def tell_all(self) -> None:
        """To a client that goes on with them."""
        for item in self.items:
            self.tell_item("added", item)
            self.tell_item("done", item)

    async def _truncate(self, name: Any, message: JsonObject) -> None:
        """Keep of an item what was heard. Clients also do it late, twice, and to unknown items."""
        end_ms = message.get("audio_end_ms")
        if not isinstance(end_ms, int | float) or end_ms < 0:
            raise BadRequest("'audio_end_ms': milliseconds are expected", param="audio_end_ms")
        await self._stop(name)
        item = self.items.find(name)
        if item is not None and item.duration_s:
            end_ms = min(end_ms, round(1000 * item.cut(end_ms / 1000)))
            self.items.resized()
        about = {"item_id": name, "content_index": message.get("content_index", 0)}
        self._tell({"type": "conversation.item.truncated", **about, "audio_end_ms": end_ms})

"""The events of a session's items: made, read, cut and deleted by clients, said by responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.protocols.realtime.items import Conversation, ConversationItem, parsed_item
from gateway.protocols.shared.sockets import JsonObject
from ttscommon.wire.errors import BadRequest


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

"""Questions to talkers about a model outside of jobs: its phones, the numbers of its voices."""

from __future__ import annotations

from typing import Final, TypeVar

from gateway import errors
from gateway.requests.catalogue import Catalogue
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import MalformedMessage, NoResponders, Overloaded
from ttscommon.wire.lookups import (
    SECONDS,
    Lookup,
    PhonesFound,
    Refused,
    Style,
    decode_found,
    encode,
)
from ttscommon.wire.replicas import Model

_MOST: Final = 4

Wanted = TypeVar("Wanted", PhonesFound, Style)


class Lookups:
    """Asks the freest talker of a model. Few at once: talkers answer beside listeners' speech."""

    def __init__(self, bus: Bus, catalogue: Catalogue) -> None:
        self._bus, self._catalogue = bus, catalogue
        self._asking = 0

    def __len__(self) -> int:
        return self._asking

    async def ask(self, model: Model, asked: Lookup, kind: type[Wanted]) -> Wanted:
        """The talker's answer.

        Raises Overloaded, Unavailable, BusUnavailable, Unsupported where the model has none, and
        BadRequest.
        """
        if self._asking >= _MOST:
            raise Overloaded("other texts are being read: try again in a moment")
        talkers = self._catalogue.snapshot.live("talker", model.name)
        if not talkers:
            raise errors.Unavailable(f"no live talker serves '{model.name}'", param="model")
        freest = max(talkers, key=lambda talker: talker.free)
        self._asking += 1
        try:
            subject = subjects.lookup(freest.worker_id)
            found = decode_found(await self._bus.link.request(subject, encode(asked), SECONDS))
        except NoResponders as error:
            message = f"the talker of '{model.name}' does not answer: it may be of an older release"
            raise errors.Unavailable(message, param="model") from error
        finally:
            self._asking -= 1
        if isinstance(found, Refused):
            raise errors.from_stage(found.code, found.message, found.param)
        if not isinstance(found, kind):
            raise MalformedMessage(f"{type(found).__name__} is no answer to this")
        return found

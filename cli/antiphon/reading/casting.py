"""A book's portions as requests: which model says what in which voice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon import client
from antiphon.client import GatewayError, ServedModel, SpeechOptions, Voice
from antiphon.reading.folder import Wanted
from antiphon.reading.order import Order
from ttscommon.books import Book, Cast, Portion, portions

# A run that goes on says the rest as the one before it would have.
_SEED = 0


@dataclass(frozen=True)
class Plan:
    """What is spoken: portions in order, and the request for each."""

    book: Book
    model: str
    portions: Sequence[tuple[Portion, Wanted]]

    @property
    def wanted(self) -> list[Wanted]:
        """Each request once, the first of each voice in front: a voice that the server does not
        know is found out at once.
        """
        unique = list(dict.fromkeys(one for _, one in self.portions))
        first = {one.options.voice: one for one in reversed(unique)}
        return list(dict.fromkeys([*first.values(), *unique]))


async def plan(order: Order, url: str) -> Plan:
    """Ask a server for its voices and cast them; raises GatewayError, InvalidBook."""
    model = _chosen(await client.models(url, order.key), order.options.model)
    voices = await client.voices(url, order.key, model=model.id)
    known = {name: voice.id for voice in voices for name in (voice.name, voice.id)}
    cast = Cast({**known, **order.cast.voices})
    book = order.book(frozenset(cast.voices))
    narrator = order.options.voice or cast.voice(None) or _speaks(voices, book.language)
    options = replace(order.options, model=model.id, voice=narrator)
    if options.seed is None:
        options = replace(options, seed=_SEED)
    said = [(one, _wanted(one, cast, options)) for one in portions(book, order.pauses)]
    return Plan(book, model.id, said)


def _wanted(portion: Portion, cast: Cast, options: SpeechOptions) -> Wanted:
    voice = cast.voice(portion.speaker) if portion.speaker else None
    return Wanted(portion.text, replace(options, voice=voice or options.voice))


def _chosen(models: Sequence[ServedModel], name: str) -> ServedModel:
    found = [one for one in models if name in ("default", one.id)]
    if not found:
        served = ", ".join(one.id for one in models) or "no model"
        raise GatewayError(f"the server has no model '{name}'; it serves {served}")
    return found[0]


def _speaks(voices: Sequence[Voice], language: str) -> str | None:
    """The first voice that speaks a language (`en-GB` as `en` does), or the first one."""
    main = language.lower().partition("-")[0]
    spoken = (
        one.id
        for one in voices
        if main in {tag.lower().partition("-")[0] for tag in (one.language, *one.languages)}
    )
    return next(spoken, None) or next((one.id for one in voices), None)

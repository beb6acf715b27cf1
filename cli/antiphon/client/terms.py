"""The requests to a gateway and its answers, as types."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias


class GatewayError(Exception):
    """The gateway refused, failed or is not there; the text is for a person.

    `code` is the gateway's; empty if it did not answer. `retry_after_s`: when it may succeed; None
    if waiting does not help.
    """

    def __init__(self, message: str, code: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class SpeechOptions:
    """What may be chosen; None leaves it to the server."""

    model: str = "default"
    voice: str | None = None
    seed: int | None = None
    sample_rate: int | None = None
    speed: float | None = None
    instructions: str | None = None
    language: str | None = None
    adapter: str | None = None
    runaway_guard: bool | None = None

    def config(self) -> dict[str, Any]:
        """The `session.config` message."""
        chosen = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "model"}
        set_ = {name: value for name, value in chosen.items() if value is not None}
        return {"type": "session.config", "model": self.model, "resumable": True, **set_}


@dataclass(frozen=True)
class Started:
    """Audio follows: mono s16le at `sample_rate`.

    synthetic: whether the gateway says that it is; generated_by: by whom, if it says.
    """

    request_id: str
    sample_rate: int
    voice: str
    seed: int
    model: str = ""
    synthetic: bool = False
    generated_by: str = ""


@dataclass(frozen=True)
class Audio:
    """Some samples, s16le."""

    pcm: bytes


@dataclass(frozen=True)
class Word:
    """A word and when it is spoken, in seconds from the request's first sample."""

    text: str
    start_s: float
    end_s: float

    def later(self, seconds: float) -> Word:
        """The same word in a stream that something came before."""
        return Word(self.text, self.start_s + seconds, self.end_s + seconds)


@dataclass(frozen=True)
class Words:
    """Words whose times are known now."""

    words: tuple[Word, ...]


@dataclass(frozen=True)
class Finished:
    """The end of the request, with the server's account of it."""

    outcome: str
    totals: dict[str, Any]


Event: TypeAlias = Started | Audio | Words | Finished

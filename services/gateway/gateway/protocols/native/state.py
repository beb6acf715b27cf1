"""The states of a session: what its input does, what waits, and what is being spoken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

from gateway.requests import GatewayContext, IncrementalText, Speech, SpeechSpec, new_request_id
from gateway.requests.dropped import dropped


@dataclass(frozen=True)
class Unconfigured:
    """Only `session.config` makes sense."""


@dataclass(frozen=True)
class Ready:
    """Between requests: `spec` holds for the next."""

    spec: SpeechSpec


@dataclass(frozen=True)
class Taking:
    """Text of `request` is coming in."""

    spec: SpeechSpec
    request: SubmittedRequest


@dataclass(frozen=True)
class Ignoring:
    """Text of a request that is over already comes in, up to its `input.done`."""

    spec: SpeechSpec


Input: TypeAlias = Unconfigured | Ready | Taking | Ignoring


class Phase(Enum):
    """Whether the session takes more, and why not. `CLOSING`: the client said so."""

    OPEN = auto()
    DRAINING = auto()
    CLOSING = auto()


@dataclass(eq=False)
class SubmittedRequest:
    """A request whose text the client sends here. `refused`: it ended in an error."""

    spec: SpeechSpec
    text: IncrementalText
    request_id: str = field(default_factory=new_request_id)
    cancelled: bool = False
    refused: bool = False
    from_sample: int | None = None

    def speech(self, context: GatewayContext) -> Speech:
        return context.speak(self.spec, self.text, self.request_id)

    def finish_text(self) -> None:
        self.text.finish()


@dataclass(eq=False)
class ResumedRequest:
    """A request whose connection was lost, to be heard from `from_sample` on."""

    spec: SpeechSpec
    request_id: str
    from_sample: int
    token: str
    cancelled: bool = False
    refused: bool = False

    def speech(self, context: GatewayContext) -> Speech:
        return context.attach(self.spec, self.request_id, self.from_sample, self.token)

    def finish_text(self) -> None:
        """Its text was sent elsewhere."""


SessionRequest: TypeAlias = SubmittedRequest | ResumedRequest


@dataclass
class Totals:
    """What was given to the client. `played_s`: how far it heard, if it said so."""

    samples: int = 0
    duration_s: float = 0.0
    words: int = 0
    played_s: float | None = None

    def add(self, other: Totals) -> None:
        self.samples += other.samples
        self.duration_s += other.duration_s
        self.words += other.words


@dataclass(frozen=True)
class Speaking:
    """The request being spoken, the task that speaks it, and what was given of it."""

    request: SessionRequest
    speech: Speech
    totals: Totals
    task: asyncio.Task[None]

    def report(self, outcome: str) -> dict[str, Any]:
        """The fields of `audio.done`."""
        speech, account = self.speech, self.speech.account
        told_s = self.totals.played_s
        text = self.request.text if isinstance(self.request, SubmittedRequest) else None
        played_s = speech.played_s() if told_s is None else min(told_s, self.totals.duration_s)
        return {
            "outcome": outcome,
            "samples": self.totals.samples,
            "duration_s": round(self.totals.duration_s, 6),
            "ttfp_s": _rounded(speech.ttfp_s),
            "stages": speech.stages,
            "underruns": account.underruns if account else 0,
            "underrun_s": round(account.underrun_s, 6) if account else 0.0,
            "min_slack_s": _rounded(account.min_slack_s if account else None),
            "played_s": round(played_s, 6),
            "words": self.totals.words,
            "ignored": [] if text is None else dropped(self.request.spec, text),
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)

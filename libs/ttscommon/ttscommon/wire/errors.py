"""Typed failures. Each says what a client may be told; they become responses at one edge."""

from __future__ import annotations

from typing import ClassVar, Self


class AntiphonError(Exception):
    """Base of every expected failure.

    `code` is stable and machine-readable; `message` says what to change; `param` names the
    offending input, if there is one. A kind names its code where it is declared, or has its
    base's.
    """

    code: ClassVar[str] = "internal"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BadRequest(AntiphonError, code="bad_request"):
    """The client sent something that can never work."""


class NothingToSay(BadRequest, code="nothing_to_say"):
    """The text holds nothing that can be spoken."""


class UnknownVoice(BadRequest, code="unknown_voice"):
    """The model has no such voice."""


class UnknownAdapter(BadRequest, code="unknown_adapter"):
    """There is no such adapter, or not any more."""


class InvalidAdapter(BadRequest, code="invalid_adapter"):
    """What was sent is no adapter, or none for this model, or one beyond the limits."""


class UnknownModel(BadRequest, code="unknown_model"):
    """No talker serves such a model."""


class TextTooLong(BadRequest, code="text_too_long"):
    """The text is over the limit of the deployment."""


class Overloaded(AntiphonError, code="overloaded"):
    """Nothing is wrong with the request; there is no room for it now."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ShareUsed(Overloaded):
    """The caller has its share of the streams, and there is no other to be had."""


class InputLost(AntiphonError, code="input_lost"):
    """A request's rows were never finished: what produces them said so, or fell silent."""


class Runaway(AntiphonError, code="runaway"):
    """The model lost its text, and what was left of an utterance was not said.

    What was said stands. `param`: the last word that was reached, where that is known.
    """

    @classmethod
    def behind(cls, word: str) -> Self:
        where = f"behind '{word}'" if word else "before its end"
        return cls(
            f"the model lost its text {where}: ask again with another seed", param=word or None
        )


class BusUnavailable(AntiphonError, code="bus_unavailable"):
    """The broker did not answer in time."""


class BusRefused(BusUnavailable):
    """The broker does not accept this process's credentials, or its connection has ended for good.

    Only a restart with other settings helps.
    """


class StoreUnavailable(BusUnavailable, code="store_unavailable"):
    """The broker is there, but cannot store what requests need."""

    def again(self) -> Self:
        """The same, to be raised once more."""
        return type(self)(self.message)


class StoreLost(StoreUnavailable, code="store_lost"):
    """Streams of this deployment are missing at the broker; an operator makes them again."""


class StoreFull(StoreUnavailable, code="store_full"):
    """The broker's disk is full, or it cannot write for another reason."""


class LogUnwritable(BusUnavailable):
    """The broker refuses to store a request's record, and always will."""


class NoResponders(BusUnavailable):
    """A subject has no subscriber: known at once, not guessed from silence."""


class MalformedMessage(AntiphonError, code="malformed_message"):
    """A message on the bus could not be parsed, or breaks a limit."""


class UnsupportedVersion(MalformedMessage, code="unsupported_version"):
    """A message on the bus was written by an incompatible version."""


class LogGone(AntiphonError, code="log_gone"):
    """The store does not have what comes next in a log any more, and never will again."""


class Fenced(AntiphonError, code="fenced"):
    """Another writer owns this log now; this one must let the request go.

    `owner` is its epoch, 0 where it is not known.
    """

    def __init__(self, message: str, *, owner: int = 0) -> None:
        super().__init__(message)
        self.owner = owner


class ModelFailed(AntiphonError, code="unavailable"):
    """The request's model cannot be loaded where it is served; the worker's log explains why."""


class VoiceError(Exception):
    """A voice folder or checkpoint is missing, incomplete, damaged, or of another format.

    An operator's affair: it ends a service at its start and never reaches a client.
    """

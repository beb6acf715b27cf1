"""Typed failures. Each says what a client may be told; they become responses at one edge."""

from __future__ import annotations

from typing import ClassVar, Self


class AntiphonError(Exception):
    """Base of every expected failure.

    `code` is stable and machine-readable; `message` says what to change; `param` names the
    offending input, if there is one.
    """

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BadRequest(AntiphonError):
    """The client sent something that can never work."""

    code = "bad_request"


class NothingToSay(BadRequest):
    """The text holds nothing that can be spoken."""

    code = "nothing_to_say"


class UnknownVoice(BadRequest):
    """The model has no such voice."""

    code = "unknown_voice"


class UnknownAdapter(BadRequest):
    """There is no such adapter, or not any more."""

    code = "unknown_adapter"


class InvalidAdapter(BadRequest):
    """What was sent is no adapter, or none for this model, or one beyond the limits."""

    code = "invalid_adapter"


class UnknownModel(BadRequest):
    """No talker serves such a model."""

    code = "unknown_model"


class TextTooLong(BadRequest):
    """The text is over the limit of the deployment."""

    code = "text_too_long"


class Overloaded(AntiphonError):
    """Nothing is wrong with the request; there is no room for it now."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ShareUsed(Overloaded):
    """The caller has its share of the streams, and there is no other to be had."""


class InputLost(AntiphonError):
    """A request's rows were never finished: what produces them said so, or fell silent."""

    code = "input_lost"


class Runaway(AntiphonError):
    """The model lost its text, and what was left of an utterance was not said.

    What was said stands. `param`: the last word that was reached, where that is known.
    """

    code = "runaway"

    @classmethod
    def behind(cls, word: str) -> Self:
        where = f"behind '{word}'" if word else "before its end"
        return cls(
            f"the model lost its text {where}: ask again with another seed", param=word or None
        )


class BusUnavailable(AntiphonError):
    """The broker did not answer in time."""

    code = "bus_unavailable"


class BusRefused(BusUnavailable):
    """The broker does not accept this process's credentials, or its connection has ended for good.

    Only a restart with other settings helps.
    """


class StoreUnavailable(BusUnavailable):
    """The broker is there, but cannot store what requests need."""

    code = "store_unavailable"

    def again(self) -> Self:
        """The same, to be raised once more."""
        return type(self)(self.message)


class StoreLost(StoreUnavailable):
    """Streams of this deployment are missing at the broker; an operator makes them again."""

    code = "store_lost"


class StoreFull(StoreUnavailable):
    """The broker's disk is full, or it cannot write for another reason."""

    code = "store_full"


class LogUnwritable(BusUnavailable):
    """The broker refuses to store a request's record, and always will."""


class NoResponders(BusUnavailable):
    """A subject has no subscriber: known at once, not guessed from silence."""


class MalformedMessage(AntiphonError):
    """A message on the bus could not be parsed, or breaks a limit."""

    code = "malformed_message"


class UnsupportedVersion(MalformedMessage):
    """A message on the bus was written by an incompatible version."""

    code = "unsupported_version"


class LogGone(AntiphonError):
    """The store does not have what comes next in a log any more, and never will again."""

    code = "log_gone"


class Fenced(AntiphonError):
    """Another writer owns this log now; this one must let the request go.

    `owner` is its epoch, 0 where it is not known.
    """

    code = "fenced"

    def __init__(self, message: str, *, owner: int = 0) -> None:
        super().__init__(message)
        self.owner = owner


class ModelFailed(AntiphonError):
    """The request's model cannot be loaded where it is served; the worker's log explains why."""

    code = "unavailable"


class VoiceError(Exception):
    """A voice folder or checkpoint is missing, incomplete, damaged, or of another format.

    An operator's affair: it ends a service at its start and never reaches a client.
    """

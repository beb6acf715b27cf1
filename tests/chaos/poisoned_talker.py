"""`python -m tests.chaos.poisoned_talker`: a talker that crashes of a certain text."""

import os
from typing import Any, Final

from talker.service import serve
from talker.settings import TalkerSettings
from ttscommon.process.service import launch
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.fake.talker import FakeModel, FakePrepared

POISON: Final = "Ignotum per ignotius."
_prepare: Final = FakeModel.prepare


def prepare(model: FakeModel, request: SpeechRequest, *given: Any) -> FakePrepared:
    """End the process at once, as a fault in native code would."""
    if POISON in request.text:
        os._exit(139)
    return _prepare(model, request, *given)


if __name__ == "__main__":
    FakeModel.prepare = prepare  # type: ignore[method-assign, assignment]
    launch("talker", TalkerSettings, serve)

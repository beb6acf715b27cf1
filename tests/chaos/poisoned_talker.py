"""`python -m tests.chaos.poisoned_talker`: a talker that crashes of a certain text."""

import os
from typing import Any, Final

from talker.engine.engine import Engine
from talker.service import serve
from talker.settings import TalkerSettings
from ttscommon.process.service import launch
from ttsfamilies.base.talker.base import Prepared

POISON: Final = "Ignotum per ignotius."
_open: Final = Engine.open


def open_or_die(engine: Engine, prepared: Prepared, *given: Any, **more: Any) -> None:
    """End the process at once, as a fault in native code would, whatever the family."""
    if POISON in prepared.request.text:
        os._exit(139)
    _open(engine, prepared, *given, **more)


if __name__ == "__main__":
    Engine.open = open_or_die  # type: ignore[method-assign, assignment]
    launch("talker", TalkerSettings, serve)

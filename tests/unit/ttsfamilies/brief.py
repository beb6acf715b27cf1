"""Families that say little of each passage, so that tests of the engine take little time."""

from typing import Any, TypeVar

from ttscommon.wire.fields import NOTHING, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import Prepared

F = TypeVar("F", bound=TalkerModel)


def brief(family: F, most: int | None) -> F:
    """The same, whose passages have so many frames at the most."""
    whole = family.prepare

    def prepare(request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        found = whole(request, derived)
        read = found.read

        def short(*told: Any, **how: Any) -> Any:
            for passage in read(*told, **how):
                field = "limit" if hasattr(passage, "limit") else "frames"  # of rows some are more
                frames = getattr(passage, field)
                yield passage._replace(**{field: min(frames, most or frames)})

        vars(found)["read"] = short
        return found

    vars(family)["prepare"] = prepare
    return family

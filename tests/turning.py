"""Engines that tests turn by hand."""

from typing import Any

from ttscommon.engine.runtime import Runtime


def turn(engine: Runtime[Any, Any]) -> None:
    """One turn. A command comes with it, for a stream that is not there, so that an idle engine
    does not wait for one.
    """
    engine.cancel("none")
    engine.step()

"""An operator's commands to a broker for a deployment: create, migrate, check; in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from ttscommon.bus.link import Link
from ttscommon.bus.setup import Setup
from ttscommon.bus.unprepared import BusUnprepared
from ttscommon.process.settings import BusSettings

Action = Literal["create", "migrate", "check"]
ACTIONS: Final[tuple[Action, ...]] = ("create", "migrate", "check")


async def prepare(settings: BusSettings, action: Action, models: Sequence[str] = ()) -> str:
    """Connect as the user `setup`, do it, and say what was done.

    models: those whose queues get their consumers. Raises BusUnprepared if `check` finds
    differences or a stream cannot be changed in place, BusUnavailable, BusRefused.
    """
    link = await Link.connect(settings, "setup")
    try:
        setup = Setup(link)
        if action != "check":
            done = await (setup.create() if action == "create" else setup.migrate())
            done += await setup.create_consumers(models)
            return f"{action}d: {', '.join(done)}" if done else "nothing to do"
        if findings := await setup.inspect(models):
            raise BusUnprepared("\n".join(map(str, findings)))
        return "everything is as it should be"
    finally:
        await link.close()

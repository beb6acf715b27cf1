"""Prepare a broker for a deployment: `python -m ttscommon.bus create | migrate | check`.

The same as `antiphon bus`, for images that hold a service and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final

from ttscommon.bus.preparation import ACTIONS, prepare
from ttscommon.errors import AntiphonError
from ttscommon.settings import ServiceSettings, SettingsError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def main(arguments: list[str] | None = None) -> int:
    """Do it, say what was done, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ttscommon.bus", description=__doc__)
    parser.add_argument("action", choices=ACTIONS)
    action = parser.parse_args(arguments).action
    try:
        settings = ServiceSettings.load()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        print(asyncio.run(prepare(settings.bus, action)))
    except AntiphonError as error:
        print(error.message, file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())

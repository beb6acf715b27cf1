"""Prepare a broker for a deployment: `python -m ttscommon.bus create | migrate | check | issue`.

The same as `antiphon bus`, for images that hold a service and no more. `issue` makes the passwords
of a deployment on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from ttscommon.bus.identities import issue
from ttscommon.bus.preparation import ACTIONS, prepare
from ttscommon.process.settings import BusSettings, ServiceSettings, SettingsError
from ttscommon.wire.errors import AntiphonError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def main(arguments: list[str] | None = None) -> int:
    """Do it, say what was done, and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        settings = ServiceSettings.load()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        print(_done(options, settings.bus))
    except (AntiphonError, OSError) as error:
        print(error.message if isinstance(error, AntiphonError) else error, file=sys.stderr)
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ttscommon.bus", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ACTIONS:
        actions.add_parser(action)
    issuing = actions.add_parser("issue")
    issuing.add_argument("folder", type=Path)
    issuing.add_argument("--model", nargs="+", required=True, help="every model that is served")
    return parser


def _done(options: argparse.Namespace, bus: BusSettings) -> str:
    """Raises AntiphonError or OSError."""
    if options.action != "issue":
        return asyncio.run(prepare(bus, options.action))
    made = issue(options.folder, bus.prefix, options.model)
    return f"made: {', '.join(made)}" if made else "nothing to make"


if __name__ == "__main__":
    sys.exit(main())

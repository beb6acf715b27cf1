"""Prepare a broker for a deployment: `python -m ttscommon.bus create | migrate | check | ...`.

The same as `antiphon bus`, for images that hold a service and no more. `issue` makes the passwords
of a deployment on one machine, `store` says whether a broker may start with what it kept, `follow`
keeps the order of an upgrade, `export` serves a broker's metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from ttscommon.bus.backup import back_up, restore
from ttscommon.bus.credentials import issue
from ttscommon.bus.export import export
from ttscommon.bus.order import FOLLOWS, check_store, follow
from ttscommon.bus.setup import ACTIONS, prepare
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
        preparing = actions.add_parser(action)
        preparing.add_argument("--model", nargs="+", default=[], help="every model that is served")
    issuing = actions.add_parser("issue")
    issuing.add_argument("folder", type=Path)
    issuing.add_argument("--model", nargs="+", required=True, help="every model that is served")
    saving = actions.add_parser("backup")
    saving.add_argument("folder", type=Path, help="where backups are kept")
    saving.add_argument("--keep", type=int, help="remove all but so many of them")
    restoring = actions.add_parser("restore")
    restoring.add_argument("folder", type=Path, help="a backup, or a folder of them: the newest")
    restoring.add_argument("--replace", action="store_true", help="also remove what is there")
    following = actions.add_parser("follow")
    following.add_argument("role", choices=sorted(FOLLOWS), help="who waits for the stage behind")
    following.add_argument("--patience", type=float, default=600.0, help="seconds, at most")
    exporting = actions.add_parser("export")
    exporting.add_argument("--monitor", default="http://127.0.0.1:8222", help="the broker's port")
    exporting.add_argument("--store", type=Path, help="the broker's store_dir")
    exporting.add_argument("--port", type=int, default=7777, help="where metrics are served")
    store = actions.add_parser("store")
    store.add_argument("folder", type=Path, help="the broker's store_dir")
    store.add_argument("--brokers", type=int, required=True, help="how many the cluster has")
    return parser


def _done(options: argparse.Namespace, bus: BusSettings) -> str:
    """Raises AntiphonError or OSError."""
    if options.action in ACTIONS:
        return asyncio.run(prepare(bus, options.action, options.model))
    if options.action == "backup":
        return asyncio.run(back_up(bus, options.folder, options.keep))
    if options.action == "restore":
        return asyncio.run(restore(bus, options.folder, replace=options.replace))
    if options.action == "export":
        asyncio.run(export(options.monitor, options.store, options.port))
    if options.action == "follow":
        return asyncio.run(follow(bus, options.role, options.patience))
    if options.action == "store":
        return check_store(options.folder, options.brokers)
    made = issue(options.folder, bus.prefix, options.model)
    return f"made: {', '.join(made)}" if made else "nothing to make"


if __name__ == "__main__":
    sys.exit(main())

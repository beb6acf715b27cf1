"""Checks that a broker starts only with a store of its own kind, or with none.

A server that starts alone keeps its streams by itself; in a cluster they belong to the cluster. A
single server's streams are orphans to a cluster, which removes them 30 s after the server joined.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttscommon.wire.errors import AntiphonError

# What the members of a cluster agree on, in the folder of the system account.
_META: Final = "jetstream/*/_js_/_meta_"
_STREAMS: Final = "jetstream/*/streams/*"
_ADVICE: Final = "see docs/operations.md, 'From one broker to three'"


class ForeignStore(AntiphonError):
    """The store is of another kind than the broker; the text says what would happen."""

    code = "bus_unavailable"


def check_store(folder: Path, brokers: int) -> str:
    """What a broker that is one of `brokers` finds in its `store_dir`; raises ForeignStore."""
    member = any(folder.glob(_META))
    streams = sum(1 for _ in folder.glob(_STREAMS))
    if brokers > 1 and streams and not member:
        raise ForeignStore(
            f"{folder} is the store of a single broker, with {streams} streams: a cluster of "
            f"{brokers} would delete them; {_ADVICE}"
        )
    if brokers == 1 and member:
        raise ForeignStore(
            f"{folder} is the store of a cluster's member: a broker alone may lack records that "
            f"the others have, and cannot return to them; {_ADVICE}"
        )
    return f"{streams} streams, as {'a member' if member else 'a single broker'} left them"

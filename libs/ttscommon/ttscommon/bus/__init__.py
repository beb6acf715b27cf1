"""The bus: deliver at once, commit right behind, and one reader's view of it all.

NATS stays inside this package: what leaves it are our own messages, entries and errors.
"""

from ttscommon.bus.buckets import Entry
from ttscommon.bus.bus import Bus
from ttscommon.bus.disconnects import DisconnectWatch
from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.queue import Delivery, JobFeed
from ttscommon.bus.reader import LogReader
from ttscommon.bus.writer import LogWriter

__all__ = [
    "Bus",
    "Delivery",
    "DisconnectWatch",
    "Entry",
    "Incoming",
    "JobFeed",
    "Link",
    "LogReader",
    "LogWriter",
]

"""The bus: deliver at once, commit right behind, and one reader's view of it all.

NATS stays inside this package: what leaves it are our own messages, entries and errors.
"""

from ttscommon.bus.buckets import BucketEntry
from ttscommon.bus.bus import Bus
from ttscommon.bus.deliveries import Delivery, JobFeed
from ttscommon.bus.faults import BusUnprepared
from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.audio_reader import AudioReader
from ttscommon.bus.logs.audio_writer import AudioWriter
from ttscommon.bus.logs.reader import LogReader
from ttscommon.bus.logs.writer import LogWriter
from ttscommon.bus.queue import Backlog, QueuedJob
from ttscommon.bus.streams import TRIMMED, Extent
from ttscommon.bus.watches import StoreWatch, watch_disconnects

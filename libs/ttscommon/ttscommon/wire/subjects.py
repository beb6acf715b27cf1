"""Every subject, stream and bucket of the bus, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from ttscommon.wire.errors import BadRequest

ACK_WAIT_S: Final = 30.0

StageName: TypeAlias = Literal["talker", "vocoder"]


@dataclass(frozen=True)
class Log:
    """One kind of per-request log: the truth in a JetStream stream, the live copy on core NATS."""

    stream: str
    prefix: str
    age_s: float

    def subject(self, request_id: str) -> str:
        return f"{self.prefix}.{token(request_id)}"

    def live(self, request_id: str) -> str:
        """Records that are not heard on their way into the log, and a successor's question to
        readers: what they heard and the log does not hold.
        """
        return f"live.{self.subject(request_id)}"

    def nack(self, request_id: str) -> str:
        """Readers ask the writer to send again from a position."""
        return f"nack.{self.subject(request_id)}"


TEXT: Final = Log("TEXT", "text", age_s=3600.0)
CODES: Final = Log("CODES", "codes", age_s=3600.0)
AUDIO: Final = Log("AUDIO", "audio", age_s=600.0)
LOGS: Final = (TEXT, CODES, AUDIO)

# One stream for both stages, until schema 3.
RETIRED_JOBS: Final = "JOBS"
REPLICAS: Final = "replicas"
LEASES: Final = "leases"
TOMBSTONES: Final = "tombstones"

# Voices that clients made: who owns them, in a bucket; their recordings and what talkers derived of
# those, each beside a twin for recordings that came with a single request.
VOICES: Final = "voices"
DERIVED: Final = "derived"
# Low-rank adapters that clients uploaded: who owns them. Their content lies beside recordings.
ADAPTERS: Final = "adapters"
# How clients want words to be read.
LEXICONS: Final = "lexicons"
# Texts that are spoken as a whole, each a record; what was made of them lies beside.
BOOKS: Final = "books"
BOOK_PARTS: Final = "book_parts"
# Realtime sessions: what was said in them, and secrets that open one.
SESSIONS: Final = "sessions"
# What each key used: requests, characters and sound, by day.
USAGE: Final = "usage"
PASSING_DERIVED: Final = "derived_passing"
RECORDINGS: Final = "recordings"
PASSING_RECORDINGS: Final = "recordings_passing"


@dataclass(frozen=True)
class Stage:
    """A kind of worker, and the queue it takes its jobs from: a `stream` of its own.

    parked_per_slot: jobs that may wait without a slot, for their text or their listeners, for each
    slot. They stay in the queue, and all of them may want to go on at once.
    """

    name: StageName
    queue: str
    stream: str
    writes: Log
    parked_per_slot: int = 4

    def job(self, model: str, request_id: str) -> str:
        return f"job.{self.queue}.{token(model)}.{token(request_id)}"

    @property
    def all_jobs(self) -> str:
        return f"job.{self.queue}.>"

    def jobs(self, model: str) -> str:
        """Every job of a model."""
        return f"job.{self.queue}.{token(model)}.*"

    def job_of(self, request_id: str) -> str:
        """A request's job, whatever its model."""
        return f"job.{self.queue}.*.{token(request_id)}"

    def durable(self, model: str) -> str:
        return f"{self.queue}-{token(model)}"


def job_named(subject: str) -> tuple[str, str]:
    """Model and request that a job's subject ends with."""
    *_, model, request_id = ("", "", *subject.split("."))
    return model, request_id


TALKER: Final = Stage("talker", "talk", "TALK_JOBS", CODES)
VOCODER: Final = Stage("vocoder", "voc", "VOCODE_JOBS", AUDIO)
STAGES: Final = {stage.name: stage for stage in (TALKER, VOCODER)}


def cancel(request_id: str) -> str:
    return f"ctl.cancel.{token(request_id)}"


def control(request_id: str) -> str:
    """All of a request's control subjects, for its workers."""
    return f"ctl.*.{token(request_id)}"


def playback(request_id: str) -> str:
    return f"ctl.playback.{token(request_id)}"


def listening(request_id: str) -> str:
    """The stages are told that the request has a listener."""
    return f"ctl.listening.{token(request_id)}"


def attached(request_id: str) -> str:
    """Gateways are told that one of them has the request's listener now; '*' for all requests."""
    return f"ctl.attached.{request_id if request_id == '*' else token(request_id)}"


def gateway_use(gateway: str) -> str:
    """Gateways tell each other what they hold; '*' for all of them."""
    return f"ctl.gateways.{gateway if gateway == '*' else token(gateway)}"


def gone(worker_id: str) -> str:
    """Gateways are told that a worker is dead; '*' for all workers."""
    return f"ctl.gone.{worker_id if worker_id == '*' else token(worker_id)}"


def ping(worker_id: str) -> str:
    """Answered by a living worker; 'no responders' means its connection is gone."""
    return f"ctl.ping.{token(worker_id)}"


def handover(worker_id: str) -> str:
    """The reaper hands this worker a job directly; it says whether it has taken it."""
    return f"ctl.handover.{token(worker_id)}"


def lookup(worker_id: str) -> str:
    """Gateways ask this worker about its model; see ttscommon.wire.lookups."""
    return f"ctl.lookup.{token(worker_id)}"


def lease(stage: str, request_id: str, worker_id: str) -> str:
    """The key of a worker's lease of a job."""
    return f"{stage}.{token(request_id)}.{token(worker_id)}"


def leases_of_job(stage: str, request_id: str) -> str:
    """Every lease of a job: its holder's, and what earlier ones left."""
    return f"{stage}.{token(request_id)}.*"


def leases_of_worker(worker_id: str) -> str:
    """Every lease of a worker; '*' for all workers."""
    return f"*.*.{worker_id if worker_id == '*' else token(worker_id)}"


def holders(stage: str) -> str:
    """Every worker of a stage: the holder of the request that is asked for answers."""
    return f"ctl.holders.{token(stage)}"


@lru_cache(maxsize=4096)  # a request's id is looked at for every chunk
def token(name: str) -> str:
    """`name`, if it is safe as one token of a subject; raises BadRequest otherwise."""
    if not name or not all(c.isascii() and (c.isalnum() or c in "_-") for c in name):
        raise BadRequest(f"{name!r} may hold only letters, digits, '-' and '_'")
    return name

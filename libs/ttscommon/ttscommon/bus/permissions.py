"""Subjects that each service may publish and subscribe to: as many as it needs. Pure.

A user may publish to and subscribe to subjects; everything of JetStream is a subject too. The names
of all streams, buckets and consumers carry the deployment's prefix, so the users of one deployment
cannot touch another's. A permission says nothing of where an answer goes: see `accounts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ttscommon.bus.layout import kept_streams
from ttscommon.wire.subjects import (
    ADAPTERS,
    AUDIO,
    BOOK_PARTS,
    BOOKS,
    CODES,
    DERIVED,
    LEASES,
    LEXICONS,
    LOGS,
    PASSING_DERIVED,
    PASSING_RECORDINGS,
    RECORDINGS,
    REPLICAS,
    RETIRED_JOBS,
    SESSIONS,
    STAGES,
    TALKER,
    TEXT,
    TOMBSTONES,
    USAGE,
    VOCODER,
    VOICES,
    Log,
    Stage,
    StageName,
)

Role: TypeAlias = StageName | Literal["gateway", "setup", "backup", "system"]
ROLES: Final[tuple[Role, ...]] = ("gateway", TALKER.name, VOCODER.name, "setup", "backup")

# What was derived of recordings, by talkers and for all replicas.
_DERIVED: Final = (DERIVED, PASSING_DERIVED)
_BUCKETS: Final = (
    *(REPLICAS, LEASES, TOMBSTONES, VOICES, LEXICONS, ADAPTERS, BOOKS, SESSIONS, USAGE),
    *_DERIVED,
)
_RECORDINGS: Final = (RECORDINGS, PASSING_RECORDINGS)
_STORES: Final = (*_RECORDINGS, BOOK_PARTS)
_QUEUES: Final = tuple(stage.stream for stage in STAGES.values())
# What gateways keep for clients.
_WRITTEN: Final = (VOICES, LEXICONS, ADAPTERS, BOOKS, SESSIONS, USAGE, *_DERIVED)
# Gateways ask their leaders for records.
_ASKED: Final = (LEASES, VOICES, LEXICONS, ADAPTERS, BOOKS, SESSIONS)
_PURGED: Final = (LEASES, TOMBSTONES, SESSIONS)
# What gateways tell each other, what they tell workers, and what either answers.
_ANNOUNCED: Final = ("ctl.attached.*", "ctl.gateways.*", "ctl.gone.*")
_STEERED: Final = (
    *("ctl.cancel.*", "ctl.playback.*", "ctl.listening.*"),
    *("ctl.handover.*", "ctl.holders.*", "ctl.lookup.*"),
)
_PING: Final = "ctl.ping.*"
_DISCONNECTS: Final = "$SYS.ACCOUNT.*.DISCONNECT"


@dataclass(frozen=True)
class Permissions:
    """Subjects that a user may publish to and subscribe to; answers to requests are free."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_prefix(prefix: str, role: str) -> str:
    """Where answers to the processes of a role go: no other process hears them."""
    return f"_INBOX_{prefix}_{role}"


def permissions(role: Role, prefix: str, models: Sequence[str]) -> Permissions:
    """The rights of a role in the deployment called `prefix`, which serves `models`."""
    if role == "system":
        return Permissions((), (_DISCONNECTS,))
    names, hears = _Names(prefix), list[str]()
    match role:
        case "gateway":
            publish, hears = _gateway(names)
        case "setup":
            publish = _setup(names, models)
        case "backup":
            publish = _backup(names)
        case _:
            publish, hears = _worker(names, STAGES[role], models)
    return Permissions(tuple(publish), (f"{inbox_prefix(prefix, role)}.>", *hears))


@dataclass(frozen=True)
class _Names:
    """The deployment's names, as they are on the wire."""

    prefix: str

    def subjects(self, *subjects: str) -> list[str]:
        return [f"{self.prefix}.{subject}" for subject in subjects]

    def stream(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def consumers(self, stage: Stage, models: Sequence[str]) -> list[str]:
        """A stage's, behind the name of their stream."""
        stream = self.stream(stage.stream)
        return [f"{stream}.{self.stream(stage.durable(model))}" for model in models]

    def bucket(self, name: str) -> str:
        return f"KV_{self.prefix}-{name}"

    def key(self, bucket: str, key: str) -> str:
        return f"$KV.{self.prefix}-{bucket}.{key}"

    @property
    def all(self) -> list[str]:
        streams = [*_QUEUES, *(log.stream for log in LOGS)]
        return [*map(self.stream, streams), *map(self.bucket, _BUCKETS), *self.stores]

    @property
    def kept(self) -> list[str]:
        """Streams that are backed up, and restored."""
        return kept_streams(self.prefix)

    @property
    def stores(self) -> list[str]:
        """Streams of the object stores."""
        return [self.store(name) for name in _STORES]

    def store(self, name: str) -> str:
        return f"OBJ_{self.prefix}-{name}"

    @property
    def recordings(self) -> list[str]:
        """The stores that talkers read."""
        return [self.store(name) for name in _RECORDINGS]


def _gateway(names: _Names) -> tuple[list[str], list[str]]:
    queues = [names.stream(queue) for queue in _QUEUES]
    logs = [names.stream(log.stream) for log in LOGS]
    publish = [
        *names.subjects("job.*.*.*", *_written(TEXT), _nacks(AUDIO)),
        *names.subjects(*_STEERED, *_ANNOUNCED, _PING),
        names.key(LEASES, ">"),
        names.key(TOMBSTONES, "*"),
        *(names.key(bucket, ">") for bucket in _WRITTEN),
        *(f"$O.{names.prefix}-{store}.>" for store in _STORES),
        *_api("STREAM.PURGE", [*logs, *map(names.bucket, _PURGED), *names.stores]),
        *_api("STREAM.INFO", names.all),
        *_api("STREAM.MSG.GET", [*logs, *map(names.bucket, _ASKED), *names.stores]),
        *_api("STREAM.MSG.DELETE", queues),
        *_direct([*queues, *logs, *map(names.bucket, _BUCKETS), *names.stores]),
        *_api("CONSUMER.INFO", [f"{queue}.*" for queue in queues]),
        *(f"$JS.ACK.{queue}.>" for queue in queues),
    ]
    subscribe = names.subjects(*_heard(AUDIO), _nacks(TEXT), _PING, *_ANNOUNCED)
    return publish, subscribe


def _worker(names: _Names, stage: Stage, models: Sequence[str]) -> tuple[list[str], list[str]]:
    reads = TEXT if stage is TALKER else CODES
    feeds = [VOCODER] if stage is TALKER else []
    consumers = names.consumers(stage, models)
    made = [one for each in (stage, *feeds) for one in names.consumers(each, models)]
    publish = [
        *names.subjects(*(f"job.{fed.queue}.*.*" for fed in feeds)),
        *names.subjects(*_written(stage.writes), _nacks(reads)),
        names.key(LEASES, f"{stage.name}.>"),
        names.key(REPLICAS, f"{stage.name}.*"),
        *_api("STREAM.INFO", names.all),
        *_api("STREAM.MSG.GET", [names.stream(stage.writes.stream)]),
        *_api("STREAM.PURGE", [names.bucket(LEASES)]),
        *_direct([names.stream(log.stream) for log in (stage.writes, reads)]),
        *_direct(map(names.bucket, (REPLICAS, LEASES, TOMBSTONES, *_DERIVED))),
        *_derivation(names, stage),
        *_api("CONSUMER.INFO", made),
        *_api("CONSUMER.MSG.NEXT", consumers),
        *(f"$JS.ACK.{one}.>" for one in consumers),
    ]
    subscribe = names.subjects(*_heard(reads), _nacks(stage.writes), "ctl.*.*")
    return publish, subscribe


def _derivation(names: _Names, stage: Stage) -> list[str]:
    """Talkers read recordings and write what they derive of them; vocoders read the latter."""
    if stage is not TALKER:
        return []
    return [
        *(names.key(bucket, ">") for bucket in _DERIVED),
        *_api("STREAM.MSG.GET", [*map(names.bucket, _DERIVED), *names.recordings]),
        *_direct(names.recordings),
    ]


def _setup(names: _Names, models: Sequence[str]) -> list[str]:
    """It alone makes consumers, because their maker chooses where they deliver."""
    consumers = [one for stage in STAGES.values() for one in names.consumers(stage, models)]
    actions = ("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE")
    made = [subject for action in actions for subject in _api(action, names.all)]
    retired = names.stream(RETIRED_JOBS)
    return [
        *made,
        *_api("STREAM.INFO", [retired]),
        *_api("STREAM.DELETE", [retired]),
        *_api("CONSUMER.INFO", consumers),
        *_api("CONSUMER.CREATE", [f"{one}.>" for one in consumers]),
        *(s for action in ("RESTORE", "DELETE") for s in _api(f"STREAM.{action}", names.kept)),
        *(f"$JS.SNAPSHOT.RESTORE.{kept}.>" for kept in names.kept),
        "$JS.API.INFO",  # whether the broker holds what its cluster does not know
    ]


def _backup(names: _Names) -> list[str]:
    """Snapshots of what is kept permanently, and nothing else."""
    return [
        *_api("STREAM.SNAPSHOT", names.kept),
        *(f"$JS.SNAPSHOT.ACK.{kept}.>" for kept in names.kept),
    ]


def _written(log: Log) -> tuple[str, ...]:
    """What the writer of a log publishes: records, to be kept and live, and a question."""
    return f"{log.prefix}.*", f"live.{log.prefix}.*"


def _nacks(log: Log) -> str:
    """What a reader of a log publishes, and its writer hears."""
    return f"nack.{log.prefix}.*"


def _heard(log: Log) -> tuple[str, ...]:
    """What a reader of a log hears: records, and what its writer's successor wants to know.

    What the log of audio keeps is not what its readers want.
    """
    live = f"live.{log.prefix}.*"
    return (live,) if log is AUDIO else (f"{log.prefix}.*", live)


def _api(action: str, names: Iterable[str]) -> list[str]:
    return [f"$JS.API.{action}.{name}" for name in names]


def _direct(streams: Iterable[str]) -> list[str]:
    """Reads of a stream that any replica answers, by a query and by a subject."""
    return [f"$JS.API.DIRECT.GET.{stream}{rest}" for stream in streams for rest in ("", ".>")]

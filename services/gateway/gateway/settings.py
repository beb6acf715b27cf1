"""The gateway's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from ttscommon.process.settings import EMPTY_IS_NONE, Names, ServiceSettings

SECRET_CHARS: Final = 32
Told = Annotated[str | None, EMPTY_IS_NONE]


class GatewaySettings(ServiceSettings):
    """Read from ANTIPHON_...; see ServiceSettings for what every service has."""

    host: str = "127.0.0.1"
    """Address that the gateway listens on; 0.0.0.0 for every one."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Its port; 0 takes a free one."""
    default_model: str = "vesper"
    """Model of a request that names none."""

    max_text_chars: int = Field(default=10_000, ge=1, le=20_000)
    """Longest text of one request, in characters."""
    max_body_bytes: int = Field(default=4 << 20, ge=1024)
    """Largest body of an HTTP request; recordings that are uploaded have a limit of their own."""
    max_message_bytes: int = Field(default=256 << 10, ge=1024, le=1 << 20)
    """Largest text message on a socket that brings no recording."""
    max_voices: int = Field(default=100, ge=0)
    """Voices made of recordings that a key may keep."""
    max_lexicons: int = Field(default=20, ge=0)
    """Lexicons that a key may keep."""
    max_adapters: int = Field(default=0, ge=0)
    """Low-rank adapters that a key may upload and keep; a key's own: `adapter_uploads`."""
    max_adapter_bytes: int = Field(default=64 << 20, ge=1024, le=1 << 30)
    """Largest weights of an uploaded adapter."""
    max_jobs: int = Field(default=10, ge=0)
    """Jobs that a key may keep, finished ones until they expire; a key's own: `jobs`."""
    max_job_chars: int = Field(default=2_000_000, ge=1, le=15_000_000)
    """Longest text of a job, in characters."""
    max_job_bytes: int = Field(default=32 << 20, ge=1024, le=256 << 20)
    """Largest body that brings one."""
    keep_jobs_s: float = Field(default=86_400.0, ge=60, le=14 * 86_400)
    """How long a job can be fetched that has ended."""
    max_job_streams: int = Field(default=64, ge=1)
    """Streams of jobs that one gateway has in work at once; each takes up to 4.5 MiB at 24 kHz."""
    job_spare_slots: int = Field(default=1, ge=0)
    """Slots of each model that jobs leave free for the next listeners."""
    jobs_folder: Path | None = None
    """A folder that all gateways see, for what is made of jobs; by default the broker keeps it."""
    max_queued_requests: int = Field(default=16, ge=1)
    """Requests that may wait on one socket behind the one that is spoken."""
    max_streams: int = Field(default=1000, ge=1)
    """Streams that one gateway speaks at once; above it requests are refused (429)."""
    max_recording_bytes: int = Field(default=4 << 20, ge=1024, le=16 << 20)
    """Largest message on a socket that brings a recording."""
    max_connections: int = Field(default=4096, ge=1)
    """Connections that the gateway holds at once."""
    max_sockets_per_key: int = Field(default=1000, ge=1)
    """Sockets of one key at one gateway."""
    max_connections_per_address: int = Field(default=500, ge=1)
    """Connections of one client address."""

    head_timeout_s: float = Field(default=10.0, gt=0)
    """How long the head of a request may take."""
    body_timeout_s: float = Field(default=30.0, gt=0)
    """How long its body may take, and a second more for every 16 KiB."""

    admission: Literal["on", "off"] = "on"
    """`on` lets in as many streams as workers keep up with; `off` knows only `max_streams`, and
    ends none for the sake of others.
    """
    ttfp_target_s: float = Field(default=0.5, gt=0)
    """How long a first packet may take under load: no more streams start at once than that allows.
    """
    max_wait_s: float = Field(default=0.5, ge=0, le=600)
    """Longest time that a request may wait for room: each does for 0.1 s, for `ttfp_target_s` where
    only other first sounds are in its way, and for as long as it asks to; 0: none may.
    """
    max_waiting: int = Field(default=256, ge=1)
    """Requests that may wait for room at one gateway, a quarter of them of one key."""
    utilisation: float = Field(default=0.85, gt=0, le=1)
    """Share of the engines' speed that streams may need together by `tts_capacity_streams`, which
    autoscaling follows and a gateway that starts begins with half of.
    """
    keys_file: Path | None = None
    """The keys of clients and their limits; without it any client may speak. It is read again when
    it changes.
    """
    aliases_file: Path | None = None
    """Names of models and voices that stand for others."""
    cors_origins: Names = ()
    """Web pages that may call this gateway, separated by commas; `*` for all."""
    allowed_hosts: Names = ()
    """Names that clients may call it by, separated by commas; where it listens on loopback alone,
    those of this machine unless others are given.
    """
    any_content_type: bool = False
    """JSON that says it is something else is read too, which any web page can send."""
    trusted_proxies: Names = ()
    """Addresses or networks whose `X-Forwarded-For` is believed, separated by commas."""
    wyoming_port: int | None = Field(default=None, ge=0, le=65535)
    """Port for Home Assistant's Wyoming protocol; nothing listens there unless it is set, and
    then once a model can speak.
    """
    wyoming_tenant: Told = None
    """The name in the keys file that Wyoming's clients, which bring no keys, speak as; needed where
    keys are.
    """
    provenance: bool = True
    """Whether the sound says that it is synthetic, by which model and by whom: in the tags of every
    format that has any, and beside raw samples in a header or a message.
    """
    provenance_by: str = Field(default="", max_length=100, pattern=r"^[^\x00-\x1f\x7f;\[\]]*$")
    """Who gives the sound out: the operator's name, for the same places; not said by default."""
    watermark: Path | None = None
    """Perth's weights, as `antiphon convert` writes them: the sound itself is then marked,
    inaudibly, at 3 % of a core for each stream.
    """
    max_contexts: int = Field(default=16, ge=1, le=1000)
    """Contexts that may be open at once on one socket."""
    resume_secret: Told = Field(default=None, min_length=SECRET_CHARS, repr=False)
    """Makes the tokens with which lost clients come back, the same for all gateways and at least 32
    characters; a random one by default.
    """
    resume_secret_file: Path | None = None
    """A file that holds it."""
    previous_resume_secret: Told = Field(default=None, min_length=SECRET_CHARS, repr=False)
    """The one before, accepted too while it is replaced."""

    first_audio_timeout_s: float = Field(default=15.0, gt=0)
    """A request without sound by then ends with `timeout`, or with `overloaded` (429) if no worker
    had a slot for it.
    """
    hold_s: float = Field(default=0.0, ge=0, le=600)
    """How long a request waits where no worker can speak it yet, because the first one starts or
    loads its weights; 0 refuses at once (503).
    """
    stall_timeout_s: float = Field(default=30.0, gt=0)
    """A request that falls silent for so long ends with `timeout`."""
    input_timeout_s: float = Field(default=60.0, gt=0)
    """A request whose text pauses for so long ends with `input_timeout`."""
    max_text_s: float = Field(default=900.0, gt=0)
    """The same for a text that is not complete so long after it began; a key's own: `text_seconds`.
    """
    least_characters_per_minute: float = Field(default=12.0, ge=0)
    """A text that came more slowly, on average since it began and counted after its first
    `input_timeout_s`, ends with `input_too_slow`; 0 allows any rate. A key's own has the same name.
    """
    idle_timeout_s: float = Field(default=300.0, gt=0)
    """A socket without a request is closed after so long."""
    keep_logs_s: float = Field(default=30.0, ge=1)
    """How long the logs of a request stay at the broker that has ended and cannot be resumed."""
    coalesce_s: float = Field(default=0.002, ge=0, le=0.1)
    """How long a request waits for the end of its text: one that comes in one go is cheaper."""

    send_buffer_bytes: int = Field(default=1 << 20, ge=4096)
    """Bytes that may wait in the gateway for one client; when they do, its engines wait."""
    slow_client_timeout_s: float = Field(default=30.0, gt=0)
    """A client that takes nothing for so long while something waits for it is disconnected."""

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if self.resume_secret_file is None:
            return self
        if self.resume_secret is not None:
            raise ValueError("give one of resume_secret and resume_secret_file")
        try:
            short = len(_secret(self.resume_secret_file)) < SECRET_CHARS
        except OSError as error:
            raise ValueError(f"resume_secret_file cannot be read: {error.strerror}") from error
        if short:
            raise ValueError(f"resume_secret_file holds fewer than {SECRET_CHARS} characters")
        return self

    @property
    def resume_keys(self) -> list[str]:
        """What resume tokens are made with: the first signs, all are accepted."""
        file = self.resume_secret_file
        current = self.resume_secret if file is None else _secret(file)
        return [key for key in (current, self.previous_resume_secret) if key is not None]


def _secret(file: Path) -> str:
    """Raises OSError."""
    return file.read_text("utf-8").strip()

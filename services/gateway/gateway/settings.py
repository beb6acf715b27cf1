"""The gateway's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from ttscommon.process.settings import ServiceSettings

SECRET_CHARS: Final = 32


class GatewaySettings(ServiceSettings):
    """Read from ANTIPHON_...; see ServiceSettings for what every service has.

    A request whose first sound would take longer than `ttfp_target_s`, or that would take the
    engines over `utilisation` of their speed, is refused at once; `admission` "off" predicts
    nothing and knows only `max_streams`. `keys_file`: see gateway.admission.keys; without one
    everybody may speak. `aliases_file`: see gateway.requests.aliases. `cors_origins`: web pages
    that may call this gateway, "*" for all. `allowed_hosts`: names that clients may call it by;
    where it listens on loopback alone, those of this machine unless others are given.
    `any_content_type`: JSON that says it is something else is read too, which any web page can
    send. `trusted_proxies`: addresses or networks whose `X-Forwarded-For` is believed.
    `wyoming_port`: where Home Assistant finds a voice; nothing listens there unless it is set, and
    where keys are needed not without `wyoming_tenant`, the name in the keys file that its clients
    speak as, who bring no keys. `max_contexts`: open at once on one socket. `max_recording_bytes`:
    of a message on a socket that brings a recording. `head_timeout_s`: for a request's head.
    `body_timeout_s`: for its body, and a second more for every 16 KiB.
    `resume_secret` (or `resume_secret_file`, which holds it) makes the tokens with which lost
    clients come back: the same for all gateways; `previous_resume_secret` is accepted too, while it
    is replaced. `keep_logs_s`: how long the logs of a request stay at the broker that has ended and
    that no client can resume. A text that is sent piece by piece may pause for `input_timeout_s`,
    take `max_text_s` in all, and come no more slowly than `least_characters_per_minute`; a key may
    have the latter two of its own.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    default_model: str = "vesper"

    max_text_chars: int = Field(default=10_000, ge=1, le=20_000)
    max_body_bytes: int = Field(default=4 << 20, ge=1024)
    max_message_bytes: int = Field(default=256 << 10, ge=1024, le=1 << 20)
    max_voices: int = Field(default=100, ge=0)
    max_queued_requests: int = Field(default=16, ge=1)
    max_streams: int = Field(default=1000, ge=1)
    max_recording_bytes: int = Field(default=4 << 20, ge=1024, le=16 << 20)
    max_connections: int = Field(default=4096, ge=1)
    max_sockets_per_key: int = Field(default=1000, ge=1)
    max_connections_per_address: int = Field(default=500, ge=1)

    head_timeout_s: float = Field(default=10.0, gt=0)
    body_timeout_s: float = Field(default=30.0, gt=0)

    admission: Literal["predict", "off"] = "predict"
    ttfp_target_s: float = Field(default=0.5, gt=0)
    utilisation: float = Field(default=0.85, gt=0, le=1)
    keys_file: Path | None = None
    aliases_file: Path | None = None
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    any_content_type: bool = False
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    wyoming_port: int | None = Field(default=None, ge=0, le=65535)
    wyoming_tenant: str | None = None
    max_contexts: int = Field(default=16, ge=1, le=1000)
    resume_secret: str | None = Field(default=None, min_length=SECRET_CHARS, repr=False)
    resume_secret_file: Path | None = None
    previous_resume_secret: str | None = Field(default=None, min_length=SECRET_CHARS, repr=False)

    first_audio_timeout_s: float = Field(default=15.0, gt=0)
    # How long a request waits for a worker where none can speak it yet: 0 refuses at once.
    hold_s: float = Field(default=0.0, ge=0, le=600)
    stall_timeout_s: float = Field(default=30.0, gt=0)
    input_timeout_s: float = Field(default=60.0, gt=0)
    max_text_s: float = Field(default=900.0, gt=0)
    least_characters_per_minute: float = Field(default=12.0, ge=0)
    idle_timeout_s: float = Field(default=300.0, gt=0)
    keep_logs_s: float = Field(default=30.0, ge=1)
    coalesce_s: float = Field(default=0.002, ge=0, le=0.1)

    send_buffer_bytes: int = Field(default=1 << 20, ge=4096)
    slow_client_timeout_s: float = Field(default=30.0, gt=0)

    @field_validator("resume_secret", "previous_resume_secret", "wyoming_tenant", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        """An empty variable is how a compose file says nothing."""
        return value or None

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

    @field_validator("cors_origins", "allowed_hosts", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Accept `https://a.example,https://b.example`."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


def _secret(file: Path) -> str:
    """Raises OSError."""
    return file.read_text("utf-8").strip()

"""Settings: frozen, read once from the environment, unknown names refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import structlog
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

PREFIX: Final = "ANTIPHON_"
NESTED: Final = "__"

# Kubernetes puts tcp://... variables named after every Service into every pod of a namespace; a
# release called "antiphon" must not look like a typing error in our own settings.
_SERVICE_LINK: Final = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)$"
)


log_ = structlog.get_logger(__name__)


def _listed(value: Any) -> Any:
    """`a,b` as a list, which is how an environment writes one; anything else as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _parsed(value: Any) -> Any:
    return json.loads(value or "[]") if isinstance(value, str) else value


ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
# An empty variable is how a compose file says nothing.
EMPTY_IS_NONE: Final = BeforeValidator(lambda value: value or None)


class SettingsError(Exception):
    """The environment does not make valid settings; the text names every offending variable."""


class BusSettings(BaseModel):
    """How to reach the broker, and as whom.

    A service says who it is by `user` and `password`, by an nkey seed or by a credentials file.
    Files are read for each connection, so that a secret may be rotated in place. The `system_...`
    ones are of the broker's system account, for gateways, which watch disconnects. TLS is used when
    an address begins with `tls://` or an authority (`tls_ca`) is given, and then insisted on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    prefix: str = Field(default="antiphon", pattern=r"^[A-Za-z0-9_-]{1,32}$")
    """The deployment's own: names and subjects on the broker carry it."""
    urls: Names = Field(default=("nats://127.0.0.1:4222",), min_length=1)
    """Addresses of the brokers, separated by commas; `tls://` ones are encrypted."""
    user: str | None = None
    """Who this service is at the broker."""
    password: str | None = Field(default=None, repr=False)
    """The user's password."""
    password_file: Path | None = None
    """A file that holds it."""
    nkey_file: Path | None = None
    """An nkey seed, in place of user and password."""
    creds_file: Path | None = None
    """A credentials file, in place of both."""
    system_user: str | None = None
    """The same of the broker's system account, for gateways: with it they see disconnects at once.
    """
    system_password: str | None = Field(default=None, repr=False)
    """Its password."""
    system_password_file: Path | None = None
    """A file that holds it."""
    system_creds_file: Path | None = None
    """A credentials file in place of both."""
    tls_ca: Path | None = None
    """The authority that signed the brokers' certificates."""
    tls_cert: Path | None = None
    """This client's own certificate."""
    tls_key: Path | None = None
    """Its key."""
    tls_hostname: str | None = None
    """The name that the brokers' certificates carry, if not that of their addresses."""
    replicas: int | None = Field(default=None, ge=1, le=5)
    """What `antiphon bus` makes: copies of every log, job and lease; 3 with three brokers. As it
    is, or 1; a service that has it refuses to work with others.
    """
    max_log_bytes: int | None = Field(default=None, ge=1 << 20)
    """What `antiphon bus` makes: storage for each of the three logs, which keep about 1 kB of a
    second of sound. As it is, or 2 GiB.
    """
    slots: int | None = Field(default=None, ge=1, le=1_000_000)
    """What `antiphon bus` makes: streams that the workers of a stage hold at once, at most. A queue
    takes six times as many jobs, of which four may wait aside, and refuses more (429). As it is, or
    4,096; the chart counts replicas and slots itself.
    """
    publish_timeout_s: float = Field(default=1.0, gt=0, le=30)
    """When a commit is tried again."""

    @property
    def tls(self) -> bool:
        """Whether the connection has to be encrypted."""
        return self.tls_ca is not None or any(url.startswith("tls://") for url in self.urls)

    @property
    def watches_disconnects(self) -> bool:
        """Whether there is a user of the system account."""
        return self.system_user is not None or self.system_creds_file is not None

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        """Refuse what contradicts itself, and unreadable files."""
        ways = (self.user, self.nkey_file, self.creds_file)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("give one of user, nkey_file and creds_file")
        for name in ("password", "system_password"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give one of {name} and {name}_file")
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key needs tls_cert")
        for name, value in self:
            if isinstance(value, Path) and not value.is_file():
                raise ValueError(f"{name}: there is no file {value}")
        return self


class TracingSettings(BaseModel):
    """Where traces go, and which."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    endpoint: Annotated[str | None, EMPTY_IS_NONE] = Field(default=None, pattern=r"^https?://")
    """Takes OTLP over HTTP, e.g. http://otel-collector:4318; nothing is traced without it."""
    sample_ratio: float = Field(default=0.1, ge=0, le=1)
    """Share of the requests without a trace that get one; a client that sends `traceparent` decides
    for itself.
    """


class ServiceSettings(BaseSettings):
    """What every service needs; each service adds its own fields in a subclass.

    A field `x` is read from ANTIPHON_X, and a field of a nested model from ANTIPHON_BUS__URLS.
    """

    # Variables that were renamed, and what they are now; read for a release.
    renamed: ClassVar[Mapping[str, str]] = {}

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=NESTED,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level that is logged."""
    log_format: Literal["json", "console"] = "json"
    """`json`, a line each, or `console` for people."""
    admin_host: str = "127.0.0.1"
    """Address of `/livez`, `/readyz` and `/metrics`."""
    admin_port: int = Field(default=0, ge=0, le=65535)
    """Their port; 0 takes a free one."""
    drain_s: float = Field(default=30.0, ge=0, le=3600)
    """From SIGTERM to the end; give the container at least so much grace."""
    port_file: Path | None = None
    """A file that the ports are written to once they are known."""
    bus: BusSettings = BusSettings()
    tracing: TracingSettings = TracingSettings()

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the environment; raises SettingsError."""
        variables = _up_to_date(os.environ if environ is None else environ, cls.renamed)
        try:
            return cls(**_Environment(cls, variables)())
        except ValidationError as error:
            raise SettingsError(_explain(error)) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only arguments count: the environment is read by `load`, never behind one's back."""
        return (init_settings,)


class StageSettings(ServiceSettings):
    """What talkers and vocoders share: what they serve, and how much of it at once."""

    # What is not set, where engines compute on a device.
    on_a_device: ClassVar[Mapping[str, int]] = {}

    engine: Literal["torch", "fake"] = "torch"
    """`fake` serves measured times and no model, for tests of fleets."""
    model: ModelName = "vesper"
    """Name of the model that is served."""
    models: Annotated[tuple[dict[str, Any], ...], NoDecode, BeforeValidator(_parsed)] = ()
    """Several models in place of the one: a JSON list with the settings in which each differs from
    the others, such as `[{"model": "amy", "voice_dir": "/voices/amy"}, ...]`. They are loaded at
    their first use. On a CPU.
    """
    models_bytes: int | None = Field(default=None, ge=1 << 20)
    """Memory of the weights and caches of several models; for one more, those without streams are
    unloaded, the least recently used first. By default as much as all of them take.
    """
    model_idle_s: float = Field(default=600.0, ge=1)
    """One of several models that spoke nothing for so long is unloaded."""
    also: Annotated[tuple[ModelName, ...], NoDecode, BeforeValidator(_listed)] = ()
    """Further models that this process serves as well, separated by commas; a vocoder does so for
    checkpoints that share a codec.
    """
    voice_dir: Path = Path("voices/vesper")
    """A voice folder, or a published checkpoint by folder or hub name."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """`cpu`, `cuda` or `cuda:N`."""
    slots: int = Field(default=64, ge=1, le=8192)
    """Streams that this engine holds at once; no more are admitted than its measured steps keep up
    with. By default 256 on a GPU.
    """
    batch_streams: int = Field(default=32, ge=1, le=4096)
    """Streams of one engine step; by default 256 on a GPU."""
    fake_curve: Path | None = None
    """Measured times that the fake engine takes."""
    threads: int = Field(default=1, ge=1, le=64)
    """Threads of torch."""

    @model_validator(mode="before")
    @classmethod
    def _for_a_device(cls, given: dict[str, Any]) -> dict[str, Any]:
        device = str(given.get("device", "cpu")).startswith("cuda")
        return {**cls.on_a_device, **given} if device else given

    @model_validator(mode="after")
    def _models_of_their_own(self) -> Self:
        names = [name for one in self.each() for name in (one.model, *one.also)]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"models: {', '.join(sorted(twice))} twice")
        if self.models and self.device != "cpu":
            raise ValueError("models: several share a process on a CPU alone")
        return self

    def each(self) -> Sequence[Self]:
        """The settings of each of several models; else these alone. Raises ValidationError."""
        common = {name: getattr(self, name) for name in self.model_fields_set if name != "models"}
        for own in self.models:
            if whole := own.keys() & OF_A_PROCESS:
                raise ValueError(f"models: {', '.join(sorted(whole))} is of the whole process")
        return [type(self)(**{**common, **own}) for own in self.models] or [self]


OF_A_PROCESS: Final = frozenset(
    {*ServiceSettings.model_fields, "models", "models_bytes", "model_idle_s", "device", "threads"}
)


class _Environment(EnvSettingsSource):
    """The variables of a given mapping, with those that no field knows kept for refusal."""

    def __init__(self, settings_cls: type[BaseSettings], variables: Mapping[str, str]) -> None:
        self._variables = {
            name: value for name, value in variables.items() if not is_service_link(name, value)
        }
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._variables.items()}

    def __call__(self) -> dict[str, Any]:
        values = super().__call__()
        for name in self._variables:
            field = name.upper().removeprefix(PREFIX).split(NESTED)[0].lower()
            if name.upper().startswith(PREFIX) and field not in self.settings_cls.model_fields:
                values[field] = self._variables[name]
        return values


def _up_to_date(environ: Mapping[str, str], renamed: Mapping[str, str]) -> dict[str, str]:
    """The variables by their present names; where both are set, the present one counts."""
    given = {name.upper() for name in environ}
    variables = {}
    for name, value in environ.items():
        new = renamed.get(name.upper())
        if new is not None:
            log_.warning("setting.renamed", old=name, new=new)
        if new is None or new not in given:
            variables[new or name] = value
    return variables


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes made this variable, for a Service that happens to have our name."""
    if not _SERVICE_LINK.search(name):
        return False
    return "_SERVICE_" in name or value.startswith(("tcp://", "udp://")) or "_TCP" in name


def _explain(error: ValidationError) -> str:
    problems = []
    for problem in error.errors():
        name = PREFIX + NESTED.join(str(part) for part in problem["loc"]).upper()
        unknown = problem["type"] == "extra_forbidden"
        problems.append(f"{name}: {'no such setting' if unknown else problem['msg']}")
    return "; ".join(problems)

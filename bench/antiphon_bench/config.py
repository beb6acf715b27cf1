"""A run's target, arrivals, texts and limits. Frozen and validated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

TextSet = Literal["short", "medium", "long", "mixed"]
Protocol = Literal["http", "ws"]


class Frozen(BaseModel):
    """Base: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Poisson(Frozen):
    """Open loop, independent users: exponential gaps."""

    kind: Literal["poisson"] = "poisson"
    rate: PositiveFloat

    @property
    def load(self) -> float:
        """Requests a second."""
        return self.rate

    def __str__(self) -> str:
        return f"Poisson, {self.rate:g} requests/s"


class Gamma(Frozen):
    """Open loop, bursts: gamma gaps with the same mean; `cv` = 1 is Poisson, more is burstier."""

    kind: Literal["gamma"] = "gamma"
    rate: PositiveFloat
    cv: PositiveFloat = 3.0

    @property
    def load(self) -> float:
        """Requests a second."""
        return self.rate

    def __str__(self) -> str:
        return f"gamma bursts (cv {self.cv:g}), {self.rate:g} requests/s"


class Closed(Frozen):
    """Closed loop: `concurrency` users, each starts anew when done.

    With `listen` a user is done when the last sample has been played, as a person would be;
    without, when the last byte has arrived. One who is refused comes back when the server says,
    as SDKs do; one who is `rude`, after half a second whatever it says.
    """

    kind: Literal["closed"] = "closed"
    concurrency: PositiveInt
    listen: bool = True
    rude: bool = False

    @property
    def load(self) -> float:
        """Users."""
        return float(self.concurrency)

    def __str__(self) -> str:
        what = "listening" if self.listen else "back-to-back"
        return f"closed loop, {self.concurrency} {what} users"


Arrivals = Annotated[Poisson | Gamma | Closed, Field(discriminator="kind")]


class Target(Frozen):
    """The server under test and how to talk to it."""

    url: str = "http://127.0.0.1:8000"
    protocol: Protocol = "http"
    model: str = "default"
    voices: tuple[str, ...] = ("default",)
    response_format: Literal["wav", "pcm", "mp3"] = "wav"
    sample_rate: PositiveInt = 24_000
    """Rate of headerless PCM whose response does not name one (hz); OpenAI's is 24,000."""
    seed: int | None = None
    api_key: str | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    """Merged into the request (HTTP) or session.config (WebSocket); null removes a field."""
    keep_alive: bool = True
    """HTTP only: reuse connections. A WebSocket request always opens its own."""
    words_per_s: Annotated[float, Field(ge=0)] = 0.0
    """WebSocket only: send the text word by word at this pace; 0 sends it whole."""
    timeout_s: PositiveFloat = 60.0


class RunConfig(Frozen):
    """One run at one load."""

    target: Target = Target()
    arrivals: Arrivals = Poisson(rate=1.0)
    texts: TextSet = "mixed"
    warmup_s: Annotated[float, Field(ge=0)] = 5.0
    duration_s: PositiveFloat = 30.0
    drain_s: PositiveFloat = 60.0
    seed: int = 0
    processes: PositiveInt = 1
    label: str = "antiphon"
    out: Path = Path("bench-results")
    wav: bool = False


class SweepConfig(Frozen):
    """Looks for the goodput: the highest rate that still meets the targets."""

    run: RunConfig = RunConfig()
    rates: tuple[PositiveFloat, ...] = ()
    """Measure just these; empty: climb by `factor` from `start`, then bisect `refine` times."""
    start: PositiveFloat = 1.0
    factor: Annotated[float, Field(gt=1)] = 2.0
    ceiling: PositiveFloat = 1024.0
    refine: Annotated[int, Field(ge=0)] = 3
    ttfp_p95_s: PositiveFloat = 0.5
    viable_share: Annotated[float, Field(gt=0, le=1)] = 0.999
    settle_s: Annotated[float, Field(ge=0)] = 2.0

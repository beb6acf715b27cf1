"""Command-line options that the commands share, declared once."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from antiphon_bench.config import (
    Arrivals,
    Closed,
    Gamma,
    Poisson,
    Protocol,
    RunConfig,
    Target,
    TextSet,
)


@dataclass(frozen=True)
class Options:
    """What every measurement needs to know."""

    url: Annotated[
        str, typer.Option(help="Base address.", show_default="port 8000 of this machine")
    ] = "http://127.0.0.1:8000"
    protocol: Annotated[
        Protocol, typer.Option(help="http: POST /v1/audio/speech; ws: Antiphon's socket.")
    ] = "http"
    model: Annotated[str, typer.Option(help="Model name to ask for.")] = "default"
    voice: Annotated[list[str] | None, typer.Option(help="Voice; repeat to mix.")] = None
    response_format: Annotated[str, typer.Option(help="http only: wav, pcm or mp3.")] = "wav"
    sample_rate: Annotated[
        int, typer.Option(help="Rate of PCM whose response names none (hz).")
    ] = 24_000
    api_key: Annotated[str | None, typer.Option(envvar="ANTIPHON_API_KEY")] = None
    header: Annotated[list[str] | None, typer.Option(help="'name: value', repeatable.")] = None
    body: Annotated[str, typer.Option(help="JSON merged into the request; null removes.")] = "{}"
    voice_seed: Annotated[int | None, typer.Option(help="Seed of the synthesis itself.")] = None
    keep_alive: Annotated[bool, typer.Option(help="http only: reuse connections.")] = True
    words_per_s: Annotated[float, typer.Option(help="ws only: type word by word.")] = 0.0
    timeout: Annotated[float, typer.Option(help="Longest request (s).")] = 60.0
    texts: Annotated[TextSet, typer.Option(metavar="SET", help="short, medium, long or mixed.")] = (
        "mixed"
    )
    cv: Annotated[float, typer.Option(help="Burstiness: 1 is Poisson, 3 comes in bursts.")] = 1.0
    listen: Annotated[bool, typer.Option(help="Closed loop: users listen to the end.")] = True
    rude: Annotated[
        bool, typer.Option(help="Closed loop: refused users ask again after 0.5 s.")
    ] = False
    warmup: Annotated[float, typer.Option(help="Not measured at the start (s).")] = 5.0
    duration: Annotated[float, typer.Option(help="Measured (s).")] = 30.0
    drain: Annotated[float, typer.Option(help="Longest wait for the last ones (s).")] = 60.0
    seed: Annotated[int, typer.Option(help="Seed of arrivals and texts.")] = 0
    processes: Annotated[int, typer.Option(help="Generator processes.")] = 1
    label: Annotated[str, typer.Option(help="Name in plots and tables.")] = "antiphon"
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench-results")
    wav: Annotated[bool, typer.Option("--wav", help="Keep the audio.")] = False

    def arrivals(self, rate: float | None, concurrency: int | None) -> Arrivals:
        """Closed loop if a concurrency is given, else open loop."""
        if rate is not None and concurrency is not None:
            raise typer.BadParameter("choose --rate or --concurrency")
        if concurrency is not None:
            return Closed(concurrency=concurrency, listen=self.listen, rude=self.rude)
        rate = 1.0 if rate is None else rate
        return Poisson(rate=rate) if self.cv == 1.0 else Gamma(rate=rate, cv=self.cv)

    def run_config(self, arrivals: Arrivals) -> RunConfig:
        """The validated configuration; pydantic's ValidationError for nonsense."""
        target = {
            "url": self.url,
            "protocol": self.protocol,
            "model": self.model,
            "voices": tuple(self.voice or ("default",)),
            "response_format": self.response_format,
            "sample_rate": self.sample_rate,
            "seed": self.voice_seed,
            "api_key": self.api_key,
            "headers": _headers(self.header or []),
            "body": _object(self.body),
            "keep_alive": self.keep_alive,
            "words_per_s": self.words_per_s,
            "timeout_s": self.timeout,
        }
        return RunConfig(
            target=Target.model_validate(target),
            arrivals=arrivals,
            texts=self.texts,
            warmup_s=self.warmup,
            duration_s=self.duration,
            drain_s=self.drain,
            seed=self.seed,
            processes=self.processes,
            label=self.label,
            out=self.out,
            wav=self.wav,
        )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turns `command(options, ...)` into one whose options are parameters of their own."""
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    shared = get_type_hints(Options, include_extras=True)
    names = [field.name for field in fields(Options)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword, annotation=hints[p.name]) for p in own]
    parameters += [
        inspect.Parameter(f.name, keyword, default=f.default, annotation=shared[f.name])
        for f in fields(Options)
    ]

    def wrapper(**values: Any) -> None:
        options = Options(**{name: values.pop(name) for name in names})
        command(options, **values)

    wrapper.__name__ = command.__name__
    wrapper.__doc__ = command.__doc__
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in lines]
    for name, colon, _ in pairs:
        if not colon:
            raise typer.BadParameter(f"a header is 'name: value', not {name!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--body is a JSON object")
    return value

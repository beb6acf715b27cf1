"""Commands that talk to a gateway: say, voices, models."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import httpx
import typer
from rich.console import Console
from websockets.exceptions import WebSocketException

from antiphon import client, printing, sinks, texts
from antiphon import say as say_command
from antiphon.client import ServedModel
from antiphon.printing import fail
from ttsfamilies.known import FAMILIES

KNOWN: Final = (
    "family",
    "codec",
    "Hz",
    "frames/s",
    "accepts",
    "licence of code",
    "licence of weights",
)
SERVED: Final = ("model", "family", "Hz", "accepts")
URL: Final = typer.Option("--url", envvar="ANTIPHON_URL", help="Where the gateway listens.")
KEY: Final = typer.Option(
    "--key", envvar="ANTIPHON_API_KEY", show_envvar=True, help="API key, where one is needed."
)
Speed: TypeAlias = Annotated[float | None, typer.Option(min=0.25, max=4.0, help="The pitch stays.")]
Language: TypeAlias = Annotated[str | None, typer.Option(help="A name or code of the model's.")]
Instructions: TypeAlias = Annotated[
    str | None, typer.Option(help="How to speak, for models that take it.")
]
Adapter: TypeAlias = Annotated[
    str | None, typer.Option(help="A low-rank adapter, for models that take them.")
]
DEFAULT_URL: Final = "http://127.0.0.1:8000"
FAILURES: Final = (
    client.GatewayError,
    sinks.NoPlayer,
    sinks.PlayerFailed,
    sinks.UnknownFormat,
    httpx.HTTPError,
    WebSocketException,
    UnicodeError,
    OSError,
)


def say(
    text: Annotated[
        str | None, typer.Argument(help="What to say; standard input, as it comes, if not given.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Say what a file of UTF-8 text holds.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="A file, by its name's ending; - for raw s16le."),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help=f"Of the file: {', '.join(sinks.FORMATS)}.")
    ] = None,
    voice: Annotated[str | None, typer.Option(help="See `antiphon voices`.")] = None,
    model: Annotated[str, typer.Option(help="A model's name.")] = "default",
    speed: Speed = None,
    language: Language = None,
    instructions: Instructions = None,
    adapter: Adapter = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed, the same sound.")] = None,
    sample_rate: Annotated[
        int | None, typer.Option(help="Hz; the voice's own if not given.")
    ] = None,
    srt: Annotated[Path | None, typer.Option(help="Write SubRip subtitles here.")] = None,
    vtt: Annotated[Path | None, typer.Option(help="Write WebVTT subtitles here.")] = None,
    play: Annotated[bool, typer.Option("--play", help="Play it even though -o is given.")] = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    key: Annotated[str | None, KEY] = None,
) -> None:
    """Speak a text and show how fast it came."""
    console = Console(stderr=True)
    if text is not None and file is not None:
        raise typer.BadParameter("give a text or a file", param_hint="--file")
    options = client.SpeechOptions(
        *(model, voice, seed, sample_rate, speed, instructions, language, adapter)
    )
    try:
        sinks.require_folders(srt, vtt)
        chosen = sinks.sinks(output, play, format_)
        source = _source(text, file, console)
        heard = asyncio.run(say_command.run(url, source, options, chosen, console, key))
        _write_subtitles(heard, srt, vtt, console)
    except FAILURES as error:
        failed("say", error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _source(text: str | None, file: Path | None, console: Console) -> say_command.Source:
    if file is not None:
        return say_command.whole(file.read_text("utf-8"))
    if text not in (None, "-"):
        return say_command.whole(str(text))
    if sys.stdin.isatty():
        console.print("[dim]type, and end with Ctrl-D[/]")
    return say_command.from_stdin()


def _write_subtitles(
    heard: say_command.Heard, srt: Path | None, vtt: Path | None, console: Console
) -> None:
    if srt is None and vtt is None:
        return
    if not heard.words:
        console.print("[yellow]this model does not time its words: there are no subtitles[/]")
        return
    texts.write([heard.words], srt, texts.srt_blocks)
    texts.write([heard.words], vtt, texts.vtt_blocks)


def voices(
    language: Annotated[str, typer.Option(help="Only voices that speak it: en, pt-BR.")] = "",
    gender: Annotated[str, typer.Option(help="Only these: female, male, neutral.")] = "",
    as_json: printing.Json = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    key: Annotated[str | None, KEY] = None,
) -> None:
    """List the voices that can speak now."""
    try:
        found = asyncio.run(client.voices(url, key, language=language, gender=gender))
    except FAILURES as error:
        failed("voices", error)
    if as_json:
        printing.dump([asdict(voice) for voice in found])
        return
    rows = [(one.id, one.name, ", ".join(one.languages), one.gender or "") for one in found]
    printing.show(("voice", "name", "languages", "gender"), rows)


def models(
    known: Annotated[
        bool, typer.Option("--known", help="List the families that are built in instead.")
    ] = False,
    as_json: printing.Json = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    key: Annotated[str | None, KEY] = None,
) -> None:
    """List the models that are served now."""
    if known and as_json:
        printing.dump(known_plain())
        return
    if known:
        printing.show(KNOWN, known_families())
        return
    try:
        found = asyncio.run(client.models(url, key))
    except FAILURES as error:
        failed("models", error)
    if as_json:
        printing.dump([asdict(model) for model in found])
        return
    printing.show(SERVED, served(found))


def failed(command: str, error: Exception) -> NoReturn:
    """See `fail`; of a key that is missing it says how to give one."""
    hint = ""
    if isinstance(error, client.GatewayError) and error.code == "invalid_api_key":
        hint = "; give --key, or set ANTIPHON_API_KEY"
    fail(command, error, f"{error}{hint}")


def known_families() -> list[tuple[str, ...]]:
    """A row of KNOWN for each family that is built in."""
    return [
        (
            known["title"],
            known["codec"],
            str(known["sample_rate"]),
            f"{known['frame_rate_hz']:.4g}",
            ", ".join(known["accepts"]),
            *known["licences"].values(),
        )
        for known in known_plain()
    ]


def known_plain() -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "family": family.name,
            "title": family.title,
            "codec": family.codec.title,
            "sample_rate": family.codec.sample_rate,
            "frame_rate_hz": family.codec.frame_rate_hz,
            "accepts": family.accepts,
            "licences": {
                "code": _both(family.code, family.codec.code),
                "weights": _both(family.weights, family.codec.weights),
            },
        }
        for family in FAMILIES
    ]


def _both(talker: str, codec: str) -> str:
    return talker if talker == codec else f"{talker}; codec {codec}"


def served(models: Iterable[ServedModel]) -> list[tuple[str, ...]]:
    """A row of SERVED for each model."""
    return [(m.id, m.family, str(m.sample_rate), ", ".join(m.accepts)) for m in models]

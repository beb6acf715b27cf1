"""`antiphon read`: a book becomes an audio book."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from antiphon import client, listen
from antiphon.reading import run as reading
from antiphon.reading.folder import FolderInUse, MixedRates
from antiphon.reading.order import Labels, Order
from antiphon.stack import StackConfig, StackFailed
from antiphon.stack.broker import BrokerMissing
from antiphon.stack.checkpoints import Checkpoint
from antiphon.stack.local import Engine
from antiphon.starting import own_settings, require_device, start_timeout_s, telling
from gateway.audio.chaptered import BOOK_FORMATS, BookFormat, require
from gateway.audio.encoders.aac import REQUIREMENT
from gateway.errors import Unsupported
from ttscommon.books import BookPauses, Cast, InvalidBook, parse_cast
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.process.settings import PREFIX

_ENDINGS: Final[dict[str, BookFormat]] = {
    **{f".{name}": name for name in BOOK_FORMATS},
    ".ogg": "opus",
    ".m4a": "m4b",
}
_FAILURES: Final = (
    *(*listen.FAILURES, InvalidBook, FolderInUse, MixedRates),
    *(StackFailed, BrokerMissing, CheckpointError),
)
# A server that speaks one book has no listener to be in time for.
_OFFLINE: Final = {
    "gateway": {"ADMISSION": "off", "FIRST_AUDIO_TIMEOUT_S": "300", "STALL_TIMEOUT_S": "300"},
    "talker": {"POLICY": "offline"},
}


def read(
    book: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A .txt, .md or .epub file.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to: a name in .opus, .mp3 or .m4b.")
    ],
    voice: Annotated[
        str | None, typer.Option(help="The narrator's; one of the book's language if not given.")
    ] = None,
    cast: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Lines of `Name = voice` for speakers."),
    ] = None,
    model: Annotated[str, typer.Option(help="A served model's name.")] = "default",
    speed: listen.Speed = None,
    language: listen.Language = None,
    instructions: listen.Instructions = None,
    adapter: listen.Adapter = None,
    seed: Annotated[int | None, typer.Option(min=0, help="0 if not given.")] = None,
    paragraph_pause: Annotated[
        float, typer.Option(min=0, max=60, help="Seconds of silence behind a paragraph.")
    ] = BookPauses.paragraph_s,
    chapter_pause: Annotated[
        float, typer.Option(min=0, max=60, help="Seconds of silence behind a chapter.")
    ] = BookPauses.chapter_s,
    title: Annotated[str | None, typer.Option(help="In place of the book's own.")] = None,
    author: Annotated[str | None, typer.Option(help="In place of the book's own.")] = None,
    cover: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JPEG or PNG in place of the book's own."),
    ] = None,
    srt: Annotated[Path | None, typer.Option(help="Write SubRip subtitles here.")] = None,
    vtt: Annotated[Path | None, typer.Option(help="Write WebVTT subtitles here.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="ANTIPHON_URL", help="A running server; without one, read starts its own."
        ),
    ] = None,
    key: Annotated[str | None, listen.KEY] = None,
    parallel: Annotated[
        int, typer.Option(min=1, max=256, help="Passages that are spoken at once, at most.")
    ] = 32,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=TALKER[,codec=CODEC]",
            help="A published checkpoint for its own server, by folder or hub name.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Where its own server computes.")] = "cpu",
    engine: Annotated[Engine, typer.Option(hidden=True)] = "torch",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the folder of spoken passages.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Speak again what an earlier run spoke.")
    ] = False,
) -> None:
    """Speak a book into a file with chapters.

    A run that was stopped goes on where it was: spoken passages lie in a folder beside the file
    until it is made.
    """
    console = Console(stderr=True)
    if serve is not None and model == "default":
        model = serve.partition("=")[0]
    try:
        order = Order(
            source=book,
            output=output,
            format=_format(output),
            options=client.SpeechOptions(
                *(model, voice, seed, None, speed, instructions, language, adapter)
            ),
            cast=parse_cast(cast.read_text("utf-8")) if cast else Cast(),
            pauses=BookPauses(paragraph_pause, chapter_pause),
            labels=Labels(title, author, cover),
            own=_own_server(serve, device, engine) if url is None else None,
            url=url,
            key=key,
            most=parallel,
            srt=srt,
            vtt=vtt,
            keep=keep,
            restart=restart,
        )
        reading.run(order, console)
    except _FAILURES as error:
        listen.failed("read", error)
    except KeyboardInterrupt:
        console.print("[yellow]stopped; the same command goes on from here[/]")
        raise typer.Exit(130) from None


def _format(output: Path) -> BookFormat:
    """By the name's ending; raises BadParameter, also for what is not installed."""
    found = _ENDINGS.get(output.suffix.lower())
    if found is None:
        raise typer.BadParameter(f"a name in {', '.join(_ENDINGS)}", param_hint="--output")
    try:
        require(found)
    except Unsupported as error:
        lacks = f"{output.suffix} needs PyAV: pip install '{REQUIREMENT}'"
        message = lacks if found == "m4b" else error.message
        raise typer.BadParameter(message, param_hint="--output") from error
    return found


def _own_server(serve: str | None, device: str, engine: Engine) -> StackConfig:
    """Raises CheckpointError, BadParameter."""
    require_device(device)
    models: tuple[Checkpoint, ...] = ()
    if serve:
        with telling(serve.partition("=")[0], Console(stderr=True)) as told:
            models = (Checkpoint.parse(serve, told),)
    environ = own_settings()
    for stage, values in _OFFLINE.items():
        ours = {PREFIX + name: value for name, value in values.items()}
        environ[stage] = {**ours, **environ[stage]}
    return StackConfig(
        port=0,
        engine=engine,
        device=device,
        models=models,
        environ=environ,
        start_timeout_s=start_timeout_s(on_cpu=device == "cpu"),
    )

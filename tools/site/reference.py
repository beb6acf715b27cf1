"""Reference pages that are made from code: commands, metrics, HTTP and sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from typer.main import get_command

from antiphon.app import app as command_line
from gateway.description import openapi
from gateway.protocols import cartesia, deepgram, elevenlabs, openai, realtime
from tools.site.asyncapi import asyncapi
from ttscommon.process.metrics import GatewayMetrics, Metrics

_PROTOCOLS: Final = (openai, realtime, elevenlabs, cartesia, deepgram)


def write(folder: Path) -> None:
    """All of them, and both descriptions for tools."""
    folder.mkdir(parents=True, exist_ok=True)
    http, sockets = described(), asyncapi()
    pages = {
        "cli.md": commands(),
        "metrics.md": metrics(),
        "http.md": routes(http),
        "websocket.md": channels(sockets),
        "openapi.json": json.dumps(http, indent=1),
        "asyncapi.json": json.dumps(sockets, indent=1),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")


def described() -> dict[str, Any]:
    """The OpenAPI description of a gateway that is not started."""
    app = FastAPI()
    for protocol in _PROTOCOLS:
        app.include_router(protocol.router)
    return openapi(app)


def commands() -> str:
    """Every command's help."""
    root = get_command(command_line)
    body = "\n".join(_command(root, "antiphon", 2))
    return f"# The command line\n\nMade from the program's help.\n\n{body}\n"


def _command(command: Any, name: str, depth: int) -> Iterator[str]:
    with command.context_class(command, info_name=name) as context:
        yield f"{'#' * depth} {name}\n"
        yield f"{_plain(command.help)}\n"
        yield from _options(command, context)
        for child in getattr(command, "commands", {}).values():
            if not child.hidden:
                yield from _command(child, f"{name} {child.name}", min(depth + 1, 3))


def _options(command: Any, context: Any) -> Iterator[str]:
    rows = []
    for parameter in command.get_params(context):
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        rows.append((names, _cell(getattr(parameter, "help", None))))
    if rows:
        yield table(("option", ""), rows) + "\n"
    if command.epilog:
        yield f"\n{_plain(command.epilog)}\n"


def _plain(text: str | None) -> str:
    return (text or "").replace("\f", "").replace("[bold]", "").replace("[/bold]", "").strip()


def metrics() -> str:
    """Every metric, by the processes that export it."""
    found: dict[str, tuple[str, str, str]] = {}
    for who, made in (("gateway", GatewayMetrics()), ("talker, vocoder", Metrics("vesper"))):
        for family in made.registry.collect():
            known = found.get(family.name)
            where = f"{known[0]}, {who}" if known else who
            found[family.name] = (where, family.type, family.documentation)
    rows = [
        (f"`{_exported(name, kind)}`", kind, where, _cell(text))
        for name, (where, kind, text) in sorted(found.items())
    ]
    body = table(("metric", "kind", "of", ""), rows)
    return f"# Metrics\n\nWhat `/metrics` of each process exports, made from the code.\n\n{body}\n"


def _exported(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def routes(document: Mapping[str, Any]) -> str:
    """Every route with its body, answers, errors and an example, by protocol."""
    parts = [
        "# HTTP\n\nWhat a gateway answers, made from its code. For tools: "
        "[openapi.json](openapi.json), which every gateway serves at `/openapi.json`.\n"
    ]
    for tag in document["tags"]:
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _route(f"{method.upper()} {path}", operation, document)
    return "\n".join(parts)


def _route(name: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n\n{operation['description']}\n"
    rows = [
        (f"`{p['name']}`", f"{p['in']}, {_type(p.get('schema', {}))}", _cell(p.get("description")))
        for p in operation.get("parameters", ())
    ]
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        rows += [(f"`{n}`", f"{kind}, {what}", "") for n, what in _fields(media, document)]
    if rows:
        yield f"{table(('field', 'where', ''), rows)}\n"
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "example" in media:
            yield f"```json\n{json.dumps(media['example'])}\n```\n"
    yield f"{table(('status', 'answer'), _answers(operation['responses']))}\n"


def _answers(responses: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in responses.items():
        kinds = ", ".join(f"`{kind}`" for kind in answer.get("content", {}))
        failed = status.startswith(("4", "5"))
        yield status, answer["description"] if failed or not kinds else kinds


def _fields(media: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    schema = _resolved(media.get("schema", {}), document)
    required = schema.get("required", ())
    for name, about in schema.get("properties", {}).items():
        yield name, f"{_type(about)}{', required' if name in required else ''}"


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = document
    if "$ref" not in schema:
        return schema
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    bounds = [
        f"{words} {schema[key]:g}"
        for key, words in (("minimum", "from"), ("maximum", "to"))
        if key in schema
    ]
    return " ".join([str(schema.get("type", "any")), *bounds])


def channels(document: Mapping[str, Any]) -> str:
    """Every socket and its messages."""
    parts = [
        "# WebSockets\n\nWhat is said on each socket, made from the code. For tools: "
        "[asyncapi.json](asyncapi.json).\n"
    ]
    for channel in document["channels"].values():
        parts.append(f"## {channel['address']}\n\n{channel['description']}\n")
        for direction, words in (("sent", "A client sends"), ("received", "A client receives")):
            rows = [
                (f"`{one['title']}`", _members(one["payload"]))
                for name, one in channel["messages"].items()
                if name.startswith(direction)
            ]
            parts.append(f"{table((words, 'fields'), rows)}\n")
    return "\n".join(parts)


def _members(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    names = (name for name in schema.get("properties", {}) if name != "type")
    return ", ".join(f"`{name}`" if name in required else f"`{name}`?" for name in names)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """In Markdown."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")

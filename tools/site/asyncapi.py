"""The AsyncAPI description of a gateway's sockets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from gateway.description.operation import Schema
from tools.site.sockets import CHANNELS, Channel
from ttscommon.process.startup import VERSION

_DEFINED: Final = "#/components/schemas/"
_SOUND: Final = "sound"


def asyncapi() -> Schema:
    """The whole document, in version 3.0. An operation is what the gateway does."""
    schemas: Schema = {}
    channels = {
        one.name: _channel(path, one, dict(_messages(one, schemas)))
        for path, one in CHANNELS.items()
    }
    operations: Schema = {}
    for one in CHANNELS.values():
        operations |= _operations(one, channels[one.name]["messages"])
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Antiphon", "version": VERSION},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"schemas": schemas},
    }


def _channel(path: str, channel: Channel, messages: Mapping[str, Any]) -> Schema:
    found: Schema = {"address": path, "description": channel.about, "messages": messages}
    if names := re.findall(r"\{(\w+)\}", path):
        found["parameters"] = {name: {} for name in names}
    return found


def _messages(channel: Channel, schemas: Schema) -> Iterator[tuple[str, Schema]]:
    """By direction and name; schemas that a message refers to are put into `schemas`."""
    for direction, given in (("sent", channel.sent), ("received", channel.received)):
        for one in given:
            for schema in _schemas(one, schemas):
                title = schema["title"]
                name = re.sub(r"\W", "_", f"{direction}_{title}")
                yield name, {"name": title, "title": title, "payload": schema}
    if channel.binary:
        payload = {"type": "string", "format": "binary"}
        yield f"received_{_SOUND}", {
            "name": _SOUND, "title": _SOUND, "contentType": "application/octet-stream",
            "payload": payload,
        }  # fmt: skip


def _schemas(model: Any, schemas: Schema) -> Iterator[Schema]:
    """Those of a type, the members of a union apart."""
    if isinstance(model, dict):
        yield model
        return
    found = TypeAdapter(model).json_schema(ref_template=_DEFINED + "{model}")
    defined = found.pop("$defs", {})
    if "anyOf" not in found:
        schemas |= defined
        yield found
        return
    members = [one["$ref"].removeprefix(_DEFINED) for one in found["anyOf"]]
    schemas |= {name: schema for name, schema in defined.items() if name not in members}
    for name in members:
        kind = defined[name]["properties"]["type"]["const"]
        yield {**defined[name], "title": kind}


def _operations(channel: Channel, messages: Mapping[str, Any]) -> Schema:
    place = f"#/channels/{channel.name}"
    return {
        f"{action}{channel.name}": {
            "action": action,
            "channel": {"$ref": place},
            "messages": [
                {"$ref": f"{place}/messages/{name}"} for name in messages if name.startswith(of)
            ],
        }
        for action, of in (("receive", "sent_"), ("send", "received_"))
    }

"""The settings in the environment of `antiphon up`, given to the services that know them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

import typer

from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttscommon.process.settings import NESTED, PREFIX, ServiceSettings, is_service_link
from vocoder.settings import VocoderSettings

_KINDS: Final[Mapping[str, type[ServiceSettings]]] = MappingProxyType(
    {
        "gateway": GatewaySettings,
        "talker": TalkerSettings,
        "vocoder": VocoderSettings,
    }
)

# What other commands read.
_OTHERS: Final = frozenset({"URL", "API_KEY", "DEBUG", "MODELS_PER_WORKER"})

# What `antiphon up` decides itself, and how it is told.
_DECIDED: Final = MappingProxyType(
    {
        "HOST": "use --host",
        "PORT": "use --port",
        "ENGINE": "use --engine",
        "DEVICE": "use --device",
        "MODELS": "use --model",
        "LOG_LEVEL": "use --log-level",
        "LOG_FORMAT": "use --json",
        "ADMIN_PORT": "every process takes a free one",
        "PORT_FILE": "every process has its own",
        "BUS": "it starts a broker of its own",
    }
)


class UnknownSetting(Exception):
    """A variable that no service would take; the text says which and why."""


def settings_in(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The ANTIPHON_... variables by stage; raises UnknownSetting."""
    found: dict[str, dict[str, str]] = {stage: {} for stage in _KINDS}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or is_service_link(variable, value):
            continue
        name = variable.removeprefix(PREFIX).split(NESTED)[0]
        if name in _OTHERS:
            continue
        for stage in _stages_of(variable, name):
            found[stage][variable] = value
    return found


def own_settings() -> dict[str, dict[str, str]]:
    """Those of this process's environment; raises typer.BadParameter."""
    try:
        return settings_in(os.environ)
    except UnknownSetting as error:
        raise typer.BadParameter(str(error), param_hint="environment") from error


def _stages_of(variable: str, name: str) -> list[str]:
    if name in _DECIDED:
        raise UnknownSetting(f"{variable}: `antiphon up` decides this itself: {_DECIDED[name]}")
    stages = [stage for stage, kind in _KINDS.items() if name.lower() in kind.model_fields]
    if not stages:
        known = {field.upper() for kind in _KINDS.values() for field in kind.model_fields}
        close = get_close_matches(name, known, 1)
        hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
        raise UnknownSetting(f"{variable}: no service has such a setting{hint}")
    return stages

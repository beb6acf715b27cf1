"""Checks of requests, which may not have come by a gateway: of every one, and those that families
make while they prepare one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ttscommon.wire import parameters
from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import ModelSpec

_FEW: Final = 9


def check(spec: ModelSpec, request: SpeechRequest) -> None:
    """Raises BadRequest for what the model, as its specification says, knows nothing of."""
    if request.turns and "turns" not in spec.accepts:
        raise BadRequest("this model goes on from no turns: send the text alone", param="turns")
    if request.adapter is not None and ADAPTER not in spec.accepts:
        raise BadRequest("this model, as it is served here, takes no adapters", param=ADAPTER)
    if request.speaker and "speaker" not in spec.accepts:
        raise BadRequest("this model has one speaker at a time", param="speaker")
    if request.rows and not spec.row_width:
        raise BadRequest("this model takes no rows: send text", param="rows")
    slowest, fastest = spec.speeds
    if slowest < fastest and not slowest <= request.speed <= fastest:
        raise BadRequest(f"speed is {slowest} to {fastest} with this model", param="speed")
    parameters.checked(spec.parameters, request.extra_params)


def known_voice(voice: str, known: Iterable[str]) -> None:
    """Raises UnknownVoice, which says a few that there are."""
    if voice not in (names := tuple(known)):
        there = ", ".join(names[:_FEW]) or "none"
        raise UnknownVoice(f"no voice {voice!r}; there are {there}", param="voice")


def not_cloning(request: SpeechRequest) -> None:
    """Raises BadRequest for a recording."""
    if request.reference is not None:
        raise BadRequest("this model cannot clone a voice", param="ref_audio")


def recorded(reference: Arrays | None) -> Arrays:
    """What was derived of the voice's recording; raises BadRequest without one."""
    if reference is None:
        raise BadRequest(
            "this model speaks with the voice of a recording: send ref_audio, or name a voice made"
            " of one",
            param="ref_audio",
        )
    return reference

"""Checks of every request, whatever its family: it may not have come by a gateway."""

from __future__ import annotations

from ttscommon.wire import parameters
from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import ModelSpec


def check(spec: ModelSpec, request: SpeechRequest) -> None:
    """Raises BadRequest for turns or parameters that the model knows nothing of."""
    if request.turns and "turns" not in spec.accepts:
        raise BadRequest("this model goes on from no turns: send the text alone", param="turns")
    if request.adapter is not None and ADAPTER not in spec.accepts:
        raise BadRequest("this model, as it is served here, takes no adapters", param=ADAPTER)
    if request.speaker and "speaker" not in spec.accepts:
        raise BadRequest("this model has one speaker at a time", param="speaker")
    if request.rows and not spec.row_width:
        raise BadRequest("this model takes no rows: send text", param="rows")
    parameters.checked(spec.parameters, request.extra_params)

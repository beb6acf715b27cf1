"""The shape of an error: every protocol has its own, and one edge fills it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fastapi import Depends, Request

from gateway import errors
from ttscommon.wire.errors import AntiphonError

ErrorShape: TypeAlias = Callable[[AntiphonError, str], Mapping[str, Any]]
"""An error and the request's id -> the body that tells it."""


def openai_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    """OpenAI's, and Antiphon's own."""
    return {"error": errors.body(error)}


def shaped(shape: ErrorShape) -> Any:
    """A router's dependency: what fails below it is told in `shape`."""

    async def choose(request: Request) -> None:
        request.state.error_shape = shape

    return Depends(choose)

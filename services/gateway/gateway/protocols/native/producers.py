"""Requests whose rows come over a session's connection; see docs/protocol.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakMethod

from gateway.errors import WrongOrder
from gateway.protocols.native.messages import InputRows, control, error_message, rows_of
from gateway.requests import GatewayContext, Production
from ttscommon.wire.errors import AntiphonError


class Producers:
    """By request id. put: the session's, which sends a message to the client; a session that its
    producers referred to would be kept until the collector comes.
    """

    def __init__(
        self,
        context: GatewayContext,
        tenant: str,
        put: WeakMethod[Callable[[str], object]],
    ) -> None:
        self._context, self._tenant, self._put = context, tenant, put
        self._known: dict[str, Production] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._known

    def open(self, request_id: str, width: int, token: str | None) -> None:
        """The rows of a new request of this session's. token: with which it can be attached to."""
        more = {} if token is None else {"resume_token": token}
        self._begin(request_id, width, more).start(fresh=True)

    def elsewhere(self, request_id: str, token: str | None) -> None:
        """A new request of this session's has its rows from another connection."""
        self._accepted(request_id, {} if token is None else {"resume_token": token}, 0)

    def attach(self, request_id: str, width: int, token: str) -> None:
        """The rows of a request that another connection opened; raises NotFound, WrongOrder."""
        self._context.require_token(token, request_id, self._tenant)
        if request_id in self._known:
            raise WrongOrder("the rows of this request come over this connection already")
        self._begin(request_id, width, {}).start(fresh=False)

    def _begin(self, request_id: str, width: int, more: dict[str, Any]) -> Production:
        made = self._known[request_id] = self._context.produce(
            *(self._tenant, request_id, width),
            accepted=partial(self._accepted, request_id, more),
            failed=partial(self._failed, request_id),
        )
        return made

    def add(self, request_id: str, message: InputRows) -> None:
        """Raises WrongOrder, BadRequest, TextTooLong, InputTooFast."""
        if message.rows is not None:
            self._of(request_id).add(rows_of(message.rows), message.start)

    def finish(self, request_id: str) -> None:
        """Its rows are complete; raises WrongOrder."""
        self._of(request_id).finish()

    def _of(self, request_id: str) -> Production:
        if request_id not in self._known:
            raise WrongOrder("rows of a request must follow input.attach", param="request_id")
        return self._known[request_id]

    def drop(self, request_id: str) -> None:
        """The request is over; safe where there is none."""
        if (known := self._known.pop(request_id, None)) is not None:
            known.abandon()

    async def close(self) -> None:
        """The connection is: what is not complete may go on over another."""
        left, self._known = self._known, {}
        for production in left.values():
            await production.close()

    def _say(self, message: str) -> None:
        if (put := self._put()) is not None:
            put(message)

    def _accepted(self, request_id: str, more: dict[str, Any], rows: int) -> None:
        self._say(control("input.accepted", request_id=request_id, rows=rows, **more))

    def _failed(self, request_id: str, error: AntiphonError) -> None:
        self._known.pop(request_id, None)
        self._say(error_message(error, request_id))

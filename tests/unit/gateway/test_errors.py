import re
from pathlib import Path

import pytest

from gateway import errors
from gateway.errors import Draining, ModelLoading, VoiceExists
from ttscommon.wire.errors import AntiphonError, Fenced, Overloaded
from ttscommon.wire.messages import End

AGAIN = {"overloaded", "rate_limit_exceeded"}
"""For want of room: Antiphon's own socket stays open for the next try."""


def kinds(base: type[AntiphonError] = AntiphonError) -> set[type[AntiphonError]]:
    return {base}.union(*(kinds(kind) for kind in base.__subclasses__()))


def test_every_failure_of_the_gateway_has_an_edge() -> None:
    internal = {"malformed_message", "unsupported_version", "fenced"}
    assert {kind.code for kind in kinds()} - internal == set(errors.EDGES)


def test_the_protocol_documents_every_code_as_it_is() -> None:
    table = (Path(__file__).parents[3] / "docs/protocol.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\S+?)(?: \+ \S+)? \| (.+?) \|", table, re.M)
    documented = {code: (status, socket) for code, status, socket in rows if code in errors.EDGES}
    assert set(documented) == set(errors.EDGES) - {"not_found"}
    for code, (status, socket) in documented.items():
        edge = errors.EDGES[code]
        assert status in ("-", str(edge.status)), code
        closes = f"closes {edge.close}" if edge.close else "stays open"
        expected = f"stays open (others: {closes})" if code in AGAIN else closes
        assert socket == expected, code


def test_a_failure_that_is_not_for_clients_tells_them_nothing() -> None:
    body = errors.body(Fenced("epoch 3 owns the log"))
    words = {"message": "internal error", "type": "server_error"}
    assert body == {**words, "param": None, "code": "internal"}


def test_a_refusal_says_when_to_try_again_unless_waiting_does_not_help() -> None:
    assert errors.headers(Overloaded("full", retry_after_s=2.6)) == {"retry-after": "3"}
    assert errors.retry_after_s(ModelLoading("the talker loads")) == 2
    assert errors.retry_after_s(Draining("leaving")) == 1
    assert errors.headers(VoiceExists("ann")) == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [("nothing_to_say", 400), ("unknown_voice", 400), ("overloaded", 429), ("runaway", 500),
     ("strange", 500)],
)  # fmt: skip
def test_what_a_stage_reports_keeps_its_meaning(code: str, expected: int) -> None:
    failure = errors.from_end(End("id", 0, "error", code, "why", "voice"))
    assert errors.edge(failure).status == expected
    assert failure.message == "why"

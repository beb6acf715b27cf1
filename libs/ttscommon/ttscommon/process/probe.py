"""Ask the service in this container for its health: `python -m ttscommon.process.probe livez`."""

from __future__ import annotations

import http.client
import os
import sys
from typing import Final

_DEFAULT_PORT: Final = 9100
_TIMEOUT_S: Final = 2.0


def healthy(probe: str, port: int) -> bool:
    """Whether the admin port of this host answers `/<probe>` with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/{probe}")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    admin_port = int(os.environ.get("ANTIPHON_ADMIN_PORT", _DEFAULT_PORT))
    sys.exit(not healthy(sys.argv[1], admin_port))

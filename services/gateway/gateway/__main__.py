"""`python -m gateway`: settings from ANTIPHON_... variables."""

from gateway.service import serve
from gateway.settings import GatewaySettings
from ttscommon.process.service import launch

if __name__ == "__main__":
    launch("gateway", GatewaySettings, serve)

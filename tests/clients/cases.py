"""Which clients are run, and what each of them is run for; docs/clients.md says the same."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

Case: TypeAlias = tuple[str, str]
"""A module of drivers, and the driver."""

SENTENCES: Final = (
    "The tide is coming in.",
    "Can you hear the bells across the water?",
    "They ring twice, and then they stop.",
)
TEXT: Final = " ".join(SENTENCES)
LONG: Final = " ".join([TEXT] * 12)

SDKS: Final = (
    "openai_pcm", "openai_wav", "openai_packed", "openai_events", "elevenlabs_stream",
    "elevenlabs_timed", "elevenlabs_whole", "elevenlabs_dialogue", "cartesia_bytes",
    "cartesia_socket", "deepgram_http", "deepgram_socket", "wyoming_whole", "wyoming_streamed",
)  # fmt: skip
AGENTS: Final = (
    "livekit_openai", "livekit_elevenlabs", "livekit_cartesia", "livekit_deepgram",
    "pipecat_openai", "pipecat_elevenlabs", "pipecat_cartesia", "pipecat_deepgram",
)  # fmt: skip
REALTIME: Final = ("realtime_openai", "realtime_livekit", "realtime_pipecat")
# With a model that hears; the driver is of the same client.
SPOKEN: Final = (
    *(("spoken", name.replace("realtime", "spoken")) for name in REALTIME),
    ("openai_agents", "spoken_agents"),
)
SPEAKING: Final = (
    *(("sdks", name) for name in SDKS),
    *(("agents", name) for name in AGENTS),
    *(("realtime", name) for name in REALTIME),
    *(("agents", name) for name in ("livekit_elevenlabs_v3", "livekit_deepgram_v2")),
    ("agents", "pipecat_elevenlabs_http"),
    *(("node", name) for name in ("node_pcm", "node_wav")),
    ("litellm", "litellm_speech"),
    ("openai_agents", "agents_openai"),
    *(("bridge", name) for name in ("bridge_whole", "bridge_streamed")),
)
TIMED: Final = (
    ("sdks", "elevenlabs_timed"),
    ("sdks", "cartesia_socket"),
    *(("agents", f"{each}_elevenlabs") for each in ("livekit", "pipecat")),
    *(("agents", f"{each}_cartesia") for each in ("livekit", "pipecat")),
    *(("realtime", f"realtime_{each}") for each in ("openai", "livekit")),
)
LISTING: Final = tuple(
    ("sdks", f"{vendor}_lists") for vendor in ("elevenlabs", "cartesia", "deepgram")
)
# Whose times of characters add up to the length of the audio.
ALIGNED: Final = (
    ("sdks", "elevenlabs_timed"),
    ("sdks", "elevenlabs_whole"),
    ("agents", "pipecat_elevenlabs_http"),
)
INTERRUPTING: Final = (
    *(("sdks", name) for name in ("openai_pcm", "elevenlabs_stream", "deepgram_http")),
    *(("sdks", name) for name in ("cartesia_socket", "deepgram_socket", "wyoming_streamed")),
    *(("agents", name) for name in AGENTS),
    *(("realtime", name) for name in REALTIME),
    ("agents", "pipecat_elevenlabs_open"),
    ("node", "node_pcm"),
    ("openai_agents", "agents_openai"),
)
HOME: Final[Case] = ("home_assistant", "home_assistant")
# Where the client's class for a wrong key is its transport's, that is what its users catch.
UNAUTHORISED: Final[Mapping[Case, str]] = MappingProxyType(
    {
        ("sdks", "openai_pcm"): "AuthenticationError",
        ("node", "node_pcm"): "AuthenticationError",
        ("litellm", "litellm_speech"): "AuthenticationError",
        ("sdks", "elevenlabs_stream"): "ApiError",
        ("sdks", "cartesia_bytes"): "AuthenticationError",
        ("sdks", "cartesia_socket"): "InvalidStatus",
        ("sdks", "deepgram_http"): "ApiError",
        ("sdks", "deepgram_socket"): "ApiError",
        ("agents", "livekit_openai"): "APIStatusError",
        ("agents", "livekit_elevenlabs"): "APIStatusError",
        ("agents", "livekit_cartesia"): "APIStatusError",
        ("agents", "livekit_deepgram"): "APIStatusError",
        ("agents", "pipecat_openai"): "ErrorFrame",
        ("agents", "pipecat_elevenlabs"): "ErrorFrame",
        ("agents", "pipecat_cartesia"): "ErrorFrame",
        ("agents", "pipecat_deepgram"): "ErrorFrame",
    }
)
REFUSED: Final[Mapping[Case, str]] = MappingProxyType(
    {
        ("sdks", "openai_errors"): (
            "NotFoundError:unknown_model BadRequestError:bad_request BadRequestError:nothing_to_say"
            " BadRequestError:unknown_voice"
        ),
        ("node", "node_errors"): (
            "NotFoundError:unknown_model BadRequestError:bad_request BadRequestError:nothing_to_say"
            " BadRequestError:unknown_voice"
        ),
        ("sdks", "elevenlabs_errors"): "400:nothing_to_say",
        ("sdks", "cartesia_errors"): "BadRequestError:nothing_to_say",
        ("sdks", "deepgram_errors"): "BadRequestError:400:NOTHING_TO_SAY",
        ("sdks", "wyoming_errors"): "text_too_long",
        ("litellm", "litellm_errors"): "BadRequestError",
    }
)
RETRYING: Final = (
    ("sdks", "openai_pcm"),
    ("sdks", "elevenlabs_whole"),
    ("sdks", "cartesia_bytes"),
    ("agents", "livekit_openai"),
    ("node", "node_pcm"),
    ("litellm", "litellm_speech"),
)


class Row(NamedTuple):
    """A client as docs/clients.md names it, the file and the package that pin it, its drivers."""

    client: str
    file: str
    package: str
    drivers: tuple[str, ...]


_PYTHON: Final = "requirements.txt"
ROWS: Final = (
    Row("openai (Python)", _PYTHON, "openai", ("openai",)),
    Row("openai (Node)", "node/package.json", "openai", ("node",)),
    Row("elevenlabs (Python)", _PYTHON, "elevenlabs", ("elevenlabs",)),
    Row("cartesia (Python)", _PYTHON, "cartesia", ("cartesia",)),
    Row("deepgram-sdk (Python)", _PYTHON, "deepgram-sdk", ("deepgram",)),
    Row("wyoming", _PYTHON, "wyoming", ("wyoming",)),
    *(
        Row(f"livekit-agents, `{name}.TTS`", _PYTHON, "livekit-agents", (f"livekit_{name}",))
        for name in ("openai", "elevenlabs", "cartesia", "deepgram")
    ),
    *(
        Row(f"pipecat-ai, `{name}TTSService`", _PYTHON, "pipecat-ai", (f"pipecat_{name.lower()}",))
        for name in ("OpenAI", "ElevenLabs", "Cartesia", "Deepgram")
    ),
    Row("openai (Python), `realtime`", _PYTHON, "openai", ("realtime_openai",)),
    Row("livekit-agents, `openai.realtime`", _PYTHON, "livekit-agents", ("realtime_livekit",)),
    Row("pipecat-ai, `OpenAIRealtimeLLMService`", _PYTHON, "pipecat-ai", ("realtime_pipecat",)),
    Row(
        "openai-agents, `RealtimeRunner`", "openai-agents.txt", "openai-agents", ("agents_openai",)
    ),
    Row("litellm", "litellm.txt", "litellm", ("litellm",)),
    Row("homeassistant, `wyoming`", "home-assistant.txt", "homeassistant", ("home_assistant",)),
    Row("wyoming-openai", "wyoming-openai.txt", "wyoming_openai", ("bridge",)),
)


def features(row: Row) -> tuple[bool, ...]:
    """Whether it is run for length, word times, interruption, errors, and retrying."""
    tables = ((*SPEAKING, HOME), TIMED, INTERRUPTING, (*REFUSED, *UNAUTHORISED), RETRYING)
    return tuple(any(name.startswith(row.drivers) for _, name in table) for table in tables)

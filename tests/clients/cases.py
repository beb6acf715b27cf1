"""Which clients are run, and what each of them is run for; docs/clients.md says the same."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

SDKS: Final = (
    "openai_pcm", "openai_wav", "openai_packed", "openai_events", "elevenlabs_stream",
    "elevenlabs_timed", "elevenlabs_whole", "elevenlabs_dialogue", "cartesia_bytes",
    "cartesia_socket", "deepgram_http", "deepgram_socket", "wyoming_whole", "wyoming_streamed",
)  # fmt: skip
LIVEKIT: Final = (
    "livekit_openai", "livekit_elevenlabs", "livekit_cartesia", "livekit_deepgram",
)  # fmt: skip
PIPECAT: Final = (
    "pipecat_openai", "pipecat_elevenlabs", "pipecat_cartesia", "pipecat_deepgram",
)  # fmt: skip
REALTIME: Final = ("realtime_openai", "realtime_livekit", "realtime_pipecat")
# With a model that hears.
SPOKEN: Final = ("spoken_openai", "spoken_livekit", "spoken_pipecat", "agents_spoken")
SPEAKING: Final = (
    *SDKS, *LIVEKIT, *PIPECAT, *REALTIME, "livekit_elevenlabs_v3", "livekit_deepgram_v2",
    "pipecat_elevenlabs_http", "node_pcm", "node_wav", "litellm_speech", "agents_openai",
    "bridge_whole", "bridge_streamed",
)  # fmt: skip
TIMED: Final = (
    "elevenlabs_timed", "cartesia_socket", "livekit_elevenlabs", "pipecat_elevenlabs",
    "livekit_cartesia", "pipecat_cartesia", "realtime_openai", "realtime_livekit",
)  # fmt: skip
LISTING: Final = ("elevenlabs_lists", "cartesia_lists", "deepgram_lists")
# Whose times of characters add up to the length of the audio.
ALIGNED: Final = ("elevenlabs_timed", "elevenlabs_whole", "pipecat_elevenlabs_http")
INTERRUPTING: Final = (
    "openai_pcm", "elevenlabs_stream", "deepgram_http", "cartesia_socket", "deepgram_socket",
    "wyoming_streamed", *LIVEKIT, *PIPECAT, *REALTIME, "pipecat_elevenlabs_open", "node_pcm",
    "agents_openai",
)  # fmt: skip
HOME: Final = "home_assistant"
# Where the client's class for a wrong key is its transport's, that is what its users catch.
UNAUTHORISED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai_pcm": "AuthenticationError",
        "node_pcm": "AuthenticationError",
        "litellm_speech": "AuthenticationError",
        "elevenlabs_stream": "ApiError",
        "cartesia_bytes": "AuthenticationError",
        "cartesia_socket": "InvalidStatus",
        "deepgram_http": "ApiError",
        "deepgram_socket": "ApiError",
        **dict.fromkeys(LIVEKIT, "APIStatusError"),
        **dict.fromkeys(PIPECAT, "ErrorFrame"),
    }
)
_OPENAI_ERRORS: Final = (
    "NotFoundError:unknown_model BadRequestError:bad_request BadRequestError:nothing_to_say"
    " BadRequestError:unknown_voice"
)
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai_errors": _OPENAI_ERRORS,
        "node_errors": _OPENAI_ERRORS,
        "elevenlabs_errors": "400:nothing_to_say",
        "cartesia_errors": "BadRequestError:nothing_to_say",
        "deepgram_errors": "BadRequestError:400:NOTHING_TO_SAY",
        "wyoming_errors": "text_too_long",
        "litellm_errors": "BadRequestError",
    }
)
RETRYING: Final = (
    "openai_pcm", "elevenlabs_whole", "cartesia_bytes", "livekit_openai", "node_pcm",
    "litellm_speech",
)  # fmt: skip


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
    return tuple(any(name.startswith(row.drivers) for name in table) for table in tables)

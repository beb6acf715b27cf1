"""Which checkpoints and requests are compared. Standard library only.

A case's `options` are the official package's own arguments; ours are derived from them.
"""

from dataclasses import dataclass, field
from typing import Any, Final

# Keyword arguments of write_checkpoint.
CHECKPOINTS: Final[dict[str, dict[str, Any]]] = {
    "custom": {"kind": "custom_voice", "seed": 1},
    "small": {"kind": "custom_voice", "seed": 2, "small": True},
    "design": {"kind": "voice_design", "seed": 3},
    "base": {"kind": "base", "seed": 4},
    "ending": {"kind": "custom_voice", "seed": 5, "ending": 5.0},
    "hasty": {"kind": "custom_voice", "seed": 6, "ending": 60.0},
    "heads": {"kind": "custom_voice", "seed": 10, "published_heads": True},
    # What folders differ in: shards, the type of the tensors, and who wrote the config.
    "sharded": {"kind": "custom_voice", "seed": 7, "shard_bytes": 1_000_000},
    "narrow": {"kind": "custom_voice", "seed": 8, "dtype": "bfloat16"},
    "half": {"kind": "custom_voice", "seed": 9, "dtype": "float16"},
    "newer": {"kind": "custom_voice", "seed": 1, "transformers_version": "4.57.3"},
    "unnamed": {"kind": "custom_voice", "seed": 1, "transformers_version": None},
}

# Sample rates of recordings, in Hz; 24 kHz is the codec's own.
RATES: Final = (8_000, 16_000, 22_050, 44_100, 48_000)

# What is published: size and kind.
PUBLISHED: Final[dict[str, tuple[Any, Any]]] = {
    "0.6B-CustomVoice": ("0.6b", "custom_voice"),
    "0.6B-Base": ("0.6b", "base"),
    "1.7B-CustomVoice": ("1.7b", "custom_voice"),
    "1.7B-VoiceDesign": ("1.7b", "voice_design"),
    "1.7B-Base": ("1.7b", "base"),
}

SHORT: Final = "Hello world."
LONG: Final = "It's the end of the world, and you're singing to the user: how odd! 你好，世界。"
GREEDY: Final = {"do_sample": False, "subtalker_dosample": False}


@dataclass(frozen=True)
class Case:
    """One call of the official package.

    clone: None, or the mode of cloning, "x-vector" or "in-context"; seed: of sampled runs.
    """

    name: str
    checkpoint: str
    texts: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    speakers: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    streaming: bool = False
    clone: str | None = None
    reference_text: str = "the user is odd"
    reference_frames: int = 9
    seed: int = 0


def _custom(name: str, text: str = SHORT, speaker: str = "Vivian", **more: Any) -> Case:
    options = GREEDY | {"max_new_tokens": 20} | more.pop("options", {})
    language = more.pop("language", "English")
    instruction = more.pop("instruction", None)
    return Case(
        name,
        more.pop("checkpoint", "custom"),
        (text,),
        options,
        speakers=(speaker,),
        languages=(language,),
        instructions=(instruction,) if instruction is not None else (),
        **more,
    )


def _clone(name: str, mode: str, text: str = SHORT, **more: Any) -> Case:
    options = GREEDY | {"max_new_tokens": 16} | more.pop("options", {})
    language = (more.pop("language", "Auto"),)
    return Case(name, "base", (text,), options, languages=language, clone=mode, **more)


_SAMPLED: Final = {"do_sample": True, "subtalker_dosample": True}
_WILD: Final = {
    "temperature": 1.3,
    "top_k": 40,
    "top_p": 0.8,
    "repetition_penalty": 1.4,
    "subtalker_temperature": 0.7,
    "subtalker_top_k": 0,
    "subtalker_top_p": 0.9,
}

CASES: Final = (
    _custom("whole text", LONG),
    _custom("streamed text", LONG, streaming=True, options={"max_new_tokens": 60}),
    _custom("streamed text, shorter than its speech", streaming=True),
    _custom("language auto", language="Auto", speaker="Ryan"),
    _custom("language auto, streamed", language="Auto", speaker="Serena", streaming=True),
    _custom("dialect speaker, auto", language="Auto", speaker="Eric"),
    _custom("dialect speaker, chinese", language="Chinese", speaker="Dylan", streaming=True),
    _custom("dialect speaker, english", language="English", speaker="Eric"),
    _custom("plain speaker, chinese", language="Chinese", speaker="Vivian"),
    _custom("instruction", instruction="Be odd."),
    _custom("instruction, streamed", LONG, instruction="Sing to the user.", streaming=True),
    _custom("text begins with line ends", "\n\nHello", streaming=True),
    _custom("no penalty", options={"repetition_penalty": 1.0, "max_new_tokens": 40}),
    _custom("harsh penalty", options={"repetition_penalty": 3.0, "max_new_tokens": 40}),
    _custom("sampled", LONG, options=_SAMPLED, seed=11),
    _custom("sampled, streamed", LONG, options=_SAMPLED | {"max_new_tokens": 40}, seed=12),
    _custom("sampled wildly", options=_SAMPLED | _WILD | {"max_new_tokens": 30}, seed=13),
    _custom("only the talker sampled", options={"do_sample": True}, seed=14),
    _custom("only the predictor sampled", options={"subtalker_dosample": True}, seed=15),
    _custom("small talker ignores instructions", checkpoint="small", instruction="Be odd."),
    _custom("small talker, streamed", LONG, checkpoint="small", streaming=True),
    _custom("ends by itself", checkpoint="ending", options={"max_new_tokens": 120}),
    _custom(
        "ends by itself, sampled",
        LONG,
        checkpoint="ending",
        options=_SAMPLED | {"max_new_tokens": 120},
        seed=16,
    ),
    _custom("never ends before its third frame", checkpoint="hasty"),
    _custom("published head counts", checkpoint="heads", streaming=True),
    _custom("sampled at published head counts", checkpoint="heads", options=_SAMPLED, seed=18),
    _custom("in shards", LONG, checkpoint="sharded"),
    _custom("in bfloat16", LONG, checkpoint="narrow"),
    _custom("in float16", LONG, checkpoint="half", streaming=True),
    _custom("config of a newer package", checkpoint="newer"),
    _custom("config of no package", checkpoint="unnamed", streaming=True),
    _custom("speaker in capitals", speaker="VIVIAN"),
    _custom("windows line ends and tabs", "Hello\r\nworld.\tHow odd!\r\n", streaming=True),
    _custom("leading spaces and markup", "  Hello <b>world</b> soft\u00adhyphen."),
    _custom("fewest frames", options={"max_new_tokens": 2}),
    Case(
        "a batch",
        "ending",
        (SHORT, LONG, "Is it odd?"),
        GREEDY | {"max_new_tokens": 40},
        speakers=("Vivian", "Eric", "Aiden"),
        languages=("English", "Auto", "German"),
        instructions=("", "Be odd.", ""),
    ),
    Case(
        "designed voice",
        "design",
        (LONG,),
        GREEDY | {"max_new_tokens": 20},
        languages=("English",),
        instructions=("An odd voice of the world.",),
    ),
    Case(
        "designed voice, nothing said of it, streamed",
        "design",
        (LONG,),
        GREEDY | {"max_new_tokens": 20},
        languages=("Auto",),
        instructions=("",),
        streaming=True,
    ),
    _clone("x-vector", "x-vector", streaming=True),
    _clone("x-vector, whole text", "x-vector", LONG, language="French"),
    _clone("in context, text outlasts the reference", "in-context", LONG, streaming=True),
    _clone(
        "in context, reference outlasts the text",
        "in-context",
        "Hello",
        streaming=True,
        reference_frames=40,
    ),
    _clone("in context, whole text", "in-context", LONG, language="English"),
    _clone("in context, sampled", "in-context", LONG, streaming=True, options=_SAMPLED, seed=17),
)

TEXTS: Final = (
    "JetStream and OpenAI, McDonald's iPhone",
    "one\r\ntwo\ttabs\r\n\r\n",
    "<b>bold</b> and soft\u00adhyphen, \u00a0non-breaking",
    "...!?",
    "Hello the world, it's fine. 你好",
    "They're he'LL 'tis I'd've",
    "  leading and trailing  ",
    "line\nends \n\n  \r\nand\ttabs \n",
    "digits 12345 and 3.14, (parens)... !?\n!",
    "e\u0301 composed, \u1100\u1161\u11a8 jamo, A\u030a, b\u0301\u0323",
    "iPhone CamelCase ABCdef",
    "emoji 👩‍🚀👍🏽 and \u200d joiners",
    "\n\nbegins with line ends",
    " \n begins with a blank line",
)

# Of the comparison of speed.
SPEED_FRAMES: Final = 40
SPEED_TEXTS: Final = tuple(f"{LONG} {number}" for number in range(8))

# Adapters, as arguments of PEFT's LoraConfig, and what is said with each.
ADAPTED: Final = next(case for case in CASES if case.name == "whole text")
_ATTENTION: Final = ["q_proj", "k_proj", "v_proj", "o_proj"]
_MLP: Final = ["gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class AdapterCase:
    """root: the part of the model that training had in hand."""

    name: str
    config: dict[str, Any]
    root: str = ""
    seed: int = 0


ADAPTERS: Final = (
    AdapterCase("attention", {"r": 4, "lora_alpha": 2, "target_modules": _ATTENTION}),
    AdapterCase(
        "rank-stabilised",
        {
            "r": 4,
            "lora_alpha": 1,
            "use_rslora": True,
            "target_modules": r"talker\.model\..*(q_proj|down_proj)",
        },
        seed=1,
    ),
    AdapterCase(
        "talker alone, with patterns",
        {
            "r": 2,
            "lora_alpha": 1,
            "target_modules": [*_ATTENTION, *_MLP, "codec_head", "linear_fc1"],
            "rank_pattern": {"q_proj": 6, "layers.1.mlp.up_proj": 3},
            "alpha_pattern": {"down_proj": 2},
        },
        root="talker",
        seed=2,
    ),
    AdapterCase(
        "code predictor",
        {"r": 3, "lora_alpha": 2, "target_modules": r".*code_predictor\.model\..*_proj"},
        seed=3,
    ),
)

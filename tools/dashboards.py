"""Write the chart's Grafana dashboards from the tables below: python -m tools.dashboards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "helm/antiphon/dashboards"
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_HEIGHT: Final = 8

# What the variables at the top of a dashboard choose.
_NAMESPACE: Final = 'namespace=~"$namespace"'
_MODEL: Final = f'{_NAMESPACE}, model=~"$model"'
_LISTENER: Final = f'{_MODEL}, tenant=~"$tenant"'
_IN_TIME: Final = f'viable="true", {_LISTENER}'
# A request that is refused late counts among the refused.
_SERVED: Final = 'outcome!="refused"'
_ADMITTED: Final = f'stage="gateway", {_MODEL}'
_GATEWAY: Final = f'stage="gateway", {_LISTENER}'
_STAGE: Final = f'stage=~"$stage", {_MODEL}'
_GRAPHS: Final = f'path="graph", {_STAGE}'
_USED: Final = f'state="used", {_MODEL}'
_LIMIT: Final = f'state="limit", {_MODEL}'
_PORTIONS: Final = f'outcome=~"made|gave_way|failed", {_MODEL}'
_BAD_ENDS: Final = f'outcome=~"detached|error|runaway", {_MODEL}'


@dataclass(frozen=True)
class Panel:
    """One graph: `queries` by legend (Grafana's {{label}} syntax)."""

    title: str
    unit: str
    queries: dict[str, str]
    columns: int = 8
    stacked: bool = False
    help: str = ""


@dataclass(frozen=True)
class Dashboard:
    """A page. `variables`: label values by name, all chosen at first."""

    uid: str
    title: str
    variables: dict[str, str]
    panels: tuple[Panel, ...]


def _quantiles(metric: str, selector: str, by: str, *quantiles: float) -> dict[str, str]:
    """Several quantiles of a histogram, by a label."""
    legend = "{{" + by + "}} "
    return {
        f"{legend}p{100 * q:g}": (
            f"histogram_quantile({q}, sum by ({by}, le) "
            f"(rate({metric}_bucket{{{selector}}}[$__rate_interval])))"
        )
        for q in quantiles
    }


def _rate(metric: str, selector: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


LISTENERS: Final = Dashboard(
    "antiphon-listeners",
    "Antiphon: what listeners hear",
    {"namespace": "tts_bus_up", "model": "tts_active_streams", "tenant": "tts_active_streams"},
    (
        Panel(
            "Time to first sound",
            "s",
            _quantiles("tts_ttfp_seconds", _GATEWAY, "model", 0.5, 0.95, 0.99),
            help="From the accepted request to the first audio handed to the client.",
        ),
        Panel(
            "Listeners",
            "short",
            {"{{model}}": f"sum by (model) (tts_active_streams{{{_GATEWAY}}})"},
            stacked=True,
        ),
        Panel(
            "Viability",
            "percentunit",
            {
                "{{model}} chunks in time": (
                    f"{_rate('tts_stream_chunks_total', _IN_TIME, 'model')} / "
                    f"{_rate('tts_stream_chunks_total', _LISTENER, 'model')}"
                ),
                "{{model}} streams without a gap": (
                    f"{_rate('tts_streams_total', f'{_SERVED}, {_IN_TIME}', 'model')} / "
                    f"{_rate('tts_streams_total', f'{_SERVED}, {_LISTENER}', 'model')}"
                ),
            },
            help="A chunk is in time if it came before the listener ran dry.",
        ),
        Panel(
            "Silence heard, per second of wall time",
            "s",
            {"{{model}}": _rate("tts_underrun_seconds_total", _LISTENER, "model")},
        ),
        Panel(
            "Requests by outcome",
            "reqps",
            {"{{outcome}}": _rate("tts_streams_total", _LISTENER, "outcome")},
            stacked=True,
        ),
        Panel(
            "Refusals by reason",
            "reqps",
            {"{{reason}}": _rate("tts_refused_total", _LISTENER, "reason")},
            stacked=True,
        ),
        Panel(
            "Time to first sound by tenant (p95)",
            "s",
            _quantiles("tts_ttfp_seconds", _GATEWAY, "tenant", 0.95),
            12,
        ),
        Panel(
            "Refusals by tenant",
            "reqps",
            {"{{tenant}}": _rate("tts_refused_total", _LISTENER, "tenant")},
            12,
        ),
        Panel(
            "Streams of jobs, behind listeners",
            "short",
            {"{{model}}": f"sum by (model) (tts_offline_streams{{{_MODEL}}})"},
            stacked=True,
            help="What no listener hears as it is made. Not among the listeners above.",
        ),
        Panel(
            "Portions of jobs by what became of them",
            "short",
            {
                "{{outcome}}": (
                    "sum by (outcome) "
                    f"(increase(tts_book_portions_total{{{_PORTIONS}}}[$__rate_interval]))"
                )
            },
            stacked=True,
            help="made: stored. gave_way: its slot went to a listener, and it is spoken again.",
        ),
        Panel(
            "Jobs: held by gateways, and ended",
            "short",
            {
                "held": f"sum(tts_books_held{{{_NAMESPACE}}})",
                "{{state}}": (
                    f"sum by (state) (increase(tts_books_total{{{_NAMESPACE}}}[$__rate_interval]))"
                ),
            },
        ),
        Panel(
            "Characters in a day, by tenant",
            "short",
            {"{{tenant}}": f"sum by (tenant) (increase(tts_characters_total{{{_LISTENER}}}[1d]))"},
            help="With those of jobs. GET /v1/usage has exact sums.",
        ),
        Panel(
            "Sound in a day, by tenant",
            "s",
            {
                "{{tenant}}": (
                    f"sum by (tenant) (increase(tts_audio_seconds_total{{{_LISTENER}}}[1d]))"
                ),
                "{{tenant}}, jobs": (
                    f"sum by (tenant) (increase(tts_book_audio_seconds_total{{{_LISTENER}}}[1d]))"
                ),
            },
        ),
        Panel(
            "Requests in a day, by tenant",
            "short",
            {"{{tenant}}": f"sum by (tenant) (increase(tts_streams_total{{{_LISTENER}}}[1d]))"},
        ),
        Panel(
            "Admission: its limit, and the streams within it",
            "short",
            {
                "{{model}} limit": f"max by (model) (tts_stream_limit{{{_MODEL}}})",
                "{{model}} open": f"sum by (model) (tts_active_streams{{{_ADMITTED}}})",
                "{{model}} without a sound": f"max by (model) (tts_silent_streams{{{_MODEL}}})",
            },
            12,
            help="The limit rises while it is used up and all listeners have enough left.",
        ),
        Panel(
            "Least playback that a listener has left",
            "s",
            {
                "{{model}}": f"min by (model) (tts_least_slack_seconds{{{_MODEL}}})",
                "{{model}} headroom": f"max by (model) (tts_headroom_seconds{{{_MODEL}}})",
            },
            12,
            help="Under 0.4 s the limit falls; under 0.15 s a stream without a sound is given up.",
        ),
    ),
)

STAGES: Final = Dashboard(
    "antiphon-stages",
    "Antiphon: stages",
    {"namespace": "tts_bus_up", "model": "tts_slots", "stage": "tts_slots"},
    (
        Panel(
            "Busy slots",
            "percentunit",
            {
                "{{model}} {{stage}}": (
                    f"sum by (model, stage) (tts_active_streams{{{_STAGE}}}) / "
                    f"sum by (model, stage) (tts_slots{{{_STAGE}}})"
                )
            },
        ),
        Panel(
            "Demand: streams, waiting and refused, over what workers keep up with",
            "percentunit",
            {"{{model}} {{stage}}": f"antiphon_demand_ratio{{{_STAGE}}}"},
            help="What autoscaling follows. 100 %: full.",
        ),
        Panel(
            "Jobs that wait for a slot",
            "short",
            {"{{model}} {{stage}}": (f"max by (model, stage) (tts_queue_jobs{{{_STAGE}}})")},
        ),
        Panel(
            "Parked streams, which hold no slot",
            "short",
            {"{{model}} {{stage}}": f"sum by (model, stage) (tts_parked_streams{{{_STAGE}}})"},
        ),
        Panel(
            "Wait in the queue",
            "s",
            _quantiles("tts_queue_wait_seconds", _STAGE, "stage", 0.5, 0.99),
        ),
        Panel(
            "Step time",
            "s",
            _quantiles("tts_stage_duration_seconds", _STAGE, "stage", 0.5, 0.99),
        ),
        Panel(
            "Step time by worker",
            "s",
            {
                "{{stage}} {{instance}}": (
                    f"{_rate('tts_stage_duration_seconds_sum', _STAGE, 'stage, instance')} / "
                    f"{_rate('tts_stage_duration_seconds_count', _STAGE, 'stage, instance')}"
                )
            },
            help="The mean. One worker above the others is slow, or has the larger batches.",
        ),
        Panel(
            "Streams in a step",
            "short",
            {
                "{{stage}}": (
                    f"{_rate('tts_batch_size_sum', _STAGE, 'stage')} / "
                    f"{_rate('tts_batch_size_count', _STAGE, 'stage')}"
                )
            },
        ),
        Panel(
            "Steps per second",
            "ops",
            {"{{stage}}": _rate("tts_batch_size_count", _STAGE, "stage")},
        ),
        Panel(
            "KV blocks",
            "short",
            {"{{state}}": f"sum by (state) (tts_kv_blocks{{{_MODEL}}})"},
            stacked=True,
        ),
        Panel(
            "Positions computed",
            "ops",
            {"{{kind}}": _rate("tts_positions_total", _MODEL, "kind")},
            stacked=True,
            help="Positions of prompts and of steps. Takeovers and evictions add prompts.",
        ),
        Panel(
            "Positions found instead of computed",
            "ops",
            {"{{model}}": _rate("tts_shared_positions_total", _MODEL, "model")},
            help="Of prompts that begin as earlier ones did: cloned voices, long instructions.",
        ),
        Panel(
            "Graph hit rate",
            "percentunit",
            {
                "{{stage}}": (
                    f"{_rate('tts_launches_total', _GRAPHS, 'stage')} / "
                    f"{_rate('tts_launches_total', _STAGE, 'stage')}"
                )
            },
            help="Launches that replay a recorded graph. 0 on a CPU, which records none.",
        ),
        Panel(
            "Streams that gave their KV blocks away",
            "short",
            {
                "{{model}}": (
                    f"sum by (model) (increase(tts_evictions_total{{{_MODEL}}}[$__rate_interval]))"
                )
            },
            help="If it grows under usual load, the KV cache is too small for the slots.",
        ),
        Panel(
            "Memory for what a codec's streams carry",
            "percentunit",
            {
                "{{model}} {{instance}}": (
                    f"sum by (model, instance) (tts_codec_state_bytes{{{_USED}}}) / "
                    f"sum by (model, instance) (tts_codec_state_bytes{{{_LIMIT}}})"
                )
            },
            help="Of ANTIPHON_STATE_MB, by vocoder; of codecs whose state grows with each stream.",
        ),
        Panel(
            "Stretches computed again, for want of that memory",
            "short",
            {
                "{{model}}": (
                    "sum by (model) "
                    f"(increase(tts_codec_recomputations_total{{{_MODEL}}}[$__rate_interval]))"
                )
            },
            help="They sound the same and take longer: raise ANTIPHON_STATE_MB, or add vocoders.",
        ),
        Panel(
            "Runaways by what came of them",
            "short",
            {
                "{{sign}} {{came}}": (
                    "sum by (sign, came) "
                    f"(increase(tts_runaways_total{{{_MODEL}}}[$__rate_interval]))"
                )
            },
            help="Utterances that lost their text: drawn again unheard, or left where they were.",
        ),
        Panel(
            "Playback in hand when a chunk is sent",
            "s",
            _quantiles("tts_playback_slack_seconds", _MODEL, "stage", 0.01, 0.5),
            help="The smallest hundredth is what the schedulers work for: it should stay above 0.",
        ),
        Panel(
            "Job to first chunk",
            "s",
            _quantiles("tts_ttfp_seconds", _STAGE, "stage", 0.5, 0.95),
        ),
        Panel(
            "Frames that a step gains a stream",
            "short",
            {
                "{{model}}, tries {{width}}": (
                    f"{_rate('tts_accepted_frames_sum', _MODEL, 'model, width')} / "
                    f"{_rate('tts_accepted_frames_count', _MODEL, 'model, width')}"
                )
            },
            12,
            help="Steps that draft frames: accepted drafts and one more. 1 without drafts.",
        ),
        Panel(
            "Streams' steps by the frames that they try",
            "ops",
            {
                "{{model}}, tries {{width}}": _rate(
                    "tts_accepted_frames_count", _MODEL, "model, width"
                )
            },
            12,
            stacked=True,
            help="Talkers choose the width that is fastest at the batch they have.",
        ),
    ),
)

RECOVERY: Final = Dashboard(
    "antiphon-recovery",
    "Antiphon: recovery",
    {"namespace": "tts_bus_up", "model": "tts_slots"},
    (
        Panel(
            "Takeovers",
            "short",
            {
                "{{stage}}": (
                    f"sum by (stage) (increase(tts_recoveries_total{{{_MODEL}}}[$__rate_interval]))"
                )
            },
        ),
        Panel(
            "Gaps: silence heard, per second of wall time",
            "s",
            {"{{model}}": _rate("tts_underrun_seconds_total", _MODEL, "model")},
        ),
        Panel("Leases", "short", {"held": f"max(tts_leases{{{_NAMESPACE}}})"}),
        Panel(
            "Processes connected to the broker",
            "short",
            {"{{service}}": f"sum by (service) (tts_bus_up{{{_NAMESPACE}}})"},
        ),
        Panel(
            "Processes up",
            "short",
            {"{{service}}": f'sum by (service) (up{{service!="", {_NAMESPACE}}})'},
        ),
        Panel(
            "Cancel to slot free",
            "s",
            _quantiles("tts_cancel_latency_seconds", _MODEL, "stage", 0.5, 0.99),
        ),
        Panel(
            "Requests detached, failed or cut short",
            "reqps",
            {"{{outcome}}": _rate("tts_streams_total", _BAD_ENDS, "outcome")},
            12,
        ),
        Panel(
            "The broker's disk",
            "percentunit",
            {
                "{{instance}} streams": (
                    f'max by (instance) (tts_broker_storage_bytes{{state="used", {_NAMESPACE}}}) / '
                    f'max by (instance) (tts_broker_storage_bytes{{state="limit", {_NAMESPACE}}})'
                ),
                "{{instance}} volume": (
                    "1 - "
                    f'max by (instance) (tts_broker_disk_bytes{{state="free", {_NAMESPACE}}}) / '
                    f'max by (instance) (tts_broker_disk_bytes{{state="size", {_NAMESPACE}}})'
                ),
            },
            12,
        ),
        Panel(
            "Streams of the broker, of what they may hold",
            "percentunit",
            {
                "{{stream}}": (
                    f'max by (stream) (tts_broker_stream_bytes{{state="used", {_NAMESPACE}}}) / '
                    f'max by (stream) (tts_broker_stream_bytes{{state="limit", {_NAMESPACE}}})'
                )
            },
            12,
        ),
        Panel(
            "Slots that are alive",
            "short",
            {"{{stage}}": f"sum by (stage) (tts_slots{{{_MODEL}}})"},
            12,
        ),
    ),
)

DASHBOARDS: Final = (LISTENERS, STAGES, RECOVERY)


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard in Grafana's own format."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["antiphon"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                *(_variable(name, metric) for name, metric in dashboard.variables.items()),
            ]
        },
        "panels": _placed(dashboard.panels),
    }


def _variable(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": f"label_values({metric}, {name})",
        "includeAll": True,
        "multi": True,
        # The anonymous tenant is the empty label, which `.+` would leave out.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _placed(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Panels from left to right, row by row."""
    placed, x, y = [], 0, 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.columns > _WIDTH:
            x, y = 0, y + _HEIGHT
        position = {"x": x, "y": y, "w": panel.columns, "h": _HEIGHT}
        placed.append(_panel(number, panel, position))
        x += panel.columns
    return placed


def _panel(number: int, panel: Panel, position: dict[str, int]) -> dict[str, Any]:
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _DATASOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend,
             "exemplar": "tts_ttfp" in query}
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }  # fmt: skip


def main() -> None:
    """Write every dashboard."""
    FOLDER.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        path = FOLDER / f"{dashboard.uid.removeprefix('antiphon-')}.json"
        path.write_text(json.dumps(grafana(dashboard), indent=1) + "\n")
        print(path.relative_to(FOLDER.parents[2]))


if __name__ == "__main__":
    main()

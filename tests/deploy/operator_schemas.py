"""What the Prometheus operator takes of ServiceMonitor and PrometheusRule, as far as the chart uses it: strict, so that a misspelt field shows."""

from __future__ import annotations

from typing import Any, Final

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION: Final = {
    "type": "string",
    "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
}


def _strict(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return _strict(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "monitoring.coreos.com/v1"},
        kind={"const": kind},
        metadata=_strict(
            ["name", "namespace", "labels"], name={"type": "string"}, namespace={"type": "string"}, labels=_TEXTS
        ),
        spec=spec,
    )


_SECRET_KEY: Final = _strict(["name", "key"], name={"type": "string"}, key={"type": "string"})
_ENDPOINT: Final = _strict(
    ["port", "authorization"],
    port={"type": "string"},
    path={"type": "string", "pattern": "^/"},
    interval=_DURATION,
    scrapeTimeout=_DURATION,
    authorization=_strict(["credentials"], type={"enum": ["Bearer"]}, credentials=_SECRET_KEY),
)
_RULE: Final = {
    **_strict(
        ["expr"],
        alert={"type": "string"},
        record={"type": "string"},
        expr={"type": "string", "minLength": 1},
        labels=_TEXTS,
        annotations=_TEXTS,
        **{"for": _DURATION, "keep_firing_for": _DURATION},
    ),
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
}
_GROUP: Final = _strict(
    ["name", "rules"],
    name={"type": "string", "minLength": 1},
    interval=_DURATION,
    rules={"type": "array", "minItems": 1, "items": _RULE},
)

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "ServiceMonitor": _object(
        "ServiceMonitor",
        _strict(
            ["selector", "endpoints"],
            selector=_strict(["matchLabels"], matchLabels=_TEXTS),
            namespaceSelector=_strict(["matchNames"], matchNames={"type": "array", "items": {"type": "string"}}),
            endpoints={"type": "array", "minItems": 1, "items": _ENDPOINT},
        ),
    ),
    "PrometheusRule": _object(
        "PrometheusRule", _strict(["groups"], groups={"type": "array", "minItems": 1, "items": _GROUP})
    ),
}

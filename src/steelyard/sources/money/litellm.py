"""One row of a LiteLLM gateway's spend log (``LiteLLM_SpendLogs``, or the standard logging payload) as what it says of a service's use.

The tricks to know: the log names an address (``api_base``), and only a cluster-internal one names a service; and where a key has no alias the log
holds its hash, but should it ever hold the key itself, that must not be kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import INSTANT_MAX, SECOND_US, Instant, parse_instant

TOKENS_MAX: Final = 10**15
_TEXT_MAX: Final = 253
_METADATA_MAX: Final = 256 << 10
_ADDRESS: Final = re.compile(r"[a-z]{2,8}://([a-z0-9-]{1,63})\.([a-z0-9-]{1,63})\.svc(?:[.:/]|\Z)", re.ASCII)
_SECRET: Final = re.compile(r"sk-")
_NAIVE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class LiteLlmRow:
    """A request. ``service``: ``<namespace>/<name>``, None where ``address`` names none. ``zone_assumed``: its times bore no zone."""

    request_id: str
    service: str | None
    address: str
    model: str | None
    caller: str | None
    tenant: str | None
    started_at: Instant
    ended_at: Instant
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    from_cache: bool
    zone_assumed: bool


def litellm_row(item: Mapping[str, Any], line: int) -> LiteLlmRow:
    """The row. Raises SourceMalformed where it has no id, no times, or counts that are none."""
    request_id = _text(item.get("request_id") or item.get("id"))
    excerpt = str(request_id)[:100]
    if request_id is None:
        raise SourceMalformed("request_id: expected the request's id", line, excerpt)
    started_at, start_assumed = _instant(item, "startTime", line, excerpt)
    ended_at, end_assumed = _instant(item, "endTime", line, excerpt)
    if ended_at < started_at:
        raise SourceMalformed("endTime is before startTime", line, excerpt)
    metadata = _metadata(item.get("metadata"))
    address = str(item.get("api_base") or "")[:500]
    prompt, completion = (
        _count(item.get(name), name, line, excerpt) for name in ("prompt_tokens", "completion_tokens")
    )
    cached = _cached(metadata, line, excerpt)
    if cached is not None and prompt is not None and cached > prompt:
        raise SourceMalformed("cached tokens are part of prompt_tokens and cannot be more", line, excerpt)
    return LiteLlmRow(
        request_id=request_id,
        service=_service(address),
        address=address,
        model=_text(item.get("model_group") or item.get("model")),
        caller=_text(metadata.get("user_api_key_alias"))
        or _key(item.get("api_key") or metadata.get("user_api_key_hash")),
        tenant=_text(
            metadata.get("user_api_key_team_alias") or item.get("team_id") or metadata.get("user_api_key_team_id")
        ),
        started_at=started_at,
        ended_at=ended_at,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        from_cache=str(item.get("cache_hit")).lower() == "true",
        zone_assumed=start_assumed or end_assumed,
    )


def _service(address: str) -> str | None:
    match = _ADDRESS.match(address.lower())
    return None if match is None else f"{match.group(2)}/{match.group(1)}"


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return "".join(character if character.isprintable() else "\ufffd" for character in value.strip()[:_TEXT_MAX])


def _key(value: Any) -> str | None:
    """The key's hash as the log holds it; of a key in the clear a short hash, so that no secret is stored."""
    text = _text(value)
    if text is not None and _SECRET.match(text):
        return f"key {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return text


def _metadata(value: Any) -> Mapping[str, Any]:
    """The row's metadata; a log that was exported from its table holds it as JSON text."""
    if isinstance(value, str) and len(value) <= _METADATA_MAX:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _cached(metadata: Mapping[str, Any], line: int, excerpt: str) -> int | None:
    usage = metadata.get("usage_object")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    if isinstance(details, dict):
        return _count(details.get("cached_tokens"), "cached_tokens", line, excerpt)
    more = metadata.get("additional_usage_values")
    return (
        _count(more.get("cache_read_input_tokens"), "cached_tokens", line, excerpt) if isinstance(more, dict) else None
    )


def _count(value: Any, name: str, line: int, excerpt: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOKENS_MAX:
        raise SourceMalformed(f"{name}: expected a whole number up to {TOKENS_MAX}", line, excerpt)
    return value


def _instant(item: Mapping[str, Any], name: str, line: int, excerpt: str) -> tuple[Instant, bool]:
    """A time, as text or as seconds since 1970, and whether it had to be taken as UTC."""
    value = item.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < INSTANT_MAX // SECOND_US:
        return round(value * SECOND_US), False
    if isinstance(value, str):
        naive = _NAIVE.match(value.strip()) is not None
        try:
            return parse_instant(f"{value.strip()}Z" if naive else value), naive
        except ValueError as error:
            raise SourceMalformed(f"{name}: {error}", line, excerpt) from None
    raise SourceMalformed(f"{name}: expected a time, found none", line, excerpt)

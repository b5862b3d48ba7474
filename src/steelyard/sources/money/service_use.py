"""What callers took of a shared model service: a list that a site makes itself (CSV, JSON lines), and the spend log of a LiteLLM gateway.

Called by the importer. The tricks to know: each row stands for itself, so one that cannot be read costs itself alone; a gateway's log becomes a
fact per request under the request's own id, so that logs which overlap count nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.service_use import ServiceUse
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.money import amounts
from steelyard.sources.money.entries import TEXT_MAX
from steelyard.sources.money.litellm import LiteLlmRow, litellm_row
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvTable, malformed

SOURCE: Final = "service_use"
TOKENS_MAX: Final = 10**15
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "service": ("service",),
    "model": ("model", "model_name"),
    "caller": ("caller", "api_key_name", "key_alias", "user"),
    "tenant": ("tenant", "team"),
    "started_at": ("started_at", "start", "from"),
    "ended_at": ("ended_at", "end", "to"),
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "cached_tokens": ("cached_tokens", "cached_prompt_tokens", "cache_read_input_tokens"),
    "completion_tokens": ("completion_tokens", "output_tokens"),
    "requests_count": ("requests_count", "requests"),
}
_COUNTS: Final = ("prompt_tokens", "cached_tokens", "completion_tokens", "requests_count")
_SERVICE: Final = re.compile(r"[^\s/]{1,253}/[^\s/]{1,253}\Z")
_EXCERPT: Final = 200


def is_service_use_header(names: Iterable[str]) -> bool:
    """Whether a CSV's header is that of a list of service use."""
    written = {name.strip().lower() for name in names}
    tokens = {*_ALIASES["prompt_tokens"], *_ALIASES["completion_tokens"]}
    return "service" in written and bool(written & {"started_at", "start"}) and bool(written & tokens)


def is_service_log(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a row of service use or of a LiteLLM gateway's spend log."""
    own = {"service", "started_at"} <= document.keys() and bool(
        {"prompt_tokens", "completion_tokens"} & document.keys()
    )
    spend = {"startTime", "prompt_tokens", "completion_tokens"} <= document.keys()
    return own or (spend and bool({"api_key", "call_type", "request_id"} & document.keys()))


def read_service_use(text: str, ctx: ReadContext) -> Iterator[Fact]:
    """A fact per row of a CSV; columns by header, in any order, further ones are passed over. Rows that cannot be read are findings."""
    table = CsvTable(text, ctx, SOURCE)
    names = {name.strip().lower(): name for name in reversed(table.columns)}
    columns = {
        meaning: next((names[each] for each in aliases if each in names), None) for meaning, aliases in _ALIASES.items()
    }
    missing = [name for name in ("service", "started_at", "ended_at") if columns[name] is None]
    if missing:
        yield ctx.finding(
            SOURCE,
            "service_use_columns_missing",
            f"file {ctx.file}",
            f"expected the columns {', '.join(missing)}; nothing was taken from it",
            severity="error",
            evidence={"missing": missing, "found": list(table.columns)[:50]},
        )
        return
    seen: set[str] = set()
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        cells = {meaning: row.get(column) for meaning, column in columns.items() if column is not None}
        try:
            yield _use(cells, row.line, row.text, ctx, seen)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)


def read_service_log(documents: Iterable[tuple[int, Any]], ctx: ReadContext) -> Iterator[Fact]:
    """A fact per JSON object: rows in the CSV's own names, or of a LiteLLM spend log; arrays of either too.

    Rows of requests that the gateway answered from its own cache used no service and are counted in a finding; so are rows whose ``api_base``
    names no service of a cluster.
    """
    tally = _Tally()
    seen: set[str] = set()
    for line, document in documents:
        if isinstance(document, SourceMalformed):
            yield malformed(ctx, SOURCE, document)
            continue
        for item in document if isinstance(document, list) else (document,):
            try:
                use = _of_item(item, line, ctx, seen, tally)
            except SourceMalformed as error:
                yield malformed(ctx, SOURCE, error)
            else:
                if use is not None:
                    yield use
    yield from tally.findings(ctx)


@dataclass(slots=True)
class _Tally:
    """Rows that are no facts, and why; the services' addresses that were not understood."""

    cached_count: int = 0
    zoneless_count: int = 0
    placeless_count: int = 0
    places: set[str] = field(default_factory=set)

    def findings(self, ctx: ReadContext) -> Iterator[Finding]:
        subject = f"file {ctx.file}"
        if self.cached_count:
            text = f"{self.cached_count} requests were answered from the gateway's cache: they used no service"
            yield ctx.finding(
                SOURCE, "answered_from_cache", subject, text, severity="info", evidence={"count": self.cached_count}
            )
        if self.zoneless_count:
            text = f"{self.zoneless_count} rows have times without a zone: read as UTC, which the gateway's table holds"
            yield ctx.finding(
                SOURCE, "zone_assumed", subject, text, severity="info", evidence={"count": self.zoneless_count}
            )
        if self.placeless_count:
            text = (
                f"{self.placeless_count} requests went to an address that names no service of a cluster (<service>.<namespace>.svc): "
                "whose they are is known, which service they used is not"
            )
            evidence = {"count": self.placeless_count, "addresses": sorted(self.places)[:10]}
            yield ctx.finding(SOURCE, "service_unknown", subject, text, evidence=evidence)


def _of_item(item: Any, line: int, ctx: ReadContext, seen: set[str], tally: _Tally) -> ServiceUse | None:
    if not isinstance(item, dict):
        raise SourceMalformed("expected a JSON object", line, repr(item)[:_EXCERPT])
    if "startTime" not in item:
        cells = {meaning: _cell(item.get(meaning)) for meaning in _ALIASES}
        return _use(cells, line, repr(cells)[:_EXCERPT], ctx, seen)
    row = litellm_row(item, line)
    if row.from_cache:
        tally.cached_count += 1
        return None
    tally.zoneless_count += row.zone_assumed
    if row.service is None:
        tally.placeless_count += 1
        if len(tally.places) < 100:
            tally.places.add(row.address[:100])
        return None
    return _of_litellm(row, row.service, ctx)


def _of_litellm(row: LiteLlmRow, service: str, ctx: ReadContext) -> ServiceUse:
    parts = (service, row.caller or "", row.model or "", str(row.started_at), row.request_id)
    return ServiceUse(
        cluster=ctx.cluster,
        source="litellm",
        natural_key="/".join(parts),
        occurred_at=row.started_at,
        observed_at=ctx.observed_at,
        service=service,
        model=row.model,
        caller=row.caller,
        tenant=row.tenant,
        started_at=row.started_at,
        ended_at=row.ended_at,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
        requests_count=1,
    )


def _cell(value: Any) -> str:
    """A JSON value as a cell; what is no text or number is none."""
    if isinstance(value, bool) or value is None:
        return ""
    return (
        str(value).strip() if isinstance(value, str) or (isinstance(value, int) and value.bit_length() <= 64) else "?"
    )


def _use(cells: Mapping[str, str], line: int, text: str, ctx: ReadContext, seen: set[str]) -> ServiceUse:
    service = cells.get("service", "")
    if _SERVICE.match(service) is None:
        raise SourceMalformed("service: expected <namespace>/<workload>", line, text)
    names = {meaning: cells.get(meaning) or None for meaning in ("model", "caller", "tenant")}
    for meaning, name in names.items():
        if name is not None and (len(name) > TEXT_MAX or not name.isprintable()):
            raise SourceMalformed(f"{meaning}: expected text of at most {TEXT_MAX} characters", line, text)
    start, end = (_instant(cells.get(meaning, ""), meaning, line, text) for meaning in ("started_at", "ended_at"))
    if end <= start:
        raise SourceMalformed("ended_at is not after started_at", line, text)
    counts = {meaning: _count(cells.get(meaning, ""), meaning, line, text) for meaning in _COUNTS}
    if counts["prompt_tokens"] is None and counts["completion_tokens"] is None:
        raise SourceMalformed("expected prompt_tokens, completion_tokens or both, found neither", line, text)
    prompt, cached = counts["prompt_tokens"], counts["cached_tokens"]
    if prompt is not None and cached is not None and cached > prompt:
        raise SourceMalformed("cached_tokens are part of prompt_tokens and cannot be more", line, text)
    key = "/".join((service, names["caller"] or "", names["model"] or "", str(start)))
    if key in seen:
        raise SourceMalformed("a second row for this service, caller, model and start", line, text)
    seen.add(key)
    return ServiceUse(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=key,
        occurred_at=start,
        observed_at=ctx.observed_at,
        service=service,
        started_at=start,
        ended_at=end,
        model=names["model"],
        caller=names["caller"],
        tenant=names["tenant"],
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=counts["completion_tokens"],
        requests_count=counts["requests_count"],
    )


def _instant(text: str, meaning: str, line: int, excerpt: str) -> Instant:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise SourceMalformed(f"{meaning}: {error}", line, excerpt) from None


def _count(text: str, meaning: str, line: int, excerpt: str) -> int | None:
    if not text:
        return None
    try:
        count = amounts.whole(text)
    except ValueError as error:
        raise SourceMalformed(f"{meaning}: {error}", line, excerpt) from None
    if count > TOKENS_MAX:
        raise SourceMalformed(f"{meaning}: expected at most {TOKENS_MAX}", line, excerpt)
    return count

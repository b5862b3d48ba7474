"""Which kind of file it is: the one table of kinds, and the order in which their marks are looked for.

Names are not trusted, content is: a JSON document by its fields, text by its first 64 KiB. A kind without a reader is still
recognised, so that its finding says what it is and what to do; only the rest is ``unrecognised_file``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.app.json_documents import RawList
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

HEAD_CHARACTERS: Final = 65_536

JSON: Final = "json"
LINES: Final = "lines"
BINARY: Final = "binary"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file. ``shape``: JSON documents, lines (each within the line limit), or bytes that are no text. ``by_place``: its text names
    cards only by index or address, so it is read after the files that tell which card that is. ``advice``: there is no reader; do this instead."""

    name: str
    shape: str
    by_place: bool = False
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Detected:
    """What a file is: its kind, and for nvidia-smi which of its forms, and how its text begins."""

    kind: Kind
    smi_form: str | None = None
    head: str | None = None

    @property
    def by_place(self) -> bool:
        """Whether it is read after the files that tell which card an index or address means."""
        if self.smi_form is None:
            return self.kind.by_place
        from steelyard.sources.nvidia_smi import needs_directory

        return bool(needs_directory(self.smi_form, self.head))

    @property
    def is_lines(self) -> bool:
        """Whether the line limit holds: XML may stand in one line."""
        return self.kind.shape == LINES and "xml" not in (self.smi_form or "")


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("kubernetes", JSON),
        Kind("pod_resources", JSON, by_place=True),
        Kind("nvidia_smi", LINES),
        Kind("kernel_log", LINES, by_place=True),
        Kind("openb", LINES),
        Kind("openb_nodes", LINES),
        Kind("helios", LINES),
        Kind("inventory", LINES),
        Kind("holdings", LINES),
        Kind("kubernetes_yaml", LINES, advice="export it again with `kubectl get ... -o json`"),
        Kind("audit_log", JSON),
        Kind("metrics_text", LINES),
        Kind("price_book", LINES),
        Kind("tenancy", LINES),
        Kind("exchange_rates", LINES),
        Kind("service_use", LINES),
        Kind("service_log", JSON),
        Kind("bill", LINES),
        Kind("bill_parquet", BINARY),
        Kind("benchmark_result", JSON, advice="benchmark results are not read yet"),
    )
}
"""Every kind that is told apart, by name. ``steelyard import KIND PATH`` takes those that have a reader."""

ALIASES: Final[Mapping[str, str]] = {
    "kubectl": "kubernetes",
    "k8s": "kubernetes",
    "pods": "kubernetes",
    "nodes": "kubernetes",
    "events": "kubernetes",
    "audit": "audit_log",
    "podresources": "pod_resources",
    "nvidia-smi": "nvidia_smi",
    "dmesg": "kernel_log",
    "prometheus": "metrics_text",
    "prices": "price_book",
    "rates": "exchange_rates",
    "focus": "bill",
    "litellm": "service_log",
}

_YAML: Final = re.compile(
    r"\A(?:\ufeff|#[^\n]{0,500}\n|---[^\n]{0,100}\n|\s)*(?:- )?(?:apiVersion|kind|items):\s", re.ASCII
)
_METRICS: Final = re.compile(
    r"^(?:# (?:HELP|TYPE) [a-zA-Z_:]|[a-zA-Z_:][a-zA-Z0-9_:]{0,200}(?:\{[^\n]{0,2000}\})? [+-]?(?:\d|NaN|Inf))",
    re.MULTILINE,
)
_BENCHMARK_KEYS: Final = (
    frozenset({"request_throughput"}), frozenset({"output_throughput"}), frozenset({"successes", "failures"}), frozenset({"load_summary"}),
    frozenset({"benchmarks"}), frozenset({"results", "metadata"}), frozenset({"input_config"}), frozenset({"train_runtime"}),
    frozenset({"num_concurrent_requests"}),
)  # fmt: skip


def readable_kinds() -> str:
    """The names of the kinds that have a reader, to be told."""
    return ", ".join(sorted(each.name for each in KINDS.values() if each.advice is None))


def kind_named(name: str) -> Kind:
    """The kind a person names. Raises UsageError where there is no such kind, or no reader for it."""
    kind = KINDS.get(ALIASES.get(name, name))
    if kind is None:
        raise UsageError(
            _("no such kind: {name}; expected one of {kinds}, or none to detect it").format(
                name=name, kinds=readable_kinds()
            )
        )
    if kind.advice is not None:
        raise UsageError(_("{name} cannot be imported: {advice}").format(name=name, advice=kind.advice))
    return kind


_JSON: Final = re.compile(r"\s*(?:\{|\[(?!\[\s*(?:prices|discounts|weights)\s*\]\]))")
_LOG_STAMP: Final = re.compile(r"\s*\[(?: {0,8}\d{1,10}\.\d{1,9}\]|[A-Z][a-z]{2} |\.{3}\])")


def looks_like_json(head: str) -> bool:
    """Whether the first character opens a JSON object or array. A kernel log opens with ``[ 12.345678]``, ``[Sun Feb 23`` or ``[...]``, a price
    book in TOML with ``[[prices]]``."""
    return _JSON.match(head) is not None and _LOG_STAMP.match(head) is None


def detect_json(document: Any) -> Kind | None:
    """The kind of a parsed document; None where it is none that we know."""
    if isinstance(document, RawList):
        return KINDS["audit_log" if document.apiVersion.startswith("audit.k8s.io/") else "kubernetes"]
    sample = document[0] if isinstance(document, list) and document else document
    if not isinstance(sample, dict):
        return None
    from steelyard.sources.money import is_service_log

    version, kind = sample.get("apiVersion"), sample.get("kind")
    if isinstance(version, str) and version.startswith("audit.k8s.io/"):
        return KINDS["audit_log"]
    if isinstance(kind, str) and isinstance(version, str):
        return KINDS["kubernetes"]
    listing = sample.get("list") if isinstance(sample.get("list"), dict) else sample
    if isinstance(listing, dict) and ({"pod_resources", "podResources"} & listing.keys()):
        return KINDS["pod_resources"]
    if is_service_log(sample):
        return KINDS["service_log"]
    if any(keys <= sample.keys() for keys in _BENCHMARK_KEYS):
        return KINDS["benchmark_result"]
    return None


def detect_text(text: str) -> Detected | None:
    """The kind of a text by its head; None where it is none that we know."""
    head = text[:HEAD_CHARACTERS]
    kind = _detect_csv(head)  # first: an asset list has columns that a query of nvidia-smi has too
    if kind is None and (form := smi_form(head)) is not None:
        return Detected(KINDS["nvidia_smi"], form, head)
    kind = kind or _detect_marks(head)
    return Detected(kind) if kind is not None else None


def smi_form(head: str) -> str | None:
    """Which form of nvidia-smi output it is; None where it is none."""
    from steelyard.sources.nvidia_smi import sniff

    form: str | None = sniff(head.encode("utf-8", "replace"))
    return form


def _detect_csv(head: str) -> Kind | None:
    from steelyard.sources.helios import MINUTE_COLUMNS, is_day_header
    from steelyard.sources.money import sniff_money
    from steelyard.sources.openb import NODE_COLUMNS, POD_COLUMNS
    from steelyard.sources.site_csv import sniff_site_csv

    lines = head.lstrip("\ufeff").splitlines()
    line = next((line for line in lines if line.strip() and not line.startswith(("#", "sep="))), "")
    delimiter = max((",", ";", "\t", "|"), key=line.count)
    header = tuple(name.strip().strip('"') for name in line.split(delimiter))
    if set(POD_COLUMNS) <= set(header):
        return KINDS["openb"]
    if set(NODE_COLUMNS) <= set(header):
        return KINDS["openb_nodes"]
    if set(MINUTE_COLUMNS) <= set(header) or is_day_header(header):
        return KINDS["helios"]
    named = sniff_money(header) or sniff_site_csv(header)
    return KINDS[named] if named else None


def _detect_marks(head: str) -> Kind | None:
    from steelyard.sources.money import is_toml_book

    if is_toml_book(head):
        return KINDS["price_book"]
    if _YAML.match(head):
        return KINDS["kubernetes_yaml"]
    if _is_kernel_log(head):
        return KINDS["kernel_log"]
    if _METRICS.search(head):
        return KINDS["metrics_text"]
    return None


def _is_kernel_log(head: str) -> bool:
    from steelyard.sources.kernel_log import sniff

    return sniff(head.encode("utf-8", "replace")) is not None

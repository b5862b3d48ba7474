"""Which column of a site's list means what: header names in the spellings that lists really use, and the cells under them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, from_datetime, parse_instant
from steelyard.sources.shared.csv_table import CsvRow

SOURCE: Final = "site_csv"
KEY_MAX: Final = 253

INVENTORY_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "serial": ("serial", "serial_number", "serial_no", "serialnumber", "gpu_serial", "序列号"),
    "uuid": ("uuid", "gpu_uuid", "device_uuid"),
    "node": ("node", "node_name", "host", "hostname", "server", "节点", "主机"),
    "rack": ("rack", "cabinet", "rack_name", "机柜"),
    "owner": ("owner", "asset_owner", "department", "归属", "部门"),
    "model": ("model", "gpu_model", "product", "型号"),
    "memory_mib": ("memory_mib", "memory_mb", "显存"),
    "purchased": ("purchase_date", "purchased", "purchased_at", "purchase", "采购日期"),
    "warranty": ("warranty", "warranty_to", "warranty_end", "warranty_until", "warranty_date", "质保到期"),
    "price": ("price", "purchase_price", "cost", "价格"),
    "currency": ("currency", "币种"),
    "status": ("status", "state", "asset_status", "状态"),
}
HOLDINGS_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "uuid": ("device_uuid", "uuid", "gpu_uuid", "device"),
    "serial": ("serial", "serial_number", "serial_no", "序列号"),
    "node": ("node", "node_name", "host", "hostname", "节点", "主机"),
    "holder": ("holder", "tenant", "lent_to", "user", "租户", "使用方"),
    "tenant": ("tenant", "租户"),
    "kind": ("kind", "type", "form", "形态"),
    "from": ("from", "from_at", "valid_from", "start", "开始"),
    "to": ("to", "to_at", "valid_to", "end", "until", "结束"),
    "approver": ("approver", "approved_by", "审批人"),
}
_NOT_STATED: Final = frozenset({"", "-", "n/a", "na", "none", "null", "unknown", "无", "未知"})
_DATE: Final = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?\Z", re.ASCII)


def columns_of(header: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Meaning -> the header's own name for it, for every meaning the header has a column for."""
    written = {re.sub(r"[\s_\-./()（）]+", "_", name.lower()).strip("_"): name for name in reversed(header)}
    found = {}
    for meaning, names in aliases.items():
        name = next((written[alias] for alias in names if alias in written), None)
        if name is not None:
            found[meaning] = name
    return found


def sniff_site_csv(header: tuple[str, ...]) -> str | None:
    """``holdings`` or ``inventory`` where the header's names say so, else None."""
    lent = columns_of(header, HOLDINGS_ALIASES)
    if "holder" in lent and "from" in lent and ("uuid" in lent or "serial" in lent):
        return "holdings"
    assets = columns_of(header, INVENTORY_ALIASES)
    bought = {"rack", "owner", "purchased", "warranty", "price", "status"} & assets.keys()
    named = {"serial", "uuid", "node"} & assets.keys()
    if (named - {"node"} and len(bought) >= 2) or (len(named) == 3 and bought):
        return "inventory"
    return None


def cell(row: CsvRow, columns: Mapping[str, str], meaning: str) -> str | None:
    """The cell of a meaning; None where there is no such column or the cell says that it does not say."""
    value = row.get(columns.get(meaning, "")) if meaning in columns else ""
    return None if value.lower() in _NOT_STATED else value


def card_of(row: CsvRow, columns: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The card's UUID and serial. Raises SourceMalformed where the row has neither, or one that no card could have."""
    uuid, serial = cell(row, columns, "uuid"), cell(row, columns, "serial")
    if uuid is None and serial is None:
        raise SourceMalformed("expected the UUID or the serial of a card, found neither", row.line, row.text)
    if max(len(uuid or ""), len(serial or "")) > KEY_MAX:
        raise SourceMalformed(f"expected a UUID or serial of at most {KEY_MAX} characters", row.line, row.text)
    return uuid, serial


def moment(text: str) -> Instant:
    """A date (its midnight in UTC) or an RFC 3339 time with a zone as an instant.

    Raises ValueError for any other text: a day before its month, or a time without a zone, may mean several instants.
    """
    match = _DATE.match(text)
    try:
        if match is None:
            return parse_instant(text)
        year, month, day = (int(part) for part in match.groups())
        return from_datetime(datetime(year, month, day, tzinfo=UTC))
    except (ValueError, OverflowError):
        raise ValueError(
            f"expected a date such as 2026-11-30 or a time with a zone such as 2026-11-30T02:00:40Z; found {text[:60]!r}"
        ) from None

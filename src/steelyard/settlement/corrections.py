"""Corrections: what closed periods would say by the ledgers of now, less what they said, less what was corrected already.

``closing`` carries them into the next period, ``restate`` shows them. The tricks to know: only grains in which a ledger posted or reversed anything
since the close are compared, row by row with the snapshot; and a closed period keeps its tenants, so that a reorganisation corrects nothing: of a pod
that is another tenant's by now, and of which the books price either tenant by name, only GPU-time that differs does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from steelyard.primitives.instant import Instant, Window
from steelyard.settlement.added_lines import plain_line
from steelyard.settlement.exchange import in_currency, rates_of
from steelyard.settlement.registers import PeriodRow, period_rows
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.snapshot import FOLDER, Manifest, read_manifest
from steelyard.settlement.statement import StatementLine
from steelyard.settlement.tables import drop, filled, lay_out, lay_out_ledgers, model_text
from steelyard.store import Store
from steelyard.store.rewriting import quoted

Reason = Literal["late_facts", "price", "definition"]
CORRECTED: Final = "corrected.jsonl"


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """What one place, holder and line of a closed period's ledger differs by. ``ledger``: ``charge`` or ``cost`` (its ``line`` is an account then).
    ``number``: of the statement that was closed, None where there was none. Amounts in millionths of ``currency``, cost in ``amount_micro``."""

    label: str
    ledger: str
    number: str | None
    tenant: str | None
    cluster: str
    place_kind: str
    place_id: str
    node: str | None
    device_uuid: str | None
    model: str | None
    pod_uid: str | None
    unit_id: str | None
    owner: str | None
    namespace: str | None
    pod: str | None
    workload: str | None
    line: str
    currency: str | None
    reason: str
    started_at: Instant
    ended_at: Instant
    quantity_gpu_us: int
    list_micro: int
    discount_micro: int
    amount_micro: int

    def key(self) -> tuple[object, ...]:
        """What it is about, without its amounts."""
        return (
            self.label, self.ledger, self.cluster, self.place_kind, self.place_id, self.node, self.pod_uid, self.unit_id, self.owner, self.line,
            self.currency, self.reason,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Of whoever holds it, as people say it."""
        return f"{self.namespace}/{self.pod}" if self.pod is not None else (self.owner or self.pod_uid or self.place_id)

    def subject(self) -> tuple[object, ...]:
        """Where and whose it is: the key, without what its money is called and why it differs."""
        return self.key()[:-2]


@dataclass(frozen=True, slots=True)
class Due:
    """What closed periods have to be corrected by. ``untold``: what differs and has no price now, so that its correction cannot be told; it is
    carried by no close until it has one. Its amounts say nothing."""

    corrections: Sequence[Correction] = ()
    untold: Sequence[Correction] = ()


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed period and its snapshot."""

    row: PeriodRow
    folder: Path
    manifest: Manifest


def closed_periods(store: Store, directory: Path) -> list[Closed]:
    """The closed periods that count (shadow periods do not), oldest first. Raises StoreDamaged where a snapshot cannot be read."""
    rows = [row for row in period_rows(store) if row.state == "closed" and not row.shadow]
    folders = [directory / FOLDER / row.folder_name for row in rows]
    return [Closed(row, folder, read_manifest(folder)) for row, folder in zip(rows, folders, strict=True)]


def corrections_due(store: Store, directory: Path, label: str | None = None) -> Due:
    """What has to be corrected by now, of all closed periods or of one. A period in whose grains nothing was posted since its close costs one look.

    It lays out the tables of ``tables`` for closed periods, so whoever needs them for another lays them out afterwards.
    """
    closed = closed_periods(store, directory)
    done = _corrected(closed)
    found: list[Correction] = []
    untold: list[Correction] = []
    for each in closed:
        if label is None or each.row.label == label:
            differing = [*_differences(store, each)]
            held = [row for row, unpriced in differing if unpriced]
            subjects = {row.subject() for row in held}
            known = [row for row, unpriced in differing if not unpriced]
            found += _net(known, [row for row in done if row.label == each.row.label and row.subject() not in subjects])
            untold += _untold(held)
    return Due(found, untold)


def _untold(held: Sequence[Correction]) -> Iterator[Correction]:
    """One row a subject: by how much GPU-time it differs in all, of no currency and no amount."""
    subjects: dict[tuple[object, ...], list[Correction]] = {}
    for each in held:
        subjects.setdefault(each.subject(), []).append(each)
    for group in subjects.values():
        yield msgspec.structs.replace(
            replace_amounts(group[0], sum(each.quantity_gpu_us for each in group), 0, 0, 0),
            currency=None,
            started_at=min(each.started_at for each in group),
            ended_at=max(each.ended_at for each in group),
        )


def _corrected(closed: Sequence[Closed]) -> list[Correction]:
    """What closes carried over already."""
    return [row for each in closed for row in read_corrected(each.folder)]


def read_corrected(folder: Path) -> list[Correction]:
    """The differences that a close carried over, as the ledgers have them."""
    text = (folder / CORRECTED).read_bytes()
    return [msgspec.json.decode(line, type=Correction) for line in text.splitlines()]


def write_corrected(folder: Path, found: Sequence[Correction]) -> None:
    """Keep what this close carries over, so that the next one does not carry it again."""
    (folder / CORRECTED).write_bytes(b"".join(msgspec.json.encode(each, order="sorted") + b"\n" for each in found))


def _net(due: Sequence[Correction], done: Sequence[Correction]) -> list[Correction]:
    """The differences less what was corrected, by key; a correction whose ground has gone is taken back."""
    left: dict[tuple[object, ...], Correction] = {each.key(): each for each in due}
    for before in done:
        known = left.get(before.key())
        base = known if known is not None else replace_amounts(before, 0, 0, 0, 0)
        left[before.key()] = replace_amounts(
            base,
            base.quantity_gpu_us - before.quantity_gpu_us,
            base.list_micro - before.list_micro,
            base.discount_micro - before.discount_micro,
            base.amount_micro - before.amount_micro,
        )
    return [
        each
        for each in left.values()
        if each.quantity_gpu_us or each.list_micro or each.discount_micro or each.amount_micro
    ]


def replace_amounts(row: Correction, quantity: int, listed: int, discount: int, amount: int) -> Correction:
    """The row with other amounts."""
    return msgspec.structs.replace(
        row, quantity_gpu_us=quantity, list_micro=listed, discount_micro=discount, amount_micro=amount
    )


def _differences(store: Store, closed: Closed) -> Iterator[tuple[Correction, bool]]:
    """(what differs, whether it has no price now)."""
    manifest, rules = closed.manifest, closed.manifest.settlement_rules()
    span = rules.periods.span(closed.row.label)
    bounds = {"run_id": manifest.run_id or 0, "from_us": span.start, "to_us": span.end}
    drop(store, "settling_changed")
    store.execute(f"CREATE TEMP TABLE settling_changed AS {filled('changed_grains', bounds)}")
    if not store.rows("SELECT 1 FROM settling_changed LIMIT 1"):
        return
    _lay_out_both(store, closed, rules)
    numbers = {each.tenant: each.number for each in manifest.statements}
    differing = _reason_of_price(store, manifest)
    for ledger, listed, amount in (("charge", True, "charge_micro"), ("cost", False, "cost_micro")):
        _lay_out_sides(store, closed.folder, ledger, listed, amount)
        for row in store.records(
            f"SELECT difference.*, place.* EXCLUDE (place_no), pod.* EXCLUDE (holder_no, cluster, epoch_no, from_at, to_at) "
            f"FROM ({model_text('compared')}) AS difference JOIN settling_both_place AS place ON place.place_no = difference.place_no "
            "JOIN settling_both_pod AS pod ON pod.holder_no = difference.holder_no "
            "WHERE difference.late OR difference.holder_no NOT IN (SELECT same.both_no FROM settling_same_pod AS same "
            "JOIN settling_moved AS moved ON moved.holder_no = same.now_no) ORDER BY ALL"
        ):
            yield (
                _correction(row, ledger, closed.row.label, numbers, differing, rules.periods.grain_us),
                row["unpriced"],
            )


def _lay_out_both(store: Store, closed: Closed, rules: SettlementRules) -> None:
    """The period by the ledgers of now, with the tenants that it was closed with, and one numbering for what is in either."""
    lay_out_ledgers(store, rules.periods, closed.row.label)
    was_pods = f"read_parquet({quoted(str(closed.folder / 'pods.parquet'))})"
    was_places = f"read_parquet({quoted(str(closed.folder / 'places.parquet'))})"
    same_pod = (
        "was.cluster = now.cluster AND was.pod_uid IS NOT DISTINCT FROM now.pod_uid AND was.unit_id IS NOT DISTINCT FROM now.unit_id "
        "AND was.owner IS NOT DISTINCT FROM now.owner"
    )
    drop(store, "settling_was_pod")
    store.execute(f"CREATE TEMP VIEW settling_was_pod AS SELECT * FROM {was_pods}")
    lay_out(store, "moved", model_text("moved"))
    store.execute(
        "UPDATE settling_holder AS now SET tenant = was.tenant, from_at = was.from_at, to_at = was.to_at FROM "
        f"(SELECT DISTINCT cluster, pod_uid, tenant, from_at, to_at FROM {was_pods} WHERE pod_uid IS NOT NULL) AS was "
        "WHERE was.cluster = now.cluster AND was.pod_uid = now.pod_uid"
    )
    lay_out(store, "pod", model_text("pod"))
    same_place = " AND ".join(
        f"was.{name} IS NOT DISTINCT FROM now.{name}"
        for name in ("cluster", "place_kind", "place_id", "node", "device_uuid")
    )
    for name, source, same in (
        ("place", was_places, same_place),
        ("pod", f"(SELECT * FROM {was_pods} WHERE epoch_no = 0)", same_pod),
    ):
        number = "place_no" if name == "place" else "holder_no"
        drop(store, f"settling_both_{name}")
        now = f"settling_{name}" if name == "place" else "(SELECT * FROM settling_pod WHERE epoch_no = 0)"
        store.execute(
            f"CREATE TEMP TABLE settling_both_{name} AS SELECT * FROM {source} AS was UNION ALL BY NAME "
            f"SELECT now.* REPLACE (now.{number} + 1000000000 AS {number}) FROM {now} AS now ANTI JOIN {source} AS was ON {same}"
        )
        drop(store, f"settling_same_{name}")
        store.execute(
            f"CREATE TEMP TABLE settling_same_{name} AS SELECT now.{number} AS now_no, coalesce(was.{number}, now.{number} + 1000000000) AS both_no "
            f"FROM {now} AS now LEFT JOIN {source} AS was ON {same}"
        )


def _lay_out_sides(store: Store, folder: Path, ledger: str, listed: bool, amount: str) -> None:
    money = (
        "row.list_micro, row.discount_micro"
        if listed
        else "CAST(NULL AS BIGINT) AS list_micro, CAST(NULL AS BIGINT) AS discount_micro"
    )
    quantity = "row.quantity_gpu_us" if listed else "row.amount_gpu_us AS quantity_gpu_us"
    columns = f"row.grain_at, tariff.line, tariff.currency, {quantity}, {money}, row.{amount} AS amount_micro"
    within = "row.grain_at IN (SELECT grain_at FROM settling_changed)"
    for name in ("now", "was"):
        drop(store, f"settling_{name}")
    store.execute(
        f"CREATE TEMP TABLE settling_now AS SELECT place.both_no AS place_no, holder.both_no AS holder_no, {columns} FROM settling_{ledger} AS row "
        "JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no JOIN settling_same_place AS place ON place.now_no = row.place_no "
        f"JOIN settling_same_pod AS holder ON holder.now_no = row.holder_no WHERE {within}"
    )
    source, tariffs = (
        f"read_parquet({quoted(str(folder / name))})" for name in (f"{ledger}.parquet", "tariffs.parquet")
    )
    store.execute(
        f"CREATE TEMP TABLE settling_was AS SELECT row.place_no, row.holder_no, {columns} FROM {source} AS row "
        f"JOIN {tariffs} AS tariff ON tariff.tariff_no = row.tariff_no WHERE {within}"
    )


def _reason_of_price(store: Store, manifest: Manifest) -> Mapping[bool, Reason]:
    """Late (the GPU-time differs) -> reason. Where formulas or posting settings changed, they are the reason, of amounts unless the books did too."""
    run = store.rows(model_text("last_run"))[0]
    redefined = msgspec.json.decode(run[1]) != manifest.definitions or run[2] != manifest.posting_settings_sha256
    repriced = book_versions(store) != manifest.books
    return {
        True: "definition" if redefined else "late_facts",
        False: "definition" if redefined and not repriced else "price",
    }


def book_versions(store: Store) -> dict[str, str]:
    """Name of each price book -> its version that counts, with its hash."""
    return {book: f"{version} {sha256}" for book, version, sha256, _by in store.rows(model_text("books"))}


def book_declarers(store: Store) -> dict[str, str]:
    """Who declared the versions of price books that count -> a book."""
    return {
        name: book
        for book, _version, _hash, declared in store.rows(model_text("books"))
        for name in (declared or "").split("\n")
        if name
    }


def _correction(
    row: Mapping[str, Any],
    ledger: str,
    label: str,
    numbers: Mapping[str, str],
    reasons: Mapping[bool, Reason],
    grain_us: int,
) -> Correction:
    names = (
        "cluster",
        "place_kind",
        "place_id",
        "node",
        "device_uuid",
        "model",
        "pod_uid",
        "unit_id",
        "owner",
        "namespace",
        "pod",
        "workload",
    )
    return Correction(
        label=label,
        ledger=ledger,
        number=numbers.get(row["tenant"]),
        tenant=row["tenant"],
        line=row["line"],
        currency=row["currency"],
        reason=reasons[bool(row["late"])],
        started_at=row["from_us"],
        ended_at=row["last_us"] + grain_us,
        quantity_gpu_us=row["quantity_gpu_us"],
        list_micro=row["list_micro"],
        discount_micro=row["discount_micro"],
        amount_micro=row["amount_micro"],
        **{name: row[name] for name in names},
    )


def correction_lines(
    store: Store, found: Sequence[Correction], closed: Sequence[Closed], rules: SettlementRules
) -> list[tuple[str, StatementLine]]:
    """(tenant, line) of what tenants are asked for, in the currency that their statements are in; over the laid-out tables of the new period."""
    rates = rates_of(store)
    currencies = {(each.row.label, one.tenant): one.currency for each in closed for one in each.manifest.statements}
    lines = []
    for each in found:
        if each.ledger != "charge" or each.tenant is None:
            continue
        quote = rules.currency_of(each.tenant) or currencies.get((each.label, each.tenant)) or each.currency or ""
        line = _line(each)
        if each.currency is None:  # it had no price then: its GPU-time comes off what was asked for nothing
            lines.append((each.tenant, replace(line, cost_micro=None)))
            continue
        converted = in_currency(line, each.currency, None, quote, rates, each.ended_at - 1)
        lines.append((each.tenant, replace(converted, cost_micro=None)))
    return lines


def _line(row: Correction) -> StatementLine:
    plain = plain_line(
        "correction",
        f"{row.label}: {row.name}",
        Window(row.started_at, row.ended_at),
        row.amount_micro,
        identity=row.key(),
        cluster=row.cluster,
    )
    return replace(
        plain,
        node=row.node,
        device_uuid=row.device_uuid,
        model=row.model,
        unit_id=row.unit_id,
        namespace=row.namespace,
        pod=row.pod,
        pod_uid=row.pod_uid,
        workload=row.workload,
        quantity_gpu_us=row.quantity_gpu_us,
        list_micro=row.list_micro,
        discount_micro=row.discount_micro,
        reference=row.number or row.label,
        reason=row.reason,
    )

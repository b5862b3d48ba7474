"""An estate written straight into the tables that answers read, so that answers are tested without readers and ledgers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from steelyard.ledgers.posting import ensure_ledgers
from steelyard.ledgers.registry import HOLDING, SUPPLY, USAGE, model_text
from steelyard.primitives.instant import HOUR_US, Instant, parse_instant
from steelyard.store import Store

DDL = """
CREATE TABLE dim.parameter (grain_us BIGINT, floor_by_slots BOOLEAN, weight_default_ppm BIGINT, wait_ceiling_us BIGINT,
    leak_grace_us BIGINT,    as_of_at TIMESTAMP, horizon_at TIMESTAMP);
CREATE TABLE dim.model_weight (position BIGINT, model VARCHAR, weight_ppm BIGINT, valid_from_at TIMESTAMP, valid_to_at TIMESTAMP);
CREATE TABLE dim.pod (cluster VARCHAR, pod_uid VARCHAR, requested BOOLEAN, namespace VARCHAR, pod VARCHAR, node VARCHAR, phase VARCHAR,
    tenant VARCHAR, workload_kind VARCHAR, workload_name VARCHAR, queue VARCHAR, qos VARCHAR, scheduler VARCHAR, labels VARCHAR, annotations VARCHAR,
    created_at TIMESTAMP, scheduled_at TIMESTAMP, gpu_count BIGINT, requested_gpu_milli BIGINT, requested_memory_mib BIGINT,
    requested_cores_percent BIGINT, rejected BOOLEAN, last_container_end_at TIMESTAMP, gone_by_at TIMESTAMP,
    first_seen_at TIMESTAMP, last_seen_at TIMESTAMP);
CREATE TABLE dim.device (cluster VARCHAR, device_uuid VARCHAR, node VARCHAR, vendor VARCHAR, model VARCHAR, memory_mib BIGINT, mode VARCHAR,
    healthy BOOLEAN, cordoned BOOLEAN, placeable BOOLEAN, state VARCHAR, state_reason VARCHAR, lost_at TIMESTAMP, serial VARCHAR,
    pci_address VARCHAR, device_index BIGINT, mig_enabled BOOLEAN,
    numa BIGINT, slots_count BIGINT, schedulable_memory_mib BIGINT, schedulable_cores_percent BIGINT, basis VARCHAR,
    valid_from_at TIMESTAMP, valid_to_at TIMESTAMP);
CREATE TABLE dim.node (cluster VARCHAR, node VARCHAR, gpu_product VARCHAR, ready BOOLEAN, ready_changed_at TIMESTAMP,
    extended_resources VARCHAR, first_seen_at TIMESTAMP, cpu_milli BIGINT, unschedulable BOOLEAN);
CREATE TABLE dim.node_capacity (cluster VARCHAR, node VARCHAR, cards_count BIGINT, memory_mib BIGINT, from_us BIGINT, to_us BIGINT,
    seen_from_us BIGINT, seen_to_us BIGINT);
CREATE TABLE dim."grant" (cluster VARCHAR, pod_uid VARCHAR, node VARCHAR, device_uuid VARCHAR, standing VARCHAR,
    unit_id VARCHAR, unit_kind VARCHAR, gi BIGINT, profile VARCHAR, placement_start BIGINT, placement_size BIGINT, first_seen_at TIMESTAMP);
CREATE TABLE ledger.posting_run (run_id BIGINT, posted_at TIMESTAMP, as_of TIMESTAMP, definitions VARCHAR, settings_hash VARCHAR);
"""


@cache
def others_ddl() -> tuple[str, ...]:
    """Empty tables for every dimension and ledger that is not written out above, with the columns that the ledgers give them."""
    with Store.open_memory() as posted:
        ensure_ledgers(posted)
        columns: dict[str, list[str]] = {}
        for schema, table, column, kind in posted.rows(
            "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns "
            "WHERE (table_schema = 'dim' OR table_schema = 'ledger' "
            "AND table_name IN ('wait', 'quota', 'breach', 'gpu_state', 'excess', 'over_use', 'deviation', 'cost', 'charge')) "
            "AND table_name <> 'known_span' ORDER BY ordinal_position"
        ):
            columns.setdefault(f'{schema}."{table}"', []).append(f'"{column}" {kind}')
    return tuple(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)})" for name, parts in columns.items())


def at(text: str) -> Instant:
    """``10:30`` on the story's day, or a whole stamp."""
    return parse_instant(text if "T" in text else f"2026-11-30T{text}:00Z")


class Estate:
    """Rows with defaults; ``None`` instants are NULL."""

    def __init__(self) -> None:
        self.store = Store.open_memory()
        self.store.execute(DDL)
        for ledger in (HOLDING, SUPPLY):
            columns = ", ".join(f"{column.name} {column.sql_type}" for column in ledger.columns)
            self.store.execute(f"CREATE TABLE ledger.{ledger.name}_entry ({columns}, run_id BIGINT, sign BIGINT)")
            self.store.execute(
                f"CREATE VIEW ledger.{ledger.name} AS SELECT * EXCLUDE (run_id, sign) FROM ledger.{ledger.name}_entry"
            )
        for ddl in others_ddl():
            self.store.execute(ddl)
        columns = ", ".join(f"{column.name} {column.sql_type}" for column in USAGE.columns)
        self.store.execute(f"CREATE TABLE ledger.usage ({columns})")
        span = model_text("dimensions/known_span.sql")  # a view: the rows of a test may come after it
        self.store.execute(f"CREATE VIEW dim.known_span AS {span}")
        self.store.execute(
            "CREATE TABLE ledger.finding AS SELECT cluster, code, severity, subject, message, evidence, occurred_at FROM fact.finding"
        )
        self.insert(
            "dim.parameter",
            grain_us=HOUR_US,
            floor_by_slots=False,
            weight_default_ppm=1_000_000,
            wait_ceiling_us=HOUR_US,
            leak_grace_us=HOUR_US // 6,
            as_of_at=at("12:00"),
        )
        definitions = json.dumps({"share": "1", "gpu_time": "1"})
        self.insert("ledger.posting_run", run_id=1, posted_at=at("12:00"), as_of=at("12:00"), definitions=definitions)
        self.holdings: list[dict[str, Any]] = []

    def insert(self, table: str, **values: Any) -> None:
        """One row; a name that ends in ``_at``, and ``as_of``, is an instant."""
        marks = ["make_timestamp(?)" if name.endswith("_at") or name == "as_of" else "?" for name in values]
        self.store.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(marks)})", list(values.values())
        )

    def listing(self, instant: Instant, **values: Any) -> None:
        """A complete listing of all pods."""
        row = {
            "cluster": "default",
            "source": "kube_api",
            "natural_key": "pods/cluster",
            "occurred_at": instant,
            "observed_at": instant,
            "fact_id": f"listing-{instant}",
            "kind": "pods",
            "scope": "cluster",
            "status": "ok",
            "complete": True,
            "objects_count": 1,
            "as_of_basis": "declared",
        }
        self.insert("fact.source_status", **{**row, **values})

    def card(self, uuid: str, node: str = "node-a", index: int = 0, **values: Any) -> None:
        """A card, valid from 08:00 to 12:00."""
        row = {
            "cluster": "default",
            "device_uuid": uuid,
            "node": node,
            "vendor": "nvidia",
            "model": "T4",
            "memory_mib": 16_000,
            "cordoned": False,
            "healthy": True,
            "placeable": True,
            "state": "present",
            "device_index": index,
            "basis": "inventory",
            "valid_from_at": at("08:00"),
            "valid_to_at": at("12:00"),
        }
        self.insert("dim.device", **{**row, **values})

    def pod(self, name: str, tenant: str | None = None, gpus: int | None = 1, **values: Any) -> None:
        """``namespace/pod``; its uid is ``uid-<pod>``. ``gpus`` None = no request is known."""
        namespace, pod = name.split("/")
        row = {
            "cluster": "default",
            "pod_uid": f"uid-{pod}",
            "requested": gpus is not None,
            "namespace": namespace,
            "pod": pod,
            "node": "node-a",
            "phase": "Running",
            "tenant": tenant or namespace,
            "workload_kind": "Deployment",
            "workload_name": pod,
            "labels": "{}",
            "annotations": "{}",
            "rejected": False,
            "created_at": at("08:00"),
            "first_seen_at": at("08:00"),
            "last_seen_at": at("12:00"),
        }
        self.insert("dim.pod", **{**row, "gpu_count": gpus, **values})

    def hold(
        self,
        pod: str,
        device: str | None,
        start: str,
        end: str | None,
        share_ppm: int | None = 1_000_000,
        **values: Any,
    ) -> None:
        """A holding; ``end`` None = open at 12:00."""
        namespace, name = pod.split("/")
        row: dict[str, Any] = {
            "cluster": "default",
            "pod_uid": f"uid-{name}",
            "namespace": namespace,
            "pod": name,
            "containers": "main",
            "scheme": "hami",
            "place_kind": "device" if device else "node",
            "place_id": device or "node-a",
            "node": "node-a",
            "device_uuid": device,
            "unit_kind": "vgpu",
            "quantity": 1,
            "segment": 0,
            "occupancy": "held",
            "share_ppm": share_ppm,
            "share_at_least_ppm": share_ppm or 0,
            "share_basis": "dominant",
            "memory_mib": None if share_ppm is None else 16_000 * share_ppm // 1_000_000,
            "cores_percent": None if share_ppm is None else share_ppm // 10_000,
            "started_at": at(start),
            "ended_at": at(end) if end else None,
            "known_to_at": at("12:00"),
            "start_basis": "pod_scheduled",
            "end_basis": "finished" if end else "open",
            "evidence_grade": "declared",
        }
        row.update(values)
        self.holdings.append(row)
        self.insert("ledger.holding_entry", **row, run_id=1, sign=1)

    def demand(self, name: str, queue: str | None = "main", gpus: int | None = 1, **values: Any) -> None:
        """A workload ``namespace/name``; its id is ``id-<name>``, its tenant the namespace."""
        namespace, short = name.split("/")
        row = {
            "cluster": "default", "demand_id": f"id-{short}", "demand_kind": "workload", "namespace": namespace, "name": short,
            "queue": queue, "workload_kind": "Job", "workload_name": short, "tenant": namespace, "priority": 10,
            "gpu_milli": None if gpus is None else 1000 * gpus, "least_count": 1, "pods_count": 1, "scheduler": "kueue", "phase": "pending",
            "created_at": at("08:00"), "first_seen_at": at("08:00"), "last_seen_at": at("12:00"),
        }  # fmt: skip
        self.insert("dim.demand", **{**row, **values})

    def wait(
        self, name: str, start: str, end: str | None, queue: str | None = "main", gpus: int | None = 1, **values: Any
    ) -> None:
        """A wait of it for its queue; ``end`` None = it waits still at 12:00, else it ended with a reservation."""
        namespace, short = name.split("/")
        row = {
            "cluster": "default", "demand_id": f"id-{short}", "demand_kind": "workload", "namespace": namespace, "queue": queue,
            "segment": 0, "stage": "queue", "started_at": at(start), "ended_at": at(end) if end else None, "known_to_at": at(end or "12:00"),
            "ended_by": "reserved" if end else None, "gpu_milli": None if gpus is None else 1000 * gpus, "basis": "object",
        }  # fmt: skip
        self.insert("ledger.wait", **{**row, **values})

    def post_supply(self, start: str = "08:00", end: str = "12:00") -> None:
        """Book every holding by hour, floored once per hour, and what is left of each card as free. No over-commitment."""
        cards = [uuid for (uuid,) in self.store.rows("SELECT DISTINCT device_uuid FROM dim.device")]
        for grain in range(at(start), at(end), HOUR_US):
            left = dict.fromkeys(cards, HOUR_US)
            for row in self.holdings:
                stop = row["ended_at"] if row["ended_at"] is not None else row["known_to_at"]
                length = max(0, min(stop, grain + HOUR_US) - max(row["started_at"], grain))
                if not length or row["share_ppm"] is None:
                    continue
                amount = length * row["share_ppm"] // 1_000_000
                self.book(row, grain, amount, row["memory_mib"] * length, row["cores_percent"] * length)
                if row["device_uuid"]:
                    left[row["device_uuid"]] -= amount
                else:
                    self.place(row["place_kind"], row["place_id"], None, grain, "free", -amount)
            for uuid, rest in left.items():
                self.place("device", uuid, uuid, grain, "supply", HOUR_US)
                self.place("device", uuid, uuid, grain, "free", rest)

    def book(self, row: dict[str, Any], grain: Instant, amount: int, memory: int, cores: int) -> None:
        """One posting of a holding."""
        unplaced = row["occupancy"] == "held" and row["device_uuid"] is None
        names = ("cluster", "place_kind", "place_id", "node", "device_uuid", "pod_uid", "unit_id")
        self.insert(
            "ledger.supply_entry",
            **{name: row.get(name) for name in names},
            grain_at=grain,
            account="held_unplaced" if unplaced else row["occupancy"],
            service="unknown",
            amount_gpu_us=amount,
            memory_mib_us=memory,
            cores_percent_us=cores,
            run_id=1,
            sign=1,
        )

    def place(self, kind: str, place: str, device: str | None, grain: Instant, account: str, amount: int) -> None:
        """One posting of a place itself."""
        self.insert(
            "ledger.supply_entry",
            cluster="default",
            place_kind=kind,
            place_id=place,
            node="node-a",
            device_uuid=device,
            grain_at=grain,
            account=account,
            service="unknown",
            amount_gpu_us=amount,
            run_id=1,
            sign=1,
        )


def small_story() -> Estate:
    """Two cards of node-a, four pods, one listing at 12:00 after one at 10:00; every number can be checked by hand."""
    estate = Estate()
    estate.listing(at("10:00"))
    estate.listing(at("12:00"))
    estate.card("GPU-aaaaaaaa-0000", index=0)
    estate.card("GPU-aaaaaaaa-0001", index=1)
    estate.pod("team-a/infer", labels='{"app": "chat"}', qos="LS")
    estate.pod("team-a/train", labels='{"app": "sft"}', qos="BE")
    estate.pod("team-b/notebook", labels='{"app": "lab"}', requested_memory_mib=4_000)
    estate.pod("team-b/waiting", phase="Pending", node=None, gpus=2)
    estate.hold("team-a/infer", "GPU-aaaaaaaa-0000", "08:00", None, 250_000, unit_id="GPU-aaaaaaaa-0000/u1")
    estate.hold("team-b/notebook", "GPU-aaaaaaaa-0000", "09:00", "11:30", 500_000)
    estate.hold("team-a/train", "GPU-aaaaaaaa-0001", "08:30", "11:00", unit_kind="gpu", evidence_grade="verified")
    estate.post_supply()
    return estate

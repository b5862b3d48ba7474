"""The ledgers in the order in which they are posted: each reads facts, dimensions and the ledgers before it, never one after it.

A ledger is declared once, here: its name, its columns and the file of its SELECT. ``posting`` makes its tables from this, the
SQL tests read the order from here. The trick to know: a SELECT yields the full set of rows by column name, not the change; the change
is what ``posting`` finds against the net of what was posted before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class LedgerColumn:
    """A column of a ledger and its SQL type. Amounts are BIGINT: never HUGEINT, never DOUBLE."""

    name: str
    sql_type: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """One ledger. ``sql_file`` stands beside this module and is one SELECT with these columns, no two rows alike.

    ``stages``: models that stand as tables ``dim.<stem>``, rebuilt in this order right before the ledger's own SELECT, which reads them.
    ``hours``: a model of what each hour of samples is computed from (``hour_at``, ``is_open``, ``ground_no``). With it the ledger is posted window by
    window, only for hours whose ground changed since they were last posted, and what samples there are in all never stands in memory:
    ``window_stages`` are given the window (``$from_us``, ``$to_us``), what they may read of samples (``$read_from_us``, ``$read_to_us``) and the
    name of the ledger that they are built for (``$ledger``). ``shared_stages`` stand before them and are built once a window for all ledgers
    that name the same (``$ledger``: the first of these); they are posted together, where the last of them stands.
    ``in_memory``: the stages of its windows stand as temporary tables, which the engine neither compresses nor writes: where a window's samples
    bound them. Models name them ``dim.<stem>`` all the same (``over_passing_stages``); nobody else can read them, they go after the last window.
    ``key_columns``: columns of names that are kept once, in ``ledger.<name>_key``; the stage ``keys_of`` yields every combination, the
    ledger's SELECT yields ``key_no`` (from ``dim.<name>_key``) in their place, the view ``ledger.<name>`` shows the names.
    ``open_when``: a condition on the ledger's own columns: rows that still move with the instant as of which the facts speak (an interval
    without an end, an hour that is still running). They are replaced by the next run; all others only by reversal.
    ``closed_by``: tables of samples and how far they were thinned (``store.thinned``): on such a day the ledger can no longer be computed from
    what is left, so its rows of that day stand as they were posted.
    ``ground``: fact tables without any row of which the ledger has none; answers may read its stages, so these stand before any posting too.
    ``findings_file``: a SELECT with the columns of ``ledger.finding`` over facts, dimensions and ledgers up to this one, or None.
    """

    name: str
    columns: tuple[LedgerColumn, ...]
    sql_file: str
    open_when: str
    closed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    findings_file: str | None = None
    stages: tuple[str, ...] = ()
    hours: str | None = None
    shared_stages: tuple[str, ...] = ()
    window_stages: tuple[str, ...] = ()
    in_memory: bool = False
    key_columns: tuple[str, ...] = ()
    keys_of: str | None = None
    ground: tuple[str, ...] = ()

    @property
    def stored_columns(self) -> tuple[LedgerColumn, ...]:
        """What an entry holds: all columns, or ``key_no`` in place of the key columns."""
        if not self.key_columns:
            return self.columns
        others = tuple(column for column in self.columns if column.name not in self.key_columns)
        return (LedgerColumn("key_no", "BIGINT"), *others)


_RUNNING_GRAIN: Final = (
    "epoch_us(grain_at) + (SELECT grain_us FROM dim.parameter) > (SELECT epoch_us(as_of_at) FROM dim.parameter)"
)


@cache
def model_text(file: str) -> str:
    """The text of a model beside this module, such as ``holding.sql`` or ``dimensions/pod.sql``."""
    return (files(__package__) / file).read_text(encoding="utf-8")


def ledger_columns(text: str) -> tuple[LedgerColumn, ...]:
    """Columns from ``name TYPE`` lines; a line without a type is VARCHAR."""
    words = [line.split() for line in text.strip().splitlines()]
    return tuple(LedgerColumn(parts[0], parts[1] if len(parts) > 1 else "VARCHAR") for parts in words)


HOLDING: Final = Ledger(
    name="holding",
    columns=ledger_columns(
        """
        cluster
        pod_uid
        namespace
        pod
        containers
        scheme
        place_kind
        place_id
        node
        device_uuid
        device_unknown_reason
        unit_kind
        unit_id
        profile
        gi BIGINT
        quantity BIGINT
        segment BIGINT
        occupancy
        share_ppm BIGINT
        share_at_least_ppm BIGINT
        share_basis
        memory_mib BIGINT
        cores_percent BIGINT
        started_at TIMESTAMP
        running_at TIMESTAMP
        ended_at TIMESTAMP
        known_to_at TIMESTAMP
        ended_before_at TIMESTAMP
        start_basis
        end_basis
        evidence_grade
        """
    ),
    sql_file="holding.sql",
    open_when="ended_at IS NULL",
    findings_file="holding_findings.sql",
)

SUPPLY: Final = Ledger(
    name="supply",
    columns=ledger_columns(
        """
        cluster
        place_kind
        place_id
        node
        device_uuid
        grain_at TIMESTAMP
        account
        service
        pod_uid
        unit_id
        amount_gpu_us BIGINT
        memory_mib_us BIGINT
        cores_percent_us BIGINT
        """
    ),
    sql_file="supply.sql",
    open_when=_RUNNING_GRAIN,
    closed_by={"device_sample": ("dropped",)},
    findings_file="supply_findings.sql",
    ground=("fact.device", "fact.node", 'fact."grant"', "fact.inventory_basis"),
    stages=(
        "supply_site",
        "supply_slot",
        "supply_stretch",
        "supply_claim",
        "supply_room",
        "supply_piece",
        "supply_load",
        "supply_place",
    ),
    key_columns=("cluster", "place_kind", "place_id", "node", "device_uuid"),
    keys_of="supply_place",
)

SAMPLE_STAGES: Final = ("sample_hour", "sample_odd", "usage_calm", "sample_rest", "usage_process", "usage_intruder")
"""What `usage` and `gpu_state` share of a window: its samples, judged and summed in one pass, those to be looked at one by one, its processes."""

USAGE: Final = Ledger(
    name="usage",
    columns=ledger_columns(
        """
        cluster
        device_uuid
        gi BIGINT
        grain_at TIMESTAMP
        pod_uid
        path
        used_basis
        memory_mib_us BIGINT
        memory_peak_mib BIGINT
        memory_p99_mib BIGINT
        compute_upper_gpu_us BIGINT
        engine_upper_gpu_us BIGINT
        sm_gpu_us BIGINT
        dram_gpu_us BIGINT
        used_gpu_us BIGINT
        used_of_gpu_us BIGINT
        observed_us BIGINT
        compute_observed_us BIGINT
        engine_observed_us BIGINT
        sm_observed_us BIGINT
        dram_observed_us BIGINT
        used_observed_us BIGINT
        samples_count BIGINT
        unknown_reason
        """
    ),
    sql_file="usage.sql",
    open_when=_RUNNING_GRAIN,
    findings_file="telemetry_findings.sql",
    closed_by={"device_sample": ("reduced", "dropped"), "process_sample": ("reduced", "dropped")},
    stages=("usage_gap", "usage_instance", "usage_shareable", "usage_exclusive"),
    hours="usage_hour",
    shared_stages=SAMPLE_STAGES,
    window_stages=("usage_stretch", "usage_holder"),
    in_memory=True,
)

CONTRADICTION: Final = Ledger(
    name="contradiction",
    columns=ledger_columns(
        """
        cluster
        device_uuid
        gi BIGINT
        grain_at TIMESTAMP
        figure
        instants_count BIGINT
        first_at TIMESTAMP
        last_at TIMESTAMP
        least BIGINT
        most BIGINT
        told_by
        """
    ),
    sql_file="contradiction.sql",
    open_when=_RUNNING_GRAIN,
    findings_file="contradiction_findings.sql",
    closed_by={"device_sample": ("reduced", "dropped")},
    hours="contradiction_hour",
    shared_stages=SAMPLE_STAGES,
    window_stages=("contradiction_sample",),
    in_memory=True,
)

WAIT: Final = Ledger(
    name="wait",
    columns=ledger_columns(
        """
        cluster
        demand_id
        demand_kind
        namespace
        queue
        segment BIGINT
        stage
        started_at TIMESTAMP
        ended_at TIMESTAMP
        known_to_at TIMESTAMP
        ended_by
        cause
        fit
        gpu_milli BIGINT
        basis
        unknown_reason
        """
    ),
    sql_file="wait.sql",
    open_when="ended_at IS NULL",
    findings_file="wait_findings.sql",
)

QUOTA: Final = Ledger(
    name="quota",
    columns=ledger_columns(
        """
        cluster
        queue_kind
        queue
        namespace
        flavor
        resource
        grain_at TIMESTAMP
        observed_us BIGINT
        nominal_milli_us BIGINT
        reserved_milli_us BIGINT
        used_milli_us BIGINT
        used_basis
        borrowed_milli_us BIGINT
        over_nominal_milli_us BIGINT
        lent_milli_us BIGINT
        reserved_not_used_milli_us BIGINT
        leaked_milli_us BIGINT
        pending_milli_us BIGINT
        idle_milli_us BIGINT
        pending_us BIGINT
        pending_fits_own_us BIGINT
        pending_fits_pool_us BIGINT
        refused_count BIGINT
        """
    ),
    sql_file="quota.sql",
    open_when=_RUNNING_GRAIN,
    stages=(
        "quota_key",
        "quota_said",
        "quota_told",
        "quota_leak",
        "quota_interval",
        "quota_use",
        "quota_span",
        "quota_pool",
        "quota_refused",
        "quota_now",
    ),
    ground=("fact.quota", "fact.gang"),
    findings_file="quota_findings.sql",
)

BREACH: Final = Ledger(
    name="breach",
    columns=ledger_columns(
        """
        cluster
        rule
        kind
        broken_at TIMESTAMP
        ended_at TIMESTAMP
        known_to_at TIMESTAMP
        queue
        demand_id
        victim_demand_id
        segment BIGINT
        policy
        victim_gpu_milli BIGINT
        cost_milli_us BIGINT
        """
    ),
    sql_file="breach.sql",
    open_when="ended_at IS NULL",
    stages=("breach_overtaken", "breach_weight"),
    ground=("fact.gang", "fact.preemption"),
)

DEVIATION: Final = Ledger(
    name="deviation",
    columns=ledger_columns(
        """
        cluster
        device_uuid
        gi BIGINT
        pod_uid
        grain_at TIMESTAMP
        held_us BIGINT
        requested_mib_us BIGINT
        requested_us BIGINT
        granted_mib_us BIGINT
        granted_us BIGINT
        enforced_mib_us BIGINT
        enforced_observed_us BIGINT
        counted_mib_us BIGINT
        counted_observed_us BIGINT
        device_mib_us BIGINT
        device_observed_us BIGINT
        scheduler_mib_us BIGINT
        scheduler_observed_us BIGINT
        counted_less_device_mib_us BIGINT
        both_observed_us BIGINT
        requested_percent_us BIGINT
        granted_percent_us BIGINT
        counted_percent_us BIGINT
        counted_percent_observed_us BIGINT
        device_percent_us BIGINT
        device_percent_observed_us BIGINT
        scheduler_percent_us BIGINT
        scheduler_percent_observed_us BIGINT
        enforced_last_mib BIGINT
        counted_last_mib BIGINT
        device_last_mib BIGINT
        scheduler_last_mib BIGINT
        counted_last_ppm BIGINT
        device_last_ppm BIGINT
        scheduler_last_ppm BIGINT
        last_at TIMESTAMP
        device_path
        monitor_samples_count BIGINT
        scheduler_samples_count BIGINT
        device_samples_count BIGINT
        refused_count BIGINT
        """
    ),
    sql_file="deviation.sql",
    open_when=_RUNNING_GRAIN,
    closed_by={"device_sample": ("reduced", "dropped"), "process_sample": ("reduced", "dropped")},
    findings_file="deviation_findings.sql",
    ground=("fact.partition_sample", 'fact."grant"'),
    stages=("deviation_asked", "deviation_now", "deviation_held"),
    hours="deviation_hour",
    window_stages=(
        *SAMPLE_STAGES,
        "usage_stretch",
        "usage_holder",
        "deviation_partition",
        "deviation_span",
    ),
    in_memory=True,
)

GPU_STATE: Final = Ledger(
    name="gpu_state",
    columns=ledger_columns(
        """
        cluster
        place_kind
        place_id
        node
        device_uuid
        grain_at TIMESTAMP
        pod_uid
        unit_id
        state
        cause
        basis
        amount_gpu_us BIGINT
        """
    ),
    sql_file="gpu_state.sql",
    open_when=_RUNNING_GRAIN,
    closed_by={"device_sample": ("dropped",)},
    stages=("gpu_state_holder", "gpu_state_asked", "gpu_state_hang"),
    hours="gpu_state_hour",
    shared_stages=SAMPLE_STAGES,
    window_stages=(
        "gpu_state_odd",
        "gpu_state_unit",
        "gpu_state_path",
        "gpu_state_evidence",
        "gpu_state_book",
        "gpu_state_turn",
        "gpu_state_held",
        "gpu_state_free",
    ),
    in_memory=True,
    key_columns=("cluster", "place_kind", "place_id", "node", "device_uuid"),
    keys_of="supply_place",
)

EXCESS: Final = Ledger(
    name="excess",
    columns=ledger_columns(
        """
        cluster
        pod_uid
        device_uuid
        gi BIGINT
        rule
        grain_at TIMESTAMP
        started_at TIMESTAMP
        shown_to_at TIMESTAMP
        continues BOOLEAN
        is_last BOOLEAN
        basis
        samples_count BIGINT
        interval_us BIGINT
        granted_mib BIGINT
        peak_mib BIGINT
        excess_mib_us BIGINT
        granted_percent BIGINT
        peak_ppm BIGINT
        excess_gpu_us BIGINT
        excess_least_gpu_us BIGINT
        curve
        """
    ),
    sql_file="excess.sql",
    open_when=_RUNNING_GRAIN,
    closed_by={"device_sample": ("reduced", "dropped"), "process_sample": ("reduced", "dropped")},
    stages=("excess_held", "excess_spec", "excess_before"),
    hours="excess_hour",
    window_stages=("excess_board", "excess_counted", "excess_process", "excess_seen"),
    in_memory=True,
)

OVER_USE: Final = Ledger(
    name="over_use",
    columns=ledger_columns(
        """
        cluster
        pod_uid
        device_uuid
        gi BIGINT
        rule
        severity
        hard_reason
        started_at TIMESTAMP
        ended_at TIMESTAMP
        known_to_at TIMESTAMP
        samples_count BIGINT
        interval_us BIGINT
        granted_mib BIGINT
        peak_mib BIGINT
        excess_mib_us BIGINT
        granted_percent BIGINT
        peak_percent BIGINT
        excess_gpu_us BIGINT
        excess_least_gpu_us BIGINT
        basis
        evidence_grade
        """
    ),
    sql_file="over_use.sql",
    open_when="ended_at IS NULL",
)

COST: Final = Ledger(
    name="cost",
    columns=ledger_columns(
        """
        cluster
        place_kind
        place_id
        node
        device_uuid
        grain_at TIMESTAMP
        account
        pod_uid
        unit_id
        owner
        amount_gpu_us BIGINT
        used_gpu_us BIGINT
        used_upper_gpu_us BIGINT
        used_path
        currency
        cost_micro BIGINT
        price_id
        provisional BOOLEAN
        unpriced_reason
        """
    ),
    sql_file="cost.sql",
    open_when=_RUNNING_GRAIN,
    ground=("fact.price",),
    stages=("cost_place", "cost_owner", "money_holder", "charge_holder", "price_profile", "price_part", "price_rate"),
    hours="cost_hour",
    window_stages=(
        "money_price",
        "cost_site",
        "cost_booked",
        "cost_starting",
        "cost_blocked",
        "cost_class",
        "cost_stranded",
        "cost_unused",
        "cost_idle",
        "cost_amount",
        "cost_used",
    ),
    key_columns=("cluster", "place_kind", "place_id", "node", "device_uuid"),
    keys_of="cost_place",
)

CHARGE: Final = Ledger(
    name="charge",
    columns=ledger_columns(
        """
        cluster
        place_kind
        place_id
        node
        device_uuid
        grain_at TIMESTAMP
        pod_uid
        unit_id
        tenant
        line
        quantity_gpu_us BIGINT
        currency
        list_micro BIGINT
        discount_micro BIGINT
        charge_micro BIGINT
        price_id
        provisional BOOLEAN
        unpriced_reason
        """
    ),
    sql_file="charge.sql",
    open_when=_RUNNING_GRAIN,
    findings_file="money_findings.sql",
    ground=("fact.price",),
    stages=("charge_down",),
    hours="charge_hour",
    window_stages=("money_price", "charge_quantity"),
    key_columns=("cluster", "place_kind", "place_id", "node", "device_uuid"),
    keys_of="cost_place",
)

LEDGERS: Final[tuple[Ledger, ...]] = (
    HOLDING,
    SUPPLY,
    USAGE,
    CONTRADICTION,
    WAIT,
    QUOTA,
    BREACH,
    GPU_STATE,
    EXCESS,
    OVER_USE,
    DEVIATION,
    COST,
    CHARGE,
)

PASSING: Final = frozenset(
    stem for ledger in LEDGERS if ledger.in_memory for stem in (*ledger.shared_stages, *ledger.window_stages)
)
"""Stages of windows that stand as temporary tables."""
_OF_DIMENSION: Final = re.compile(r"\bdim\.([a-z_]+)\b")


@cache
def over_passing_stages(text: str) -> str:
    """A model's text that reads the ``PASSING`` stages where they stand."""
    return _OF_DIMENSION.sub(lambda found: f"temp.{found[1]}" if found[1] in PASSING else found[0], text)


FINDINGS: Final = (
    "inventory_findings.sql",
    "evidence_findings.sql",
    "reference_findings.sql",
    "kueue_findings.sql",
    "volcano_findings.sql",
    "kueue_metric_findings.sql",
)
"""Findings that stand on facts and dimensions alone and belong to no ledger; columns as ``Ledger.findings_file``."""

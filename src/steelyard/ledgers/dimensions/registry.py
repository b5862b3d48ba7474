"""The dimensions in the order in which they are built, and the two that are made in Python.

Each ``.sql`` beside this module is one SELECT over ``fact.*`` and the dimensions before it. The trick to know: nothing is kept from
one run to the next, so a dimension can never disagree with the facts; what must be remembered is a ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Final

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.definitions.models import power_limit_watts_of
from steelyard.ledgers.emptiness import EmptyTables
from steelyard.ledgers.parameters import ModelWeight, PostingParameters
from steelyard.ledgers.registry import model_text
from steelyard.primitives.instant import Instant, from_datetime
from steelyard.store import Store

STEMS: Final = (
    "parameter",
    "node",
    "node_zone",
    "device_sighting",
    "slot",
    "device",
    "device_power",
    "unit",
    "node_capacity",
    "measured_hour",
    "sampled_hour",
    "pod_life",
    "pod_alias",
    "mig_profile",
    "grant",
    "foreign_owner",
    "namespace_contact",
    "pod_owner",
    "workload",
    "pod",
    "claim",
    "known_span",
    "memory_sample",
    "gang",
    "demand_pod",
    "request_class",
    "demand",
    "demand_step",
    "step",
    "quota_fit",
    "node_fit",
    "preemption",
    "demand_outcome",
    "outcome",
    "job",
    "quota_change",
    "eviction",
    "refusal",
    "evidence_span",
    "price_line",
    "discount_line",
    "node_commitment",
    "tenancy_pod",
    "service_use",
    "token_counter",
)
"""``tenant_rule``, ``person_annotation``, ``rate_annotation``, ``contact_annotation``, ``contact``, ``state_threshold``, ``money_policy``,
``dedicated_node`` and ``commitment_rule`` come from the settings alone, ``model_weight`` from them and price books; ``mig_profile`` and
``device_power`` need the vendor's tables."""

VIEWS: Final[Mapping[str, str]] = {
    "step": "demand_step",
    "outcome": "demand_outcome",
    "token_counter": "service_use",
    "memory_sample": "device",
}
"""Of the stems: made when they are read, and standing wherever that table does."""

_MIG_COLUMNS: Final = (
    ("cluster", "VARCHAR"),
    ("node", "VARCHAR"),
    ("kind", "VARCHAR"),
    ("profile", "VARCHAR"),
    ("compute_slices", "BIGINT"),
    ("compute_slices_total", "BIGINT"),
    ("memory_slices", "BIGINT"),
    ("memory_slices_total", "BIGINT"),
    ("estimated", "BOOLEAN"),
)
_SHAPE: Final = ("cards_count", "share_ppm", "cpu_milli", "memory_mib", "cores_percent")
_MIG_PRODUCT: Final = "-MIG-"


def build_dimensions(store: Store, parameters: PostingParameters, now: Instant | None = None) -> EmptyTables:
    """Rebuild every dimension, within the caller's transaction; which of them are empty. ``now``: what agents observed more than a day after it
    moves no instant of the ledgers; None: nothing is bound."""
    empty = EmptyTables(store)
    tables = _tables(store)
    _build_settings(store, parameters)
    for stem in STEMS:
        if stem == "mig_profile":
            _build_mig_profile(store)
            continue
        if stem == "device_power":
            _build_device_power(store)
            continue
        if stem in VIEWS:
            _make_view(store, stem, in_place_of_table=stem in tables)
            if empty.yields_nothing(f"dim.{stem}", model_text(f"dimensions/{stem}.sql")):
                empty.note(f"dim.{stem}", 0)
            continue
        bound: Mapping[str, object] = {**parameters.bound(), "now_us": now} if stem == "parameter" else {}
        empty.build(stem, model_text(f"dimensions/{stem}.sql"), bound)
    return empty


def ensure_views(store: Store) -> None:
    """The views over dimensions that stand: a backup holds tables alone."""
    tables = _tables(store)
    for stem, table in VIEWS.items():
        if table in tables:
            _make_view(store, stem, in_place_of_table=stem in tables)


def _make_view(store: Store, stem: str, *, in_place_of_table: bool) -> None:
    """An older file has a table of that name."""
    if in_place_of_table:
        store.execute(f"DROP TABLE dim.{stem}")
    store.execute(f"CREATE OR REPLACE VIEW dim.{stem} AS {model_text(f'dimensions/{stem}.sql')}")


def _tables(store: Store) -> frozenset[str]:
    """The dimensions that stand as tables."""
    return frozenset(stem for (stem,) in store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dim'"))


def _build_settings(store: Store, parameters: PostingParameters) -> None:
    store.load_rows(
        "dim.tenant_rule",
        [
            ("position", "BIGINT"),
            ("attribute", "VARCHAR"),
            ("key", "VARCHAR"),
            ("like_pattern", "VARCHAR"),
            ("tenant", "VARCHAR"),
        ],
        [
            (position, rule.attribute, rule.key, rule.like, rule.tenant)
            for position, rule in enumerate(parameters.tenant_rules)
        ],
    )
    store.load_rows(
        "dim.model_weight",
        [
            ("position", "BIGINT"),
            ("model", "VARCHAR"),
            ("weight_ppm", "BIGINT"),
            ("valid_from_at", "TIMESTAMP"),
            ("valid_to_at", "TIMESTAMP"),
        ],
        [
            (position, weight.model, weight.weight_ppm, weight.valid_from_at, weight.valid_to_at)
            for position, weight in enumerate(_model_weights(store, parameters))
        ],
    )
    _load_money(store, parameters)
    store.load_rows(
        "dim.person_annotation",
        [("position", "BIGINT"), ("key", "VARCHAR")],
        list(enumerate(parameters.person_annotations)),
    )
    store.load_rows(
        "dim.rate_annotation",
        [("position", "BIGINT"), ("key", "VARCHAR")],
        list(enumerate(parameters.rate_annotations)),
    )
    store.load_rows(
        "dim.contact_annotation",
        [("position", "BIGINT"), ("key", "VARCHAR")],
        list(enumerate(parameters.contact_annotations)),
    )
    store.load_rows("dim.contact", [("namespace", "VARCHAR"), ("person", "VARCHAR")], list(parameters.contacts))
    thresholds = asdict(parameters.state)
    types = [(name, "BIGINT" if isinstance(value, int) else "DOUBLE") for name, value in thresholds.items()]
    store.load_rows("dim.state_threshold", types, [tuple(thresholds.values())])
    limits = asdict(parameters.over_use)
    types = [(name, "BOOLEAN" if isinstance(value, bool) else "BIGINT") for name, value in limits.items()]
    store.load_rows("dim.over_use_threshold", types, [tuple(limits.values())])
    exempt = {"namespace": parameters.exempt_namespaces, "process": parameters.exempt_processes}
    store.load_rows(
        "dim.over_use_exempt",
        [("kind", "VARCHAR"), ("name", "VARCHAR")],
        [(kind, name) for kind, names in exempt.items() for name in names],
    )
    _load_declared_classes(store, parameters)


def _model_weights(store: Store, parameters: PostingParameters) -> list[ModelWeight]:
    """The weights in the order in which they count: those of the settings, then those of the price books in force."""
    of_books = [
        ModelWeight(
            model,
            weight_ppm,
            *(None if moment is None else from_datetime(moment.replace(tzinfo=UTC)) for moment in span),
        )
        for model, weight_ppm, *span in store.rows(model_text("dimensions/book_weight.sql"))
    ]
    return [*parameters.model_weights, *of_books]


def _load_money(store: Store, parameters: PostingParameters) -> None:
    """``dim.money_policy`` (one row), ``dim.dedicated_node``, ``dim.commitment_rule``."""
    policy = parameters.money
    store.load_rows(
        "dim.money_policy",
        [
            ("charge_start", "VARCHAR"),
            ("burst", "VARCHAR"),
            ("reserved_unused", "VARCHAR"),
            ("idle_sharing", "VARCHAR"),
            ("platform_start_us", "BIGINT"),
            ("decode_ppm", "BIGINT"),
            ("cached_ppm", "BIGINT"),
            ("change_days", "BIGINT"),
            ("change_days_least", "BIGINT"),
            ("change_ratio_ppm", "BIGINT"),
            ("change_least_micro", "BIGINT"),
        ],
        [
            (
                policy.charge_start,
                policy.burst,
                policy.reserved_unused,
                policy.idle_sharing,
                policy.platform_start_us,
                policy.token_weights.decode_ppm,
                policy.token_weights.cached_ppm,
                policy.change.days,
                policy.change.days_least,
                policy.change.ratio_ppm,
                policy.change.least_micro,
            )
        ],
    )
    rules = {"dedicated_node": ("tenant", policy.dedicated), "commitment_rule": ("commitment", policy.commitments)}
    for table, (column, rows) in rules.items():
        store.load_rows(
            f"dim.{table}",
            [("position", "BIGINT"), ("like_pattern", "VARCHAR"), (column, "VARCHAR")],
            [(position, pattern, value) for position, (pattern, value) in enumerate(rows)],
        )


def _load_declared_classes(store: Store, parameters: PostingParameters) -> None:
    """``dim.declared_class``: the typical requests as they are declared, ``weight`` of all weights; no row: those of ``dim.request_class``."""
    types = dict.fromkeys(("position", "weight", *_SHAPE), "BIGINT") | {"profile": "VARCHAR", "models": "VARCHAR"}
    store.load_rows(
        "dim.declared_class",
        list(types.items()),
        [
            (
                position,
                each.weight,
                *(getattr(each.shape, name) for name in _SHAPE),
                each.shape.profile,
                "|".join(each.shape.models),
            )
            for position, each in enumerate(parameters.request_classes)
        ],
    )


def _build_device_power(store: Store) -> None:
    """``dim.device_power``: the power limit of each card's model, for samples that do not name the limit in force. No row: not known."""
    models = store.rows("SELECT cluster, device_uuid, max(model) FROM dim.device WHERE model IS NOT NULL GROUP BY ALL")
    watts = {model: power_limit_watts_of(model) for _cluster, _uuid, model in models}
    store.load_rows(
        "dim.device_power",
        [("cluster", "VARCHAR"), ("device_uuid", "VARCHAR"), ("power_limit_watts", "DOUBLE")],
        [(cluster, uuid, float(limit)) for cluster, uuid, model in models if isinstance(limit := watts[model], int)],
    )


def _build_mig_profile(store: Store) -> None:
    """``dim.mig_profile``: the slices of every profile that a grant or unit names without them, and of nodes whose product is a profile.

    One row per (cluster, node, profile); node '' = not known. A profile whose slices cannot be told has no row.
    """
    cards = {
        (cluster, node): (model, memory)
        for cluster, node, model, memory in store.rows(model_text("dimensions/mig_cards.sql"))
    }
    named = store.rows(model_text("dimensions/mig_named.sql"))
    siblings: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cluster, node, profile in named:
        siblings[cluster, node].add(profile)
    rows: list[Sequence[object]] = []
    for cluster, node, profile in named:
        model, memory = cards.get((cluster, node), (None, None))
        slices = mig_slices(
            profile, model, memory, siblings=sorted(siblings[cluster, node] - {profile}) if node else ()
        )
        if isinstance(slices, MigSlices):
            rows.append((cluster, node, "profile", profile, *_cells(slices)))
    for cluster, node, product, memory in store.rows(model_text("dimensions/mig_products.sql")):
        model, _, profile = product.partition(_MIG_PRODUCT)
        slices = mig_slices(profile, model, memory)
        if isinstance(slices, MigSlices):
            rows.append((cluster, node, "product", profile, *_cells(slices)))
    store.load_rows("dim.mig_profile", _MIG_COLUMNS, rows)


def _cells(slices: MigSlices) -> tuple[int, int, int, int, bool]:
    return slices.compute, slices.compute_total, slices.memory, slices.memory_total, slices.estimated

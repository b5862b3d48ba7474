"""From settings to posting parameters: what the ledgers are told of the settings file."""

from __future__ import annotations

from steelyard.app.settings import Settings
from steelyard.definitions.tenant import DEFAULT_RULES, TenantRule
from steelyard.ledgers.parameters import ModelWeight, PostingParameters
from steelyard.ledgers.posting import post_ledgers
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.instant import MINUTE_US
from steelyard.store import Store


def posting_parameters(settings: Settings) -> PostingParameters:
    """The settings as the ledgers take them. A weight's model glob becomes the words that must all occur in a card's model."""
    rules = tuple(
        TenantRule(rule.by, rule.key, None if rule.match == "*" else rule.match, rule.tenant)
        for rule in settings.tenant_rules
    )
    weights = tuple(
        ModelWeight(model.replace("*", " ").strip(), round(weight * 1_000_000))
        for model, weight in settings.model_weights.items()
    )
    return PostingParameters(
        grain_us=settings.grain_minutes * MINUTE_US,
        floor_by_slots=settings.floor_by_slots,
        history_days_max=settings.history_days_max,
        leak_grace_us=settings.leak_grace_minutes * MINUTE_US,
        wait_ceiling_us=settings.wait_ceiling_minutes * MINUTE_US,
        tenant_rules=rules or DEFAULT_RULES,
        model_weights=weights,
        person_annotations=settings.person_annotations,
        rate_annotations=settings.rate_annotations,
        contacts=tuple(sorted(settings.contacts.items())),
        state=settings.state.thresholds(),
        over_use=settings.over_use.thresholds(),
        exempt_namespaces=settings.over_use.exempt_namespaces,
        exempt_processes=settings.over_use.exempt_processes,
        contact_annotations=settings.contact_annotations,
        request_classes=settings.fragmentation.request_classes(),
        money=settings.money.policy(),
    )


def post(store: Store, settings: Settings, clock: Clock | None = None) -> int:
    """Post all ledgers; how many rows that appended, reversals included. The mark of unposted facts goes in the same transaction."""
    with store.transaction():
        result = post_ledgers(store, posting_parameters(settings), clock=clock or WallClock())
        store.mark_posted()
    return sum(change.posted + change.reversed for change in result.changes.values())


def post_what_was_cut_off(store: Store, settings: Settings, clock: Clock | None = None) -> None:
    """Post where an import ended between its facts and their posting, so that no answer mixes new facts with old ledgers, and where rounds
    came in after the last posting of a server that was killed."""
    if store.has_unposted() or store.has_collected():
        post(store, settings, clock)

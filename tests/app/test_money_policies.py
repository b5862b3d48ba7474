"""The table ``[money]`` of the settings becomes the policy of the ledgers, and nothing else passes for one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.app.posting import posting_parameters
from steelyard.app.settings import Settings
from steelyard.definitions.cost_change import ChangeRule
from steelyard.definitions.money import MoneyPolicy
from steelyard.definitions.token_split import TokenWeights
from steelyard.primitives.instant import MINUTE_US


def test_without_the_table_the_policy_is_the_definition_s() -> None:
    assert posting_parameters(Settings()).money == MoneyPolicy()


def test_each_setting_reaches_the_ledgers_and_globs_become_patterns() -> None:
    table: dict[str, Any] = {
        "charge_start": "bind",
        "burst": "charged",
        "reserved_unused": "charged",
        "idle_sharing": "even",
        "platform_start_minutes": 20,
        "dedicated": [{"node": "h100_*", "tenant": "vision"}],
        "commitments": [{"node": "spot-*", "commitment": "spot"}],
        "services": {"decode_weight": 2, "cached_weight": 0.5},
        "anomaly": {"days": 14, "days_least": 5, "percent": 12.5, "least": 0.5},
    }
    policy = posting_parameters(Settings.model_validate({"money": table})).money
    assert policy == MoneyPolicy(
        "bind", "charged", "charged", "even", (("h100!_%", "vision"),), (("spot-%", "spot"),), 20 * MINUTE_US,
        TokenWeights(2_000_000, 500_000), ChangeRule(14, 5, 125_000, 500_000),
    )  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [
        {"charge_start": "created"},
        {"burst": True},
        {"idle_sharing": "weighted"},
        {"platform_start_minutes": -1},
        {"dedicated": [{"node": "", "tenant": "x"}]},
        {"dedicated": [{"node": "n1"}]},
        {"commitments": [{"node": "n1", "commitment": "cheap"}]},
        {"charge": "running"},
        {"anomaly": {"days": 2, "days_least": 3}},
        {"anomaly": {"percent": "NaN"}},
    ],
)
def test_what_is_no_policy_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"money": table})

import pytest

from steelyard.definitions.tenant import UNMAPPED, PodBelonging, TenantRule, tenant_of
from steelyard.primitives.errors import UsageError

POD = PodBelonging("team-a-dev", {"team": "vision", "example.com/unit": "x"}, {"cost": "cc-7"}, "train", "batch")


@pytest.mark.parametrize(
    ("rules", "tenant"),
    [
        ([TenantRule("namespace")], "team-a-dev"),
        ([TenantRule("namespace", pattern="team-a*", tenant="a")], "a"),
        ([TenantRule("namespace", pattern="*-dev", tenant="dev"), TenantRule("namespace")], "dev"),
        ([TenantRule("namespace", pattern="team-b*", tenant="b"), TenantRule("label", key="team")], "vision"),
        ([TenantRule("label", key="absent"), TenantRule("annotation", key="cost")], "cc-7"),
        ([TenantRule("queue", pattern="b*h")], "batch"),
        ([TenantRule("workload", pattern="TRAIN")], UNMAPPED),
        ([TenantRule("namespace", pattern="team_a%dev")], UNMAPPED),
        ([], UNMAPPED),
    ],
)
def test_the_first_matching_rule_names_the_tenant(rules: list[TenantRule], tenant: str) -> None:
    assert tenant_of(POD, rules) == tenant


@pytest.mark.parametrize(
    "wrong", [("label", None), ("namespace", "team"), ("owner", None), ("label", 'a"b'), ("label", "")]
)
def test_a_rule_that_cannot_work_is_refused(wrong: tuple[str, str | None]) -> None:
    with pytest.raises(UsageError):
        TenantRule(*wrong)


def test_a_pattern_of_many_wildcards_is_matched_in_linear_time() -> None:
    pod = PodBelonging("a" * 200)
    assert tenant_of(pod, [TenantRule("namespace", pattern="*a" * 100 + "b", tenant="t")]) == UNMAPPED

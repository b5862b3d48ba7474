"""What sources leave open is unknown in the answers, never free: dumps through the importer, then Q1 and Q2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, Instant, Window, parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from tests.app.import_samples import CARD, import_files, listing, node, pod, shared_pod, write

SECOND_US = 1_000_000
NOON = parse_instant("2026-03-01T12:10:00Z")


def plain(name: str, gpus: int, *, labels: bool = True, ready: str = "True") -> dict[str, Any]:
    """A node of the stock device plugin."""
    tags = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"} if labels else {}
    state = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-02-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": tags},
        "status": {
            "capacity": {"nvidia.com/gpu": str(gpus)},
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [state],
        },
    }


def system() -> dict[str, Any]:
    """A pod of another namespace without a card: the listing reaches the whole cluster."""
    other = pod("dns", gpus=0)
    other["metadata"]["namespace"] = "kube-system"
    other["spec"]["containers"][0]["resources"] = {}
    return other


def asking(quantity: str) -> dict[str, Any]:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = quantity
    return odd


def claiming(text: str) -> dict[str, Any]:
    odd = shared_pod("odd")
    odd["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = text
    return odd


def take(data: Path, *items: dict[str, Any], minute: int = 0, name: str = "dump") -> None:
    path = write(data.parent / f"{name}-{minute}.json", listing(*items))
    import_files(data, path, post=lambda store: post(store, Settings()), as_of=NOON + minute * 60 * SECOND_US)


def q1(data: Path, **spec: Any) -> Answer:
    with Store.open(data, read_only=True) as store:
        return holders(store, HoldersSpec(**spec))


def q2(data: Path, **spec: Any) -> Answer:
    with Store.open(data, read_only=True) as store:
        return consumption(store, ConsumptionSpec(**spec))


def figures(result: Answer) -> dict[str, Any]:
    return {figure.name: figure.value for figure in result.figures}


def cards(result: Answer) -> list[dict[str, Any]]:
    found = next(table for table in result.tables if table.name == "devices")
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def test_one_dump_counts_every_node_of_the_cluster_also_the_idle_ones(tmp_path: Path) -> None:
    take(tmp_path / "d", plain("n1", 2), plain("n2", 2), plain("n3", 8), pod("a"), system())
    result = q1(tmp_path / "d")
    values = figures(result)
    assert (values["gpus_supply"], values["gpus_free"], result.coverage) == (12, 11, 1.0)


def test_a_node_counts_from_its_first_sighting_and_whole_at_once(tmp_path: Path) -> None:
    take(tmp_path / "d", plain("n1", 2), pod("a"), system())
    for minute in (30, 40):
        take(tmp_path / "d", plain("n1", 2), plain("n3", 8), pod("a"), system(), minute=minute)
    assert figures(q1(tmp_path / "d"))["gpus_supply"] == 10
    assert figures(q1(tmp_path / "d", at=NOON + 10 * 60 * SECOND_US))["gpus_supply"] == 2


def test_cards_first_seen_after_the_last_pod_listing_are_there_now(tmp_path: Path) -> None:
    take(tmp_path / "d", shared_pod("a"), system())
    take(tmp_path / "d", node(), minute=5, name="nodes")
    values = figures(q1(tmp_path / "d"))
    assert (values["devices_count"], values["gpus_supply"], float(values["gpus_free"])) == (1, 1, 0.7)


@pytest.mark.parametrize(
    "items",
    [
        (plain("n1", 2), asking("abc")),
        (plain("n1", 2), asking("-3")),
        (plain("n1", 2), asking("1500m")),
        (node(), pod("odd")),
        (node(), claiming(f"{CARD},NVIDIA,1000,1000000000:;")),
        (node(), claiming(f"{CARD},NVIDIA,1000,-5:;")),
        (node(), claiming(f"{CARD},NVIDIA,1000,NaN:;")),
    ],
    ids=["abc", "-3", "1500m", "no grant", "cores beyond any card", "negative cores", "NaN"],
)
def test_what_a_pod_with_an_unreadable_claim_may_hold_is_not_free(
    tmp_path: Path, items: tuple[dict[str, Any], ...]
) -> None:
    take(tmp_path / "d", *items, system())
    result = q1(tmp_path / "d")
    free = figures(result)["gpus_free"]
    assert isinstance(free, Unknown) and "team-a/odd" in free.reason
    assert isinstance(result.coverage, float) and result.coverage < 1
    assert all(isinstance(card["share_free_ratio"], Unknown) and card["occupancy"] != "free" for card in cards(result))


def test_a_claim_that_names_its_card_leaves_the_others_free(tmp_path: Path) -> None:
    other = node()
    register = json.loads(other["metadata"]["annotations"]["hami.io/node-nvidia-register"])
    register.append({**register[0], "id": CARD[:-1] + "2", "index": 1})
    other["metadata"]["annotations"]["hami.io/node-nvidia-register"] = json.dumps(register)
    take(tmp_path / "d", other, claiming(f"{CARD},NVIDIA,1000,1000000000:;"), system())
    assert [card["occupancy"] for card in cards(q1(tmp_path / "d"))] == ["unobserved", "free"]


def test_a_pod_that_is_over_by_then_casts_no_doubt(tmp_path: Path) -> None:
    odd = claiming(f"{CARD},NVIDIA,1000,NaN:;")
    odd["status"]["phase"] = "Succeeded"
    take(tmp_path / "d", node(), odd, system())
    assert figures(q1(tmp_path / "d"))["gpus_free"] == 1


def test_a_node_that_nothing_counts_makes_supply_and_free_unknown(tmp_path: Path) -> None:
    take(tmp_path / "d", plain("n1", 8, labels=False), pod("a"), system())
    result = q1(tmp_path / "d")
    values = figures(result)
    for name in ("gpus_supply", "gpus_free"):
        assert isinstance(values[name], Unknown) and "no capacity basis for node n1" in values[name].reason
    assert isinstance(result.coverage, Unknown)
    assert values["gpus_held"] == 1


def test_what_is_down_and_not_held_is_out_of_service_and_not_free(tmp_path: Path) -> None:
    take(tmp_path / "d", plain("n1", 2, ready="False"), plain("n2", 4), pod("a"), system())
    values = figures(q1(tmp_path / "d"))
    assert (values["gpus_held"], values["gpus_out_of_service"], values["gpus_free"]) == (1, 1, 4)


def test_a_card_that_its_register_calls_unhealthy_is_out_of_service(tmp_path: Path) -> None:
    ill = node()
    key = "hami.io/node-nvidia-register"
    ill["metadata"]["annotations"][key] = json.dumps(
        [{**card, "health": False} for card in json.loads(ill["metadata"]["annotations"][key])]
    )
    take(tmp_path / "d", node(), pod("a", gpus=0), system())
    take(tmp_path / "d", ill, pod("a", gpus=0), system(), minute=5)
    now, before = q1(tmp_path / "d"), q1(tmp_path / "d", at=NOON)
    assert (cards(now)[0]["occupancy"], figures(now)["gpus_free"]) == ("out_of_service", 0)
    assert (cards(before)[0]["occupancy"], figures(before)["gpus_free"]) == ("free", 1)


def test_a_finished_pod_of_a_clock_ahead_does_not_move_now_and_holds_nothing_then(tmp_path: Path) -> None:
    over = shared_pod("over")
    over["status"]["phase"] = "Succeeded"
    over["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"startedAt": "2026-03-01T12:01:00Z", "finishedAt": "2026-03-01T12:40:00Z"}
    }
    take(tmp_path / "d", node(), shared_pod("live"), over, system())
    result = q1(tmp_path / "d")
    assert result.as_of == NOON
    assert (figures(result)["holders_count"], float(figures(result)["gpus_held"])) == (1, 0.3)


def test_a_pod_seen_running_holds_although_its_stamps_run_ahead(tmp_path: Path) -> None:
    ahead = json.loads(json.dumps(shared_pod("ahead")).replace("T12:0", "T12:3"))
    take(tmp_path / "d", node(), ahead, system())
    result = q1(tmp_path / "d")
    assert (result.as_of, figures(result)["holders_count"]) == (NOON, 1)


def hours(data: Path, start: Instant, end: Instant) -> dict[str, int]:
    """Granted, over-committed and memory of a window, in GPU-us and MiB-us."""
    values = figures(q2(data, window=Window(start, end)))
    names = ("gpu_hours_granted", "gpu_hours_overcommitted", "compute_granted_gpu_hours", "memory_granted_mib_hours")
    return {name: values[name] if isinstance(values[name], Unknown) else values[name] * HOUR_US for name in names}


@pytest.mark.parametrize(
    "items",
    [
        (shared_pod("a"), claiming(f"{CARD},NVIDIA,8192,50:;")),
        (plain("n1", 2), pod("a", gpus=2), pod("b", gpus=3), pod("c")),
        (node(), shared_pod("a"), shared_pod("b"), shared_pod("c"), shared_pod("d")),
        (pod("a"), pod("b", gpus=2)),
    ],
    ids=["share not known", "a counted node given out twice", "a card given out beyond itself", "no capacity basis"],
)
def test_windows_that_meet_add_up_to_the_whole_wherever_they_cut_a_grain(
    tmp_path: Path, items: tuple[dict[str, Any], ...]
) -> None:
    data, start = tmp_path / "d", parse_instant("2026-03-01T13:00:00Z")
    take(data, *items, system(), minute=200)
    end = start + 2 * HOUR_US
    whole = hours(data, start, end)
    assert whole["gpu_hours_granted"] > 0
    for seconds in (1, 1799, 3600, 5400, 7199):
        middle = start + seconds * SECOND_US
        before, after = hours(data, start, middle), hours(data, middle, end)
        for name, amount in whole.items():
            if not isinstance(amount, Unknown):
                assert abs(before[name] + after[name] - amount) <= 4 * len(items), (name, seconds)


def test_a_pod_bound_at_the_very_end_of_the_window_was_served(tmp_path: Path) -> None:
    late = json.loads(json.dumps(shared_pod("late")).replace("12:00:20Z", "12:10:00Z"))
    take(tmp_path / "d", node(), late, system())
    assert figures(q2(tmp_path / "d"))["requests_unserved"] == 0


@pytest.mark.parametrize(
    ("where", "near"),
    [
        ({"gpu": "n1/999"}, "no card is called 'n1/999'; the nearest are: n1/0"),
        ({"device": "GPU-99999999"}, CARD),
        ({"pod": "team-a/alive"}, "no pod is called 'team-a/alive'; the nearest are: team-a/live"),
        ({"tenant": "team-b"}, "no tenant is called 'team-b'; the nearest are: team-a"),
    ],
)
@pytest.mark.parametrize("ask", [q1, q2])
def test_a_name_that_nobody_knows_is_refused_with_the_nearest(
    tmp_path: Path, ask: Any, where: dict[str, str], near: str
) -> None:
    take(tmp_path / "d", node(), shared_pod("live"), system())
    with pytest.raises(UsageError) as refusal:
        ask(tmp_path / "d", where=where)
    assert near in str(refusal.value)
    ask(tmp_path / "d", where=where, confined=True)


@pytest.mark.parametrize(
    "where", [{"gpu": "n1/0"}, {"gpu": CARD}, {"pod": "dns"}, {"tenant": "kube-system"}, {"node": "nowhere"}]
)
@pytest.mark.parametrize("ask", [q1, q2])
def test_a_name_that_is_known_and_holds_nothing_is_answered(tmp_path: Path, ask: Any, where: dict[str, str]) -> None:
    take(tmp_path / "d", node(), system())
    assert figures(ask(tmp_path / "d", where=where)).get("gpus_held", 0) == 0


def test_the_card_of_a_pod_that_vanished_is_not_free_between_its_last_sighting_and_its_absence(tmp_path: Path) -> None:
    def listed(minute: int, *items: dict[str, Any]) -> None:
        path = write(tmp_path / f"watched-{minute}.json", listing(*items))
        instant = NOON + minute * 60 * SECOND_US
        import_files(
            tmp_path / "d",
            path,
            post=lambda store: post(store, Settings()),
            as_of=instant,
            expected_interval_us=HOUR_US,
        )

    other = system()
    other["metadata"] |= {"namespace": "team-b", "name": "web", "uid": "uid-web"}
    listed(0, node(), shared_pod("gone"), system(), other)
    listed(60, node(), system(), other)
    tail = figures(q1(tmp_path / "d", at=NOON + 30 * 60 * SECOND_US))
    assert isinstance(tail["gpus_free"], Unknown)
    assert (tail["gpus_held"], tail["holders_possible_count"], tail["gpus_unobserved"]) == (0, 1, 1)
    assert figures(q1(tmp_path / "d"))["gpus_free"] == 1


def test_a_listing_of_one_namespace_frees_nothing_unless_it_is_said_to_be_of_the_whole_cluster(tmp_path: Path) -> None:
    path = write(tmp_path / "pods.json", listing(node(), shared_pod("a")))
    told = {"post": lambda store: post(store, Settings()), "as_of": NOON}
    import_files(tmp_path / "d", path, **told)
    before = q1(tmp_path / "d")
    assert isinstance(figures(before)["gpus_free"], Unknown)
    assert any("namespace team-a alone" in spot for spot in before.blind_spots)
    assert any("--all-namespaces" in action for action in before.next_actions)
    import_files(tmp_path / "d", path, all_namespaces=True, **told)
    after = q1(tmp_path / "d")
    assert float(figures(after)["gpus_free"]) == 0.7
    assert not any("--all-namespaces" in action for action in after.next_actions)


def test_a_cluster_said_to_have_no_pods_at_all_is_free(tmp_path: Path) -> None:
    nodes, pods = (
        write(tmp_path / "nodes.json", listing(node())),
        write(tmp_path / "pods.json", listing(kind="PodList")),
    )
    told = {"post": lambda store: post(store, Settings()), "as_of": NOON}
    import_files(tmp_path / "d", nodes, pods, all_namespaces=True, **told)
    assert figures(q1(tmp_path / "d"))["gpus_free"] == 1


def test_counted_cards_beside_a_listing_of_one_namespace_are_not_all_seen_and_that_is_said(tmp_path: Path) -> None:
    take(tmp_path / "d", plain("n1", 2), pod("a"))
    result = q1(tmp_path / "d")
    assert any("namespace team-a alone" in spot for spot in result.blind_spots)
    assert any("--all-namespaces" in action for action in result.next_actions)


def test_who_may_not_know_of_others_is_not_told_which_namespace_was_listed(tmp_path: Path) -> None:
    take(tmp_path / "d", node(), shared_pod("a"))
    result = q1(tmp_path / "d", where={"tenant": "team-b"}, confined=True)
    assert "team-a" not in " ".join((*result.blind_spots, *result.next_actions))


@pytest.mark.parametrize(
    ("rules", "tenants"),
    [
        ([], ["outside-kubernetes"]),
        ([{"by": "label", "key": "tenant"}, {"by": "namespace"}], ["hpc", "lab"]),
    ],
)
def test_lent_cards_belong_to_one_tenant_unless_a_rule_names_their_holders(
    tmp_path: Path, rules: list[dict[str, str]], tenants: list[str]
) -> None:
    settings = Settings.model_validate({"tenant_rules": rules})
    rows = ["device_uuid,holder,kind,from,to,approver"]
    rows += [f"GPU-{holder},{holder},vm,2026-03-01,2026-04-01,c.ito" for holder in ("hpc", "lab")]
    import_files(
        tmp_path / "d",
        write(tmp_path / "lent.csv", "\n".join(rows)),
        settings=settings,
        post=lambda store: post(store, settings),
        as_of=NOON,
    )
    found = next(table for table in q1(tmp_path / "d", by=["tenant"]).tables if table.name == "groups")
    assert [row[0] for row in found.rows] == tenants

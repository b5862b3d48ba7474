"""A watch loses nothing, doubles nothing, and never claims what it did not see, whatever the server does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import kmock
import pytest

from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.kube_api.resource_kinds import EVENTS, NODES, PODS, ResourceKind
from steelyard.sources.kube_api.watch import (
    FORBIDDEN,
    NOT_INSTALLED,
    OK,
    RELIST,
    WATCH_DELETED,
    WATCH_RESUMED,
    ClusterTarget,
    ClusterWatch,
)
from tests.sources.kube_api.played_cluster import (
    QUICK,
    PlayedCluster,
    bookmark,
    drop,
    event,
    page,
    pod,
    refusal,
    status,
)

WORKLOADS = ResourceKind("Workload", "workloads", ("v1beta2", "v1beta1"), "kueue.x-k8s.io")


def test_all_pages_are_listed_and_the_watch_goes_on_from_the_version_of_the_first() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 3), version=7, then="next"), page(pod("b", 5), version=9))
        cluster.watches((b"", event("ADDED", pod("c", 8)), cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("a", "b", "c")
        lists = cluster.requests(kmock.action.LIST)
        assert [request.params.get("continue") for request in lists] == [None, "next"]
        assert [request.params["limit"] for request in lists] == ["500", "500"]
        assert cluster.requests(kmock.action.WATCH)[0].params["resourceVersion"] == "7"
        assert watched.seen == [("a", "3"), ("b", "5"), ("c", "8")]
        assert watched.status().status == OK
        assert watched.status().objects_count == 3


def test_a_dropped_watch_is_resumed_from_the_last_version_without_a_new_list() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches(
            (event("ADDED", pod("b", 2)), drop),
            (event("ADDED", pod("b", 2)), event("ADDED", pod("c", 3)), cluster.hold),
        )
        with cluster.watched() as watched:
            watched.until_seen("c")
        assert watched.seen == [("a", "1"), ("b", "2"), ("c", "3")]
        assert [request.params["resourceVersion"] for request in cluster.requests(kmock.action.WATCH)] == ["1", "2"]
        assert len(cluster.requests(kmock.action.LIST)) == 1
        assert watched.status().reconnects_count == 1


def test_coverage_is_one_stretch_across_a_resumed_watch() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((event("ADDED", pod("b", 2)), drop), (event("ADDED", pod("c", 3)), cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("c")
        told = [each for each in watched.statuses() if each.observed_from_at is not None]
        assert told
        assert not any(each.earlier for each in watched.statuses())
        for one, next_one in pairwise(told):
            assert one.observed_to_at == next_one.observed_from_at


@pytest.mark.parametrize("form", ["event", "http", "reason"])
def test_a_forgotten_version_leads_to_a_new_list_in_any_of_its_forms(form: str) -> None:
    answers = {
        "event": ({"type": "ERROR", "object": status(410, "too old resource version", "Expired")},),
        "reason": ({"type": "ERROR", "object": {"kind": "Status", "reason": "Expired"}},),
        "http": refusal(410, "too old resource version", "Expired"),
    }
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), pod("b", 2), version=5), page(pod("a", 1), pod("c", 8), version=9))
        cluster.watches(answers[form], (b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("c").until(lambda found: bool(found.gone))
        assert watched.seen == [("a", "1"), ("b", "2"), ("c", "8")], "what did not change is not news"
        assert watched.status().relists_count == 1


def test_what_a_new_list_no_longer_names_ended_between_its_last_two_sightings() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), pod("b", 2), version=5), page(pod("a", 1), version=9))
        cluster.watches((bookmark(6), {"type": "ERROR", "object": status(410)}), (b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until(lambda found: bool(found.gone))
        (gone,) = watched.gone
        assert (gone.uid, gone.basis, gone.object_kind) == ("uid-b", RELIST, "Pod")
        assert gone.last_seen_at < gone.gone_at
        assert gone.gone_at == watched.status().listed_at
        seen_to = max(
            to
            for each in watched.statuses()
            for _, to in ((0, each.observed_to_at or 0), *each.earlier)
            if to <= gone.last_seen_at
        )
        assert gone.last_seen_at == seen_to, "the bookmark proved that it was there still"


def test_a_relist_breaks_the_stretch_that_was_seen() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(version=5), page(pod("x", 8), version=9))
        cluster.watches((bookmark(6), {"type": "ERROR", "object": status(410)}), (bookmark(10), cluster.hold))
        with cluster.watched() as watched:
            watched.until(
                lambda found: any(each.relists_count and each.observed_to_at is not None for each in found.statuses())
            )
        stretches = [
            stretch
            for each in watched.statuses()
            for stretch in (*each.earlier, (each.observed_from_at, each.observed_to_at))
            if stretch[0] is not None
        ]
        breaks = [next_one[0] - one[1] for one, next_one in pairwise(stretches)]
        assert all(each >= 0 for each in breaks)
        assert sum(each > 0 for each in breaks) == 1


def test_a_stretch_that_broke_before_anybody_asked_is_told_as_an_earlier_one() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(version=5), page(version=9))
        cluster.watches((bookmark(6), {"type": "ERROR", "object": status(410)}), (b"", cluster.hold))
        with cluster.watched() as watched:
            cluster.until(lambda: len(cluster.requests(kmock.action.WATCH)) == 2)
            told = watched.until(lambda found: True).status()
        ((start, end),) = told.earlier
        assert start < end < told.healthy_since_at
        assert told.first_listing_at == start


def test_a_deletion_reported_right_after_an_interruption_lies_between_the_last_proof_and_the_report() -> None:
    clock = FixedClock(1_000_000_000)

    def later(_: kmock.Request) -> object:
        clock.instant += 60_000_000
        return (event("DELETED", pod("a", 4)), cluster.hold)

    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((event("ADDED", pod("b", 2)), drop), later)
        with cluster.watched(clock=clock) as watched:
            watched.until(lambda found: bool(found.gone))
        (gone,) = watched.gone
        assert (gone.last_seen_at, gone.gone_at, gone.basis) == (1_000_000_000, 1_060_000_000, WATCH_RESUMED)


def test_two_clusters_are_watched_beside_each_other_under_their_own_names() -> None:
    with PlayedCluster() as east, PlayedCluster() as west:
        for each, name in ((east, "a"), (west, "b")):
            each.lists(page(pod(name, 1), version=1))
            each.watches((b"", each.hold))
        found = {}
        for name, played in (("east", east), ("west", west)):
            with ClusterWatch(played.target(name), (PODS,), QUICK) as watch:
                rounds = list(watch.rounds_until_listed(30.0))
            found |= {taken.cluster: b"".join(each.raw for each in taken.changed) for taken in rounds if taken.changed}
        assert {
            name: name_in in text for (name, text), name_in in zip(found.items(), (b"uid-a", b"uid-b"), strict=True)
        } == {
            "east": True,
            "west": True,
        }


def test_a_deletion_reported_live_ends_the_object_at_that_instant_with_its_last_state() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((event("DELETED", pod("a", 4, phase="Failed")), cluster.hold))
        with cluster.watched() as watched:
            watched.until(lambda found: bool(found.gone))
        (gone,) = watched.gone
        assert (gone.uid, gone.basis) == ("uid-a", WATCH_DELETED)
        assert gone.last_seen_at == gone.gone_at
        assert watched.seen == [("a", "1"), ("a", "4")]
        assert watched.status().objects_count == 0


def test_the_same_version_twice_is_news_once_and_a_deletion_twice_is_one_end() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        twice = (event("MODIFIED", pod("a", 2)), event("MODIFIED", pod("a", 2)))
        cluster.watches(
            (
                *twice,
                event("DELETED", pod("a", 3)),
                event("DELETED", pod("a", 3)),
                event("ADDED", pod("z", 9)),
                cluster.hold,
            )
        )
        with cluster.watched() as watched:
            watched.until_seen("z")
        assert watched.seen == [("a", "1"), ("a", "2"), ("a", "3"), ("z", "9")]
        assert [each.uid for each in watched.gone] == ["uid-a"]


def test_an_older_version_that_comes_late_never_overwrites_a_newer_one() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 5), version=5))
        late = (event("MODIFIED", pod("a", 7)), event("MODIFIED", pod("a", 6)), event("DELETED", pod("a", 8)))
        cluster.watches((*late, event("MODIFIED", pod("a", 7)), event("ADDED", pod("z", 9)), cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("z")
        assert watched.seen == [("a", "5"), ("a", "7"), ("a", "8"), ("z", "9")]
        assert watched.status().objects_count == 1, "a late word does not revive what was deleted"


def test_a_store_that_went_back_is_taken_as_it_is_now() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 50), version=60), page(pod("a", 20), version=30))
        cluster.watches(({"type": "ERROR", "object": status(410)},), (event("MODIFIED", pod("a", 31)), cluster.hold))
        with cluster.watched() as watched:
            watched.until(lambda found: ("a", "31") in found.seen)
        assert watched.seen == [("a", "50"), ("a", "20"), ("a", "31")]


def test_an_expired_continuation_begins_the_list_anew() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(
            page(pod("a", 1), version=5, then="x"),
            refusal(410, "the provided continue parameter is too old", "Expired"),
            page(pod("a", 1), version=8, then="y"),
            page(pod("b", 6), version=8),
        )
        cluster.watches((b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until(lambda found: found.status().listed_at is not None).until_seen("b")
        assert cluster.requests(kmock.action.WATCH)[0].params["resourceVersion"] == "8"
        assert watched.status().objects_count == 2
        assert not watched.gone
        assert watched.status().last_error is None, "an expired page is no failure"


def test_a_kind_that_is_not_installed_is_no_error_and_is_found_when_it_comes() -> None:
    with PlayedCluster() as cluster:
        cluster.handler["get /apis/kueue.x-k8s.io/v1beta2"] << kmock.Response(
            status=404, payload=b"404 page not found\n"
        )
        with cluster.watched(WORKLOADS) as watched:
            watched.until(lambda found: found.status(WORKLOADS.word).status == NOT_INSTALLED)
            assert watched.status(WORKLOADS.word).last_error is None
            old = replace(WORKLOADS, versions=("v1beta1",))
            cluster.lists(page(pod("w", 1), version=1), kind=old)
            cluster.watches((b"", cluster.hold), kind=old)
            watched.until_seen("w")
        assert watched.status(WORKLOADS.word).api_version == "kueue.x-k8s.io/v1beta1"


def test_a_group_without_the_kind_is_not_installed() -> None:
    with PlayedCluster() as cluster:
        cluster.quiet(ResourceKind("Queue", "queues", ("v1beta1",), "scheduling.volcano.sh"))
        podgroups = ResourceKind("PodGroup", "podgroups", ("v1beta1",), "scheduling.volcano.sh")
        with cluster.watched(podgroups) as watched:
            watched.until(lambda found: found.status(podgroups.word).status == NOT_INSTALLED)


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_forbidden_kind_names_the_verb_and_resource_to_grant(verb: str) -> None:
    no = refusal(403, 'workloads.kueue.x-k8s.io is forbidden: User "x" cannot list', "Forbidden")
    with PlayedCluster() as cluster:
        cluster.lists(no if verb == "list" else page(version=1), kind=WORKLOADS)
        cluster.watches(no if verb == "watch" else (b"", cluster.hold), kind=WORKLOADS)
        bounds = replace(QUICK, recheck_seconds=60.0)
        with cluster.watched(WORKLOADS, bounds=bounds) as watched:
            watched.until(lambda found: found.status(WORKLOADS.word).status == FORBIDDEN)
        told = watched.status(WORKLOADS.word)
        assert told.grant == f"{verb} workloads.kueue.x-k8s.io"
        assert "forbidden" in told.last_error


def test_events_are_taken_from_the_other_group_where_the_core_ones_are_forbidden() -> None:
    assert EVENTS.fallback is not None
    with PlayedCluster() as cluster:
        cluster.lists(refusal(403), kind=EVENTS)
        cluster.lists(page(pod("e", 1), version=1), kind=EVENTS.fallback)
        cluster.watches((b"", cluster.hold), kind=EVENTS.fallback)
        with cluster.watched(EVENTS) as watched:
            watched.until_seen("e")
        assert watched.status("events").api_version == "events.k8s.io/v1"


def test_a_hanging_kind_holds_up_no_other() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(lambda _: (b"", cluster.hold))
        cluster.lists(page(pod("node", 1), version=1), kind=NODES)
        cluster.watches((b"", cluster.hold), kind=NODES)
        with cluster.watched(PODS, NODES) as watched:
            watched.until_seen("node")
            assert watched.status("pods").status not in (OK, NOT_INSTALLED)
        assert watched.status("pods").observed_to_at is None


def test_a_watch_in_silence_beyond_its_time_is_given_up_and_resumed() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((event("ADDED", pod("b", 2)), cluster.hold), (event("ADDED", pod("c", 3)), cluster.hold))
        with cluster.watched(bounds=replace(QUICK, timeout_seconds=0, silence_seconds=0.2)) as watched:
            watched.until_seen("c")
        assert cluster.requests(kmock.action.WATCH)[1].params["resourceVersion"] == "2"
        assert len(cluster.requests(kmock.action.LIST)) == 1


def test_a_server_that_cannot_resume_is_listed_anew_after_some_attempts() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1), page(pod("b", 2), version=2))
        cluster.watches(*[refusal(500)] * 3, (b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("b").until(lambda found: found.status().status == OK)
        assert len(cluster.requests(kmock.action.WATCH)) == 1 + QUICK.reconnects_max + 1
        assert [each.uid for each in watched.gone] == ["uid-a"]
        assert "500" in (watched.status().last_error or "")


def test_a_server_without_bookmarks_proves_coverage_by_the_orderly_end_of_a_watch() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((b"", b""), (b"", cluster.hold))
        with cluster.watched(bounds=replace(QUICK, timeout_seconds=0)) as watched:
            watched.until(lambda found: any(each.observed_to_at is not None for each in found.statuses()))
        assert watched.seen == [("a", "1")]


def test_lines_that_cannot_be_read_are_counted_and_the_stream_goes_on() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), {"metadata": {"uid": 7}}, version=1))
        long = b'{"type": "ADDED", "object": {"metadata": {"uid": "' + b"x" * 300_000 + b'"}}}\n'
        odd = [
            b"{not json\n",
            b"[" * 100_000 + b"\n",
            long,
            b'{"type": "ADDED"}\n',
            b'{"type": "NEW", "object": {"metadata": {"uid": "q"}}}\n',
        ]
        cluster.watches((*odd, event("ADDED", pod("z", 9)), cluster.hold))
        with cluster.watched(bounds=replace(QUICK, object_bytes_max=200_000)) as watched:
            watched.until_seen("z")
        assert watched.seen == [("a", "1"), ("z", "9")]
        told = watched.status()
        assert told.refused_count == 6
        assert not told.complete, "something was there that could not be read"


def test_absence_from_a_list_with_an_unreadable_object_ends_nothing() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1), page({"metadata": 5}, pod("z", 9), version=9))
        cluster.watches(({"type": "ERROR", "object": status(410)},), (b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("z").until(lambda found: found.status().relists_count == 1)
        assert not watched.gone


@pytest.mark.parametrize("items", [{"items": None}, {}], ids=["null", "absent"])
def test_a_list_without_items_is_no_list_and_ends_nothing(items: dict[str, None]) -> None:
    with PlayedCluster() as cluster:
        nothing = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, **items}
        cluster.lists(page(pod("a", 1), version=1), nothing, page(pod("a", 1), pod("b", 10), version=10))
        cluster.watches(({"type": "ERROR", "object": status(410)},), (b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("b")
        assert not watched.gone


def test_a_full_queue_makes_the_server_wait_and_loses_nothing() -> None:
    names = [f"p{number}" for number in range(200)]
    with PlayedCluster() as cluster:
        cluster.lists(page(*[pod(name, 1) for name in names], version=1))
        cluster.watches((b"", cluster.hold))
        with cluster.watched(bounds=replace(QUICK, queue_objects_max=10)) as watched:
            watched.until_seen(*names)
        assert max(len(each.changed) for each in watched.rounds) <= 10
        assert any(each.backlog for each in watched.rounds)
        assert [name for name, _ in watched.seen] == names


def test_pages_that_are_too_big_are_asked_for_in_smaller_ones() -> None:
    with PlayedCluster() as cluster:
        big = page(*[pod(f"p{number}", 1) for number in range(100)], version=1)
        cluster.lists(lambda request: big if int(request.params["limit"]) > 50 else page(pod("a", 1), version=1))
        cluster.watches((b"", cluster.hold))
        with cluster.watched(bounds=replace(QUICK, page_bytes_max=5_000)) as watched:
            watched.until_seen("a")
        assert [request.params["limit"] for request in cluster.requests(kmock.action.LIST)] == ["500", "125", "31"]


def test_one_collection_ends_when_all_kinds_are_listed_or_out_of_reach() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((b"", cluster.hold))
        cluster.lists(refusal(403), kind=NODES)
        with ClusterWatch(cluster.target(), (PODS, NODES, WORKLOADS), QUICK) as watch:
            rounds = list(watch.rounds_until_listed(30.0))
        final = {each.word: each.status for each in rounds[-1].kinds}
        assert final == {"pods": OK, "nodes": FORBIDDEN, WORKLOADS.word: NOT_INSTALLED}
        assert sum(len(each.changed) for each in rounds) == 1
        firsts = [
            each.first_listing_at for taken in rounds for each in taken.kinds if each.first_listing_at is not None
        ]
        (changed,) = [each for taken in rounds for each in taken.changed]
        assert firsts == [changed.seen_at], "the listing and its objects are of one instant"


def test_the_token_goes_with_each_request() -> None:
    with PlayedCluster() as cluster:
        cluster.lists(page(pod("a", 1), version=1))
        cluster.watches((b"", cluster.hold))
        with cluster.watched() as watched:
            watched.until_seen("a")
        assert {request.headers["Authorization"] for request in cluster.asked} == {"Bearer t"}


def test_a_server_that_is_not_there_is_a_failed_kind_and_not_an_exception() -> None:
    with ClusterWatch(ClusterTarget(address="http://127.0.0.1:1"), (PODS,), QUICK) as watch:
        rounds = list(watch.rounds_until_listed(30.0))
    (told,) = rounds[-1].kinds
    assert told.status == "failed"
    assert told.observed_to_at is None
    assert told.last_error


def test_a_configuration_that_cannot_be_used_is_one_clear_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config").write_text("clusters: [", encoding="utf-8")
    watch = ClusterWatch(ClusterTarget(cluster="east", kubeconfig=tmp_path / "config"), (PODS,))
    with pytest.raises(SourceUnavailable, match="cluster east: its configuration cannot be used"):
        watch.start()

"""Under churn, over a real socket, with a cut and a forgotten version in between: nothing is lost, nothing doubled, and the queue stays small."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import orjson

from bench.churning_cluster import ChurningCluster
from steelyard.primitives.clock import WallClock
from steelyard.sources.kube_api.resource_kinds import PODS
from steelyard.sources.kube_api.watch import OK, ClusterTarget, ClusterWatch, WatchBounds, WatchRound

QUEUE_MAX = 50


@contextlib.contextmanager
def served(cluster: ChurningCluster) -> Iterator[ChurningCluster]:
    """The cluster on a loop of its own."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def run() -> None:
        started = asyncio.Event()
        serving = loop.create_task(cluster.serve(started))
        await started.wait()
        ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield cluster
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join(20)


def rounds_to_the_end(watch: ClusterWatch, cluster: ChurningCluster) -> Iterator[WatchRound]:
    """Rounds until the last change was handed over."""
    pause = threading.Event()
    quiet = 0
    for _ in range(6_000):
        over = cluster.is_over
        found = watch.drain(WallClock().now())
        yield found
        quiet = quiet + 1 if over and not found.changed and not found.gone and found.kinds[0].status == OK else 0
        if quiet >= 50:
            return
        pause.wait(0.01)
    raise AssertionError("the churn does not end")


def test_churn_with_a_cut_and_a_forgotten_version_loses_and_doubles_nothing() -> None:
    bounds = WatchBounds(page_limit=50, queue_objects_max=QUEUE_MAX, backoff_seconds=0.05, timeout_seconds=30)
    with served(ChurningCluster(pods=300, rate=200, seconds=3.0)) as cluster:
        target = ClusterTarget(address=f"http://127.0.0.1:{cluster.port}")
        with ClusterWatch(target, (PODS,), bounds) as watch:
            rounds = list(rounds_to_the_end(watch, cluster))
        stats = cluster.stats()
    versions: dict[str, int] = {}
    for seen in (each for found in rounds for each in found.changed):
        metadata = orjson.loads(seen.raw)["metadata"]
        assert int(metadata["resourceVersion"]) > versions.get(metadata["uid"], 0), (
            "versions only grow, each is told once"
        )
        versions[metadata["uid"]] = int(metadata["resourceVersion"])
    gone = [each.uid for found in rounds for each in found.gone]
    (final,) = rounds[-1].kinds
    assert stats["deleted"] > 50
    assert len(gone) == len(set(gone)) == stats["deleted"]
    assert final.objects_count == stats["live"] == len(versions.keys() - set(gone))
    assert max(versions.values()) == stats["version"]
    assert (final.relists_count, final.reconnects_count >= 1) == (1, True)
    assert max(len(found.changed) for found in rounds) <= QUEUE_MAX

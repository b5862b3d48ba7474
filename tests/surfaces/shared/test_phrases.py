"""Plain questions are taken as exactly one command, or refused with examples."""

from __future__ import annotations

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.surfaces.shared.phrases import examples, understood


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("who is on GPU-5e3c1a2b?", "steelyard q1 --where gpu=GPU-5e3c1a2b"),
        ("Who is using gpu GPU-5e3c1a2b", "steelyard q1 --where gpu=GPU-5e3c1a2b"),
        ("who holds MIG-77", "steelyard q1 --where gpu=MIG-77"),
        ("who is on node gpu-a", "steelyard q1 --where node=gpu-a"),
        ("who is on gpu-a/0", "steelyard q1 --where gpu=gpu-a/0"),
        (
            "who was on GPU-5e3c1a2b at 2026-11-30T02:00:00Z",
            "steelyard q1 --where gpu=GPU-5e3c1a2b --at 2026-11-30T02:00:00Z",
        ),
        ("what does pod team-a/infer-1 hold", "steelyard q1 --where pod=team-a/infer-1"),
        ("what does tenant team-a hold?", "steelyard q1 --where tenant=team-a"),
        ("what does team team-a hold", "steelyard q1 --where tenant=team-a"),
        ("what does team-a hold", "steelyard q1 --where tenant=team-a"),
        ("what does team-a/x hold", "steelyard q1 --where pod=team-a/x"),
        ("neighbours of pod team-a/infer-1", "steelyard q1 --where pod=team-a/infer-1"),
        ("neighbors of infer-1", "steelyard q1 --where pod=infer-1"),
        ("how much did tenant team-a use", "steelyard q2 --where tenant=team-a"),
        ("how much does namespace x hold", "steelyard q2 --where namespace=x"),
        (
            "how much did tenant team-a use from 2026-11-01 to 2026-12-01",
            "steelyard q2 --where tenant=team-a --from 2026-11-01 --to 2026-12-01",
        ),
        ("谁在用 GPU-5e3c1a2b？", "steelyard q1 --where gpu=GPU-5e3c1a2b"),
        ("谁占着 节点 gpu-a", "steelyard q1 --where node=gpu-a"),
        ("GPU-5e3c1a2b 上是谁", "steelyard q1 --where gpu=GPU-5e3c1a2b"),
        ("租户 team-a 占用哪些卡", "steelyard q1 --where tenant=team-a"),
        ("租户 team-a 用了多少", "steelyard q2 --where tenant=team-a"),
        (
            "租户 team-a 从 2026-11-01 到 2026-12-01 用了多少",
            "steelyard q2 --where tenant=team-a --from 2026-11-01 --to 2026-12-01",
        ),
        ("Pod team-a/infer-1 的邻居", "steelyard q1 --where pod=team-a/infer-1"),
    ],
)
def test_phrases(words: str, command: str) -> None:
    assert understood(words).command == command


@pytest.mark.parametrize("words", examples())
def test_every_example_is_understood(words: str) -> None:
    assert understood(words).number in (1, 2)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "hello",
        "who",
        "delete everything on GPU-5e3c1a2b",
        "who is on GPU-1234 and why",
        "who is on GPU-1234 from 2026-11-01 to 2026-12-01",
        "how much did tenant a use at 2026-11-01",
        "who is on " + "x" * 400,
        "who is on " * 30_000,
    ],
)
def test_what_fits_no_phrase_is_refused_with_examples(words: str) -> None:
    with pytest.raises(UsageError, match="not understood; ask like one of these"):
        understood(words)


def test_an_instant_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^at: "):
        understood("who is on GPU-12345678 at 2026-13-45")

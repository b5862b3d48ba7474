"""Plain questions are taken as exactly one command, or refused with examples."""

from __future__ import annotations

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import parse_instant
from steelyard.surfaces.shared.phrases import examples, understood
from steelyard.surfaces.shared.ports import StoryRequest


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
        ("who jumped the queue?", "steelyard q6"),
        ("Who jumped the queue in queue gpus", "steelyard q6 --where queue=gpus"),
        ("who is waiting", "steelyard q6"),
        ("who was preempted in namespace x", "steelyard q6 --where namespace=x"),
        (
            "who was preempted from 2026-11-01 to 2026-12-01",
            "steelyard q6 --from 2026-11-01 --to 2026-12-01",
        ),
        ("how long do jobs wait", "steelyard q6"),
        ("how long do pods wait in the queue gpus?", "steelyard q6 --where queue=gpus"),
        ("how long did team team-a wait", "steelyard q6 --where tenant=team-a"),
        ("how long has pod team-a/infer-1 waited", "steelyard q6 --where pod=team-a/infer-1"),
        ("why are pods pending", "steelyard q6"),
        ("why pending", "steelyard q6"),
        ("谁插队了？", "steelyard q6"),
        ("队列 gpus 里谁插队了", "steelyard q6 --where queue=gpus"),
        ("谁在排队", "steelyard q6"),
        ("排队多久", "steelyard q6"),
        ("排队要多久？", "steelyard q6"),
        ("租户 team-a 排队多久", "steelyard q6 --where tenant=team-a"),
        ("租户team-a排队了多久", "steelyard q6 --where tenant=team-a"),
        ("从 2026-11-01 到 2026-12-01 排队多久", "steelyard q6 --from 2026-11-01 --to 2026-12-01"),
        ("为什么 Pending", "steelyard q6"),
        ("为什么一直排队", "steelyard q6"),
        ("租户 team-a 为什么 Pending", "steelyard q6 --where tenant=team-a"),
        ("why is pod infer-1 pending?", "steelyard why infer-1 --kind pod"),
        ("Why is team-a/infer-1 still pending", "steelyard why team-a/infer-1"),
        ("why does job train wait", "steelyard why train --kind job"),
        ("why is workload team-a/w not admitted", "steelyard why team-a/w --kind workload"),
        (
            "why was pod infer-1 pending at 2026-11-30T02:00:00Z",
            "steelyard why infer-1 --kind pod --at 2026-11-30T02:00:00Z",
        ),
        ("为什么 pod team-a/infer-1 Pending", "steelyard why team-a/infer-1 --kind pod"),
        ("为什么 infer-1 一直 Pending？", "steelyard why infer-1"),
        ("为什么infer-1在排队", "steelyard why infer-1"),
        ("Pod infer-1 为什么 Pending", "steelyard why infer-1 --kind pod"),
        ("作业 train 为什么还在排队", "steelyard why train --kind job"),
        ("infer-1为什么没有运行", "steelyard why infer-1"),
    ],
)
def test_phrases(words: str, command: str) -> None:
    assert understood(words).command == command


@pytest.mark.parametrize("words", examples())
def test_every_example_is_understood(words: str) -> None:
    asked = understood(words)
    assert asked.number in (1, 2, 6) or asked.story is not None


def test_why_of_one_request_is_its_story_and_no_question_of_the_ten() -> None:
    asked = understood("why was pod team-a/infer-1 pending at 2026-11-30")
    assert asked.story == StoryRequest("team-a/infer-1", "pod", at=parse_instant("2026-11-30T00:00:00Z"))
    assert understood("why are pods pending").story is None


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
        "who jumped the queue at 2026-11-01",
        "why is infer-1 pending from 2026-11-01 to 2026-12-01",
        "why is infer-1 blue",
        "为什么",
        "谁插队了吗 team-a",
        "为什么 " + "a" * 290,
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

"""Each check of the doctor finds what it is for and nothing else; each remedy says what to paste."""

from __future__ import annotations

import csv
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from steelyard.answers.registry import ANSWERS
from steelyard.app.doctor.capabilities import CAPABILITIES, judge_levels
from steelyard.app.doctor.checks import CHECKS, WANTED_FIELDS, XID
from steelyard.app.doctor.diagnosing import diagnose
from steelyard.app.doctor.questions import CAPABILITY_OF_SOURCE, TITLES
from steelyard.app.doctor.remedies import DCGM_HELP, REMEDIES, WAYS
from steelyard.app.doctor.survey import KindSeen, Survey
from steelyard.app.wiring import ports
from steelyard.primitives.instant import DAY_US, SECOND_US
from steelyard.surfaces.cli.building import build
from tests.app.doctor_surveys import (
    CARD,
    CLUSTER,
    EXPORTER,
    JOB,
    NOTHING,
    SERVER,
    WELL,
    cluster,
    directory,
    exporter,
    job,
    kind,
    log,
    server,
    stored,
    without,
)

ALL = frozenset({*WANTED_FIELDS, XID})
WORK = {"working": 2, "named": 1}
HIDDEN = {"working": 2, "named": 0, "shadowed": 2}
MIG = {("n1", CARD): {252: frozenset(range(1, 8)), 1001: frozenset(range(1, 6))}}
ALL_SEEN = {("n1", CARD): {252: frozenset({1, 2}), 1001: frozenset({1, 2})}}

CASES: list[tuple[str, Survey, list[tuple[str, str]]]] = [
    ("store_unreadable", stored(error="cut off"), [("data", "cut off")]),
    ("source_unreachable", cluster(error="refused"), [("kubernetes/east", "refused")]),
    ("source_unreachable", job(error="no token"), [("scrape/dcgm", "no token")]),
    (
        "source_unreachable",
        job(targets_count=3, failed={"b:1": "HTTP 503", "a:1": "HTTP 503", "c:1": "gone"}),
        [("scrape/dcgm", "2 of 3 targets: HTTP 503: a:1, b:1"), ("scrape/dcgm", "1 of 3 targets: gone: c:1")],
    ),
    ("source_unreachable", server(error="nobody there"), [("prometheus/main", "nobody there")]),
    ("source_unreachable", log(error="no such file"), [("audit_log/audit", "no such file")]),
    ("source_slow", replace(WELL, unanswered=("scrape/x",)), [("scrape/x", "no whole answer within the deadline")]),
    ("probe_failed", replace(WELL, faults={"scrape/x": "KeyError"}), [("scrape/x", "(KeyError)")]),
    ("no_cluster_there", kind("pods", state="not_installed"), [("kubernetes/east", "serves no pods")]),
    (
        "kind_forbidden",
        kind("clusterqueues.kueue.x-k8s.io", state="forbidden", verb="watch"),
        [("kubernetes/east", "may not be listed and watched: clusterqueues.kueue.x-k8s.io")],
    ),
    ("kind_failed", kind("events", state="failed", message="HTTP 500"), [("kubernetes/east events", "HTTP 500")]),
    ("clock_skew", cluster(skew_us=-6 * SECOND_US), [("kubernetes/east", "API server's clock")]),
    ("clock_skew", cluster(node_skews_us={"n1": 0, "n2": 60 * SECOND_US}), [("kubernetes/east", "API server's: n2")]),
    ("clock_skew", server(skew_us=6 * SECOND_US), [("prometheus/main", "its clock")]),
    ("clock_skew", job(skews_us={"n1": -9 * SECOND_US, "n2": 5 * SECOND_US}), [("scrape/dcgm", "5 s: n1")]),
    ("register_old", cluster(encodings={"csv7": 2, "csv9": 1, "json": 5}), [
        ("kubernetes/east", "2 nodes have a register of HAMi 2.4 or before"), ("kubernetes/east", "1 node has a register of HAMi 2.5 to 2.7"),
    ]),
    ("register_old", replace(NOTHING, stored=replace(NOTHING.stored, encodings={"csv9": 4})), [("stored", "4 nodes")]),
    ("register_unknown", cluster(encodings={"unknown": 1}), [("kubernetes/east", "a register of HAMi in an unknown form on 1 node")]),
    ("monitor_missing", without("hami_monitor"), [("hami", "no metric of its monitor")]),
    ("queue_metrics_missing", replace(without("kueue"), clusters=(replace(CLUSTER, kinds={
        **CLUSTER.kinds, "clusterqueues.kueue.x-k8s.io": KindSeen("ok", "kueue.x-k8s.io", "clusterqueues", count=2)}),)),
        [("kueue", "kueue is in use")]),
    ("names_unknown", server(names_known=False), [("prometheus/main", "does not list")]),
    ("no_gpu_metrics", without("dcgm"), [("prometheus/main", "no metric of dcgm-exporter")]),
    ("retention_short", server(retention="7d", retention_us=7 * DAY_US), [("prometheus/main", "for 7d, less than the 14 days")]),
    ("field_missing", exporter(fields=ALL - {1002, 1005}), [("scrape/dcgm n1:9400", "DCGM 1002, 1005")]),
    ("field_missing", exporter(fields=ALL - {203}), [("scrape/dcgm n1:9400", "DCGM 203")]),
    ("xid_not_seen", exporter(fields=ALL - {230}), [("scrape/dcgm n1:9400", "no Xid occurred yet")]),
    ("tenant_hidden", exporter(**HIDDEN), [("scrape/dcgm n1:9400", "no exported_pod says whose")]),
    ("pod_labels_missing", exporter(**WORK), [("scrape/dcgm n1:9400", "1 of 2 cards at work names no pod")]),
    ("pod_labels_missing", exporter(working=2, named=0), [("scrape/dcgm n1:9400", "2 of 2")]),
    ("host_is_pod", exporter(host_is_pod=True), [("scrape/dcgm n1:9400", "its own pod")]),
    ("exporters_doubled", job(metrics=replace(JOB.metrics, doubled=(("a", "b", 8),))), [("scrape/dcgm a", "8 cards are exported by b too")]),
    ("two_ways", server(metrics=replace(SERVER.metrics, exporters=(EXPORTER,))), [("scrape/dcgm", "1 card comes through prometheus/main too")]),
    ("instances_missing", exporter(instances=MIG), [(f"scrape/dcgm {CARD}", "expected 7, seen 5")]),
    (
        "instances_missing",
        replace(exporter(instances=ALL_SEEN), stored=replace(WELL.stored, mig_expected={CARD: 7})),
        [(f"scrape/dcgm {CARD}", "expected 7, seen 2")],
    ),
    (
        "instances_missing",
        replace(exporter(instances=ALL_SEEN), clusters=(replace(CLUSTER, mig_by_node={"n1": 3}),)),
        [("scrape/dcgm node n1", "expected 3, seen 2")],
    ),
    ("audit_not_events", log(events_count=1, refused_count=9), [("audit_log/audit", "no audit events")]),
    ("audit_empty", log(events_count=0), [("audit_log/audit", "no event in it")]),
    ("audit_stage_missing", log(stages=frozenset({"RequestReceived"})), [("audit_log/audit", "stage ResponseComplete")]),
    ("audit_stage_missing", log(stages=frozenset({"ResponseComplete"})), [("audit_log/audit", "stage RequestReceived")]),
    ("audit_level_low", log(levels=frozenset({"Metadata"})), [("audit_log/audit", "level Metadata")]),
    ("tokens_none", stored(tokens_valid=0), [("tokens", "no valid token")]),
    ("disk_full", directory(free_bytes=1 << 20), [("data", "less than 256 MiB")]),
    ("disk_short", replace(directory(free_bytes=1 << 30, store_bytes=1 << 30), stored=replace(WELL.stored, observed_days=2.0)), [
        ("data", "14 days of raw samples will not fit")]),
    ("backup_missing", directory(backup_at=None), [("data", "no backup")]),
    ("backup_missing", directory(backup_at=WELL.now - 8 * DAY_US), [("data", "more than 7 days old")]),
    ("demo_directory", directory(is_demo=True), [("data", "a simulated estate")]),
    ("not_posted", stored(posted=False), [("data", "the ledgers do not follow")]),
    ("nothing_there", NOTHING, [("data", "no source is configured")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "survey", "expected"), CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_a_check_finds_what_it_is_for(name: str, survey: Survey, expected: list[tuple[str, str]]) -> None:
    found = list(CHECKS[name](survey))
    assert [each.subject for each in found] == [subject for subject, _ in expected]
    for each, (_subject, message) in zip(found, expected, strict=True):
        assert message in each.message


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_silent_over_a_site_in_good_order(name: str) -> None:
    assert list(CHECKS[name](WELL)) == []


@pytest.mark.parametrize("name", sorted(set(CHECKS) - {"nothing_there"}))
def test_a_check_says_nothing_of_what_nobody_could_see(name: str) -> None:
    assert list(CHECKS[name](NOTHING)) == []


NOT_FOUND: list[tuple[str, Survey]] = [
    ("clock_skew", cluster(skew_us=5 * SECOND_US)),
    ("clock_skew", cluster(skew_us=None)),
    ("field_missing", exporter(fields=ALL - {203}, instances=ALL_SEEN)),  # under MIG there is no 203
    ("tenant_hidden", exporter(working=0, named=0, shadowed=0)),  # a free card's pod is the exporter's, rightly
    ("pod_labels_missing", exporter(**HIDDEN)),  # said by tenant_hidden
    ("tenant_hidden", exporter(working=2, named=1, shadowed=1)),  # others are named: one card is used by nobody known
    ("instances_missing", exporter(instances=ALL_SEEN)),
    ("monitor_missing", replace(without("hami_monitor"), clusters=(replace(CLUSTER, hami=False),), scrapes=())),
    ("queue_metrics_missing", without("kueue")),  # no queue is there
    ("retention_short", server(retention="50GB", retention_us=None)),
    ("no_gpu_metrics", server(names_known=False)),
    ("disk_short", replace(directory(free_bytes=1 << 30), stored=replace(WELL.stored, observed_days=0.5))),
    ("backup_missing", directory(backup_at=None, is_demo=True)),
    ("kind_failed", kind("workloads.kueue.x-k8s.io", state="not_installed")),
    ("kind_forbidden", kind("workloads.kueue.x-k8s.io", state="not_installed")),
    ("two_ways", server(metrics=replace(SERVER.metrics, exporters=(replace(EXPORTER, devices=frozenset({"GPU-b"})),)))),
]


@pytest.mark.parametrize(("name", "survey"), NOT_FOUND, ids=[f"{case[0]}-{i}" for i, case in enumerate(NOT_FOUND)])
def test_a_check_is_not_misled(name: str, survey: Survey) -> None:
    assert list(CHECKS[name](survey)) == []


def test_every_check_has_a_case_and_a_remedy() -> None:
    assert {name for name, _survey, _expected in CASES} == set(CHECKS) == set(REMEDIES)
    for name, survey, _expected in CASES:
        for found in CHECKS[name](survey):
            assert REMEDIES[name].text()
            lines = REMEDIES[name].lines(found)
            assert not lines or REMEDIES[name].paste_into()


def test_every_command_of_a_remedy_is_one_that_the_command_line_takes() -> None:
    found = [line for name, survey, _ in CASES for each in CHECKS[name](survey) for line in REMEDIES[name].lines(each)]
    ways = [line for way in WAYS.values() for line in way.lines]
    told = [shlex.split(line)[1:] for line in (*found, *ways) if line.startswith("steelyard ")]
    assert ["token", "create", "--role", "operator", "--name", "prometheus"] in told
    for words in told:
        command: Any = typer.main.get_command(build(ports()))
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        command.make_context(command.name, list(words))


def test_lines_for_an_exporter_are_spelt_as_it_spells_its_own() -> None:
    (old,) = [s for s in diagnose(exporter(fields=ALL - {1002, 155})).symptoms if s.id == "field_missing"]
    assert [line.split(",")[0] for line in old.lines] == ["DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"]
    (new,) = [
        s for s in diagnose(exporter(fields=ALL - {1002, 155}, current_names=True)).symptoms if s.id == "field_missing"
    ]
    assert [line.split(",")[0] for line in new.lines] == ["DCGM_FI_PROF_SM_UTIL_RATIO", "DCGM_FI_DEV_BOARD_POWER_WATTS"]


def test_every_wanted_field_has_a_line_that_the_exporter_can_read(shared: Path) -> None:
    numbers: dict[str, int] = {}
    for row in csv.reader((shared / "cases/tables/dcgm_fields.csv").read_text(encoding="utf-8").splitlines()[1:]):
        for name in (row[1], *" ".join(row[2:]).replace(";", " ").replace("|", " ").split()):
            numbers[name] = int(row[0])
    survey = exporter(fields=frozenset(), instances={})
    lines = [line for s in diagnose(survey).symptoms if s.id in ("field_missing", "xid_not_seen") for line in s.lines]
    assert {numbers[line.split(",")[0]] for line in lines} == ALL == set(DCGM_HELP)
    for line in lines:
        name, kind_word, text = line.split(", ", 2)
        assert kind_word in ("gauge", "counter")
        assert "," not in text
        assert name.startswith("DCGM_FI_")


def test_a_forbidden_kind_names_the_rule_to_grant() -> None:
    survey = kind("clusterqueues.kueue.x-k8s.io", state="forbidden", verb="list")
    (symptom,) = [each for each in diagnose(survey).symptoms if each.id == "kind_forbidden"]
    assert list(symptom.lines) == [
        '- apiGroups: ["kueue.x-k8s.io"]',
        "  resources: [clusterqueues]",
        "  verbs: [list, watch]",
    ]


def test_a_broken_source_comes_before_what_would_be_good_to_have() -> None:
    report = diagnose(replace(exporter(fields=ALL - {1002}, **HIDDEN), unanswered=("scrape/x",)))
    ids = [action.id for action in report.next_actions]
    assert ids.index("source_slow") < ids.index("tenant_hidden") < ids.index("field_missing")


def test_every_capability_that_can_be_missing_says_how_it_is_had() -> None:
    assert {each.id for each in CAPABILITIES} == set(WAYS)
    report = diagnose(NOTHING)
    assert [level.reached for level in report.levels] == [False, False, False]
    for level in report.levels:
        for each in level.capabilities:
            assert each.remedy, each.id


def test_every_source_that_a_question_names_is_a_capability() -> None:
    ids = {each.id for each in CAPABILITIES}
    assert set(TITLES) == set(range(1, 11))
    for entry in ANSWERS:
        for word in entry.sources:
            assert CAPABILITY_OF_SOURCE.get(word, word) in ids, word


LEVELS_OF: list[tuple[Survey, str | None]] = [
    (NOTHING, None),
    (replace(NOTHING, stored=replace(NOTHING.stored, rows=frozenset({("request", "kube_api")}))), None),
    (replace(NOTHING, stored=replace(NOTHING.stored, rows=frozenset({("request", "kube_api"), ("device", "nvidia_smi")}))), "L0"),
    (replace(NOTHING, stored=replace(NOTHING.stored, rows=frozenset({("request", "kube_api"), ("device", "kernel_log")}))), None),
    (WELL, "L1"),
    (exporter(fields=ALL - {1005}), "L0"),
    (replace(exporter(fields=ALL - {1005}), stored=replace(WELL.stored, live=WELL.stored.live | {("source_status", "agent")})), "L0"),
    (replace(cluster(error="down", kinds={}), stored=replace(WELL.stored, live=frozenset())), "L0"),
    (replace(WELL, stored=replace(WELL.stored, live=WELL.stored.live | {("source_status", "agent")})), "L2"),
]  # fmt: skip


@pytest.mark.parametrize(("survey", "level"), LEVELS_OF)
def test_a_level_is_reached_with_all_below_it(survey: Survey, level: str | None) -> None:
    assert diagnose(survey).level == level


def test_metrics_that_were_imported_once_do_not_make_a_level_that_is_about_what_comes_by_itself() -> None:
    columns = frozenset({"gr_active_ratio", "sm_active_ratio", "dram_active_ratio", "util_gpu_ratio"})
    rows = frozenset({("request", "kube_api"), ("device", "dcgm"), ("device_sample", "dcgm")})
    survey = replace(NOTHING, stored=replace(NOTHING.stored, has_data=True, rows=rows, columns=columns))
    states = {each.id: each.state for level in judge_levels(survey) for each in level.capabilities}
    assert states["profiling"] == states["card_use"] == "stored"
    assert diagnose(survey).level == "L0"


def test_a_question_is_answered_by_what_the_registry_says_that_it_needs() -> None:
    def states(survey: Survey) -> dict[int, tuple[str, tuple[str, ...]]]:
        return {each.number: (each.state, tuple(each.missing)) for each in diagnose(survey).questions}

    assert states(WELL)[1] == states(WELL)[2] == ("fully", ())
    rows = WELL.stored.rows - {("process_sample", "agent")}
    fewer = stored(rows=rows, live=rows)
    assert states(fewer)[1] == ("fully", ())
    assert states(fewer)[2] == ("partly", ("process_memory",))
    assert states(WELL)[9] == ("partly", ("prices",))
    priced = WELL.stored.rows | {("price_book", "declared")}
    assert states(stored(rows=priced))[9] == ("fully", ())
    only_cards = replace(
        NOTHING, stored=replace(WELL.stored, rows=frozenset({("device", "nvidia_smi")}), live=frozenset())
    )
    assert states(only_cards)[1] == ("not", ("pods",))
    assert states(stored(posted=False))[1][0] == "not"
    built = {entry.number for entry in ANSWERS}
    for number, (state, _missing) in states(WELL).items():
        assert (state == "not_in_this_version") == (number not in built)

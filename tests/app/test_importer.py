"""Files become facts: each kind by its reader, dated by one instant, once, whatever the order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.app.settings import Settings
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, parse_instant
from steelyard.store import Store
from tests.app.import_samples import CARD, WRITTEN, codes, import_files, listing, node, pod, rows, shared_pod, write

NOON = parse_instant("2026-03-01T12:00:00Z")
TABLES = ["request", "container", "grant", "owner", "node", "device", "sighting", "source_status", "finding", "event"]


def everything(data: Path) -> dict[str, list[tuple[object, ...]]]:
    with Store.open(data, read_only=True) as store:
        return {
            table: sorted(store.rows(f"SELECT * EXCLUDE (import_id) FROM fact.{table}"), key=repr) for table in TABLES
        }


def test_a_list_of_pods_and_nodes_becomes_requests_grants_devices_and_sightings(tmp_path: Path) -> None:
    report = import_files(tmp_path / "d", write(tmp_path / "dump.json", listing(node(), shared_pod("a"), pod("b"))))
    (file,) = report.files
    assert (file.kind, file.status, file.facts_count) == ("kubernetes", "imported", file.new_count)
    assert rows(tmp_path / "d", "SELECT device_uuid, memory_mib FROM fact.grant WHERE scheme = 'hami'") == [
        (CARD, 8192)
    ]
    assert rows(tmp_path / "d", "SELECT device_uuid, memory_mib FROM fact.device") == [(CARD, 81920)]
    assert rows(tmp_path / "d", "SELECT object_kind, object_uid FROM fact.sighting ORDER BY ALL") == [
        ("node", "n1"),
        ("pod", "uid-a"),
        ("pod", "uid-b"),
    ]
    assert rows(tmp_path / "d", "SELECT kind, complete FROM fact.source_status ORDER BY ALL") == [
        ("nodes", True),
        ("pods", True),
    ]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (listing(pod("a"), kind="PodList"), "kubernetes"),
        (
            {**listing({k: v for k, v in pod("a").items() if k not in ("kind", "apiVersion")}, kind="PodList")},
            "kubernetes",
        ),
        (pod("a"), "kubernetes"),
        ([pod("a")], "kubernetes"),
        ("\n".join(json.dumps(each) for each in (pod("a"), pod("b"))), "kubernetes"),
        (b"\xef\xbb\xbf" + json.dumps(pod("a")).encode(), "kubernetes"),
        (json.dumps(listing(pod("a"))).encode("utf-16"), "kubernetes"),
    ],
    ids=["PodList", "PodList of bare items", "one object", "array", "JSON lines", "byte order mark", "UTF-16"],
)
def test_every_form_of_kubectl_json_yields_its_pods(tmp_path: Path, content: object, kind: str) -> None:
    report = import_files(tmp_path / "d", write(tmp_path / "x", content))
    assert [(file.kind, file.status) for file in report.files] == [(kind, "imported")]
    assert ("a",) in rows(tmp_path / "d", "SELECT pod FROM fact.request")


@pytest.mark.parametrize(
    "content", [pod("a"), "\n".join(json.dumps(each) for each in (pod("a"), pod("b")))], ids=["one object", "lines"]
)
def test_what_is_no_list_proves_no_absence(tmp_path: Path, content: object) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", content))
    assert rows(tmp_path / "d", "SELECT complete FROM fact.source_status WHERE kind = 'pods'") == [(False,)]
    assert rows(tmp_path / "d", "SELECT count(*) FROM fact.sighting") == [(0,)]


@pytest.mark.parametrize("metadata", [{"continue": "abc"}, {"remainingItemCount": 7}])
def test_a_page_of_a_longer_list_proves_no_absence(tmp_path: Path, metadata: dict[str, object]) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", {**listing(pod("a")), "metadata": metadata}))
    assert rows(tmp_path / "d", "SELECT complete FROM fact.source_status WHERE kind = 'pods'") == [(False,)]


def test_a_list_with_an_object_that_cannot_be_read_proves_no_absence_and_keeps_the_others(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", listing(pod("a"), {"kind": "Pod", "metadata": {}})))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request") == [("a",)]
    assert rows(tmp_path / "d", "SELECT complete FROM fact.source_status WHERE kind = 'pods'") == [(False,)]
    assert codes(tmp_path / "d") == ["source_malformed"]


def test_an_empty_list_of_pods_does_not_say_that_the_cluster_has_none(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", listing(kind="PodList")))
    assert rows(tmp_path / "d", "SELECT complete, objects_count FROM fact.source_status") == [(False, 0)]


def test_pods_of_one_namespace_alone_say_nothing_of_the_others(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", listing(pod("a"), pod("b"))))
    assert rows(tmp_path / "d", "SELECT complete, scope FROM fact.source_status WHERE kind = 'pods'") == [
        (True, f"namespace/{pod('a')['metadata'].get('namespace', 'default')}")
    ]


def test_the_declared_interval_stands_on_the_listing(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", listing(pod("a"))), expected_interval_us=HOUR_US)
    assert rows(tmp_path / "d", "SELECT gap_max_us FROM fact.source_status WHERE kind = 'pods'") == [(HOUR_US,)]


def test_the_snapshot_is_dated_by_the_latest_stamp_of_all_files(tmp_path: Path) -> None:
    later = pod("b")
    later["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = "2026-03-01T12:30:00Z"
    files = [write(tmp_path / "a.json", listing(pod("a"))), write(tmp_path / "b.json", pod("b") | later)]
    report = import_files(tmp_path / "d", *files)
    assert (report.as_of, report.as_of_basis) == (NOON + 1800 * 10**6, "inferred")
    assert rows(tmp_path / "d", "SELECT DISTINCT epoch_us(occurred_at) FROM fact.request") == [(NOON + 1800 * 10**6,)]


def test_a_declared_instant_wins_over_every_stamp(tmp_path: Path) -> None:
    report = import_files(tmp_path / "d", write(tmp_path / "x", listing(pod("a"))), as_of=NOON + HOUR_US)
    assert (report.as_of, report.as_of_basis) == (NOON + HOUR_US, "declared")
    assert rows(tmp_path / "d", "SELECT as_of_basis FROM fact.source_status") == [("declared",)]


def test_a_stamp_far_after_the_file_was_written_does_not_date_it_and_is_said(tmp_path: Path) -> None:
    strange = pod("b")
    strange["status"]["startTime"] = "2031-01-01T00:00:00Z"
    report = import_files(tmp_path / "d", write(tmp_path / "x", listing(pod("a"), strange)))
    assert report.as_of == NOON + 60 * 10**6
    assert report.findings_by_code["stamp_in_future"] == 1


def test_a_grace_deadline_does_not_date_the_snapshot(tmp_path: Path) -> None:
    deleted = pod("b")
    deleted["metadata"]["deletionTimestamp"] = "2026-03-01T12:45:00Z"
    assert import_files(tmp_path / "d", write(tmp_path / "x", listing(deleted))).as_of == NOON + 60 * 10**6


def test_without_any_stamp_the_time_of_the_file_dates_it(tmp_path: Path) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    report = import_files(tmp_path / "d", write(tmp_path / "x", bare))
    assert (report.as_of, report.as_of_basis) == (WRITTEN, "file_time")


def test_the_same_files_again_change_nothing_and_are_called_unchanged(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.json", listing(node(), shared_pod("a"), pod("b")))
    import_files(tmp_path / "d", path)
    before = everything(tmp_path / "d")
    report = import_files(tmp_path / "d", path)
    assert [(file.status, file.new_count) for file in report.files] == [("unchanged", 0)]
    assert everything(tmp_path / "d") == before


def test_the_same_bytes_as_of_another_instant_are_another_snapshot(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.json", listing(pod("a")))
    for hours in (1, 2):
        report = import_files(tmp_path / "d", path, as_of=NOON + hours * HOUR_US)
        assert [file.status for file in report.files] == ["imported"]
    assert rows(tmp_path / "d", "SELECT count(*) FROM fact.request") == [(2,)]


def test_the_order_of_the_files_and_of_the_imports_does_not_matter(tmp_path: Path) -> None:
    nodes = write(tmp_path / "nodes.json", listing(node(), kind="NodeList"))
    pods = write(tmp_path / "pods.json", listing(shared_pod("a"), pod("b"), kind="PodList"))
    instants = {nodes: NOON + HOUR_US, pods: NOON + 2 * HOUR_US}
    import_files(tmp_path / "one", nodes, pods, as_of=NOON)
    import_files(tmp_path / "two", pods, nodes, as_of=NOON)
    for data, order in (("three", (nodes, pods)), ("four", (pods, nodes))):
        for path in order:
            import_files(tmp_path / data, path, as_of=instants[path])
    one, two, three, four = (everything(tmp_path / data) for data in ("one", "two", "three", "four"))
    assert {table: found for table, found in one.items() if table != "finding"} == {
        t: f for t, f in two.items() if t != "finding"
    }
    assert three == four


def test_claims_in_one_file_are_read_on_the_slices_of_another(tmp_path: Path) -> None:
    resource_slice = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                 "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": CARD}, "type": {"string": "gpu"}},
                              "capacity": {"memory": {"value": "80Gi"}}}]},
    }  # fmt: skip
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-a", "uid": "uid-c", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "status": {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]}},
                   "reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}]},
    }  # fmt: skip
    import_files(
        tmp_path / "d", write(tmp_path / "1.json", listing(claim)), write(tmp_path / "2.json", listing(resource_slice))
    )
    assert rows(tmp_path / "d", "SELECT pod_uid, device_uuid FROM fact.grant WHERE scheme = 'dra'") == [("uid-a", CARD)]


def test_files_that_name_cards_by_index_are_read_after_those_that_name_them_by_uuid(tmp_path: Path) -> None:
    write(
        tmp_path / "in/1.dmon.txt",
        "# gpu    pwr  gtemp  mtemp     sm    mem\n# Idx      W      C      C      %      %\n    0    68     30     -      7      1\n",
    )
    write(tmp_path / "in/2.list.txt", f"GPU 0: NVIDIA H200 (UUID: {CARD})\n")
    import_files(tmp_path / "d", tmp_path / "in")
    assert rows(tmp_path / "d", "SELECT DISTINCT device_uuid FROM fact.device_sample") == [(CARD,)]


def test_traces_and_site_lists_are_told_by_their_header(tmp_path: Path) -> None:
    write(tmp_path / "in/pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
          "p0,1000,1000,1,500,,LS,Succeeded,0,7200,3600\n")  # fmt: skip
    write(tmp_path / "in/nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,8,P100\n")
    write(tmp_path / "in/assets.csv", "serial,rack,owner,price,currency\nS1,R1,lab,100,EUR\n")
    write(tmp_path / "in/lent.csv", f"device_uuid,holder,from,to,approver\n{CARD},lab,2026-01-01,2027-01-01,me\n")
    report = import_files(tmp_path / "d", tmp_path / "in")
    assert {Path(file.path).name: file.kind for file in report.files} == {
        "assets.csv": "inventory", "lent.csv": "holdings", "nodes.csv": "openb_nodes", "pods.csv": "openb",
    }  # fmt: skip
    assert all(file.status == "imported" for file in report.files)


def test_a_companion_file_is_imported_with_its_role(tmp_path: Path) -> None:
    pods = write(
        tmp_path / "p.csv",
        "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\np,1,1000,Running,0,9,1\n",
    )
    nodes = write(tmp_path / "n.csv", "sn,gpu,model\nn0,8,P100\n")
    report = import_files(tmp_path / "d", pods, kind="openb", companions={"nodes": nodes}, epoch=NOON)
    assert [file.kind for file in report.files] == ["openb", "openb_nodes"]
    assert rows(tmp_path / "d", "SELECT cards_count, epoch_us(valid_from_at) FROM fact.inventory_basis") == [(8, NOON)]


def test_compressed_files_are_read_like_plain_ones(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json.gz", listing(pod("a")), compress=True)
    write(tmp_path / "in/b.json", listing(pod("b")))
    import_files(tmp_path / "d", tmp_path / "in")
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request ORDER BY ALL") == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("apiVersion: v1\nkind: PodList\nitems: []\n", "kind_not_supported", "-o json"),
        ("# HELP up Up\n# TYPE up gauge\nup 1\n", "metrics_ignored", "nothing that is read"),
        ({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": "1"}, "source_malformed", "known stage"),
        ({"request_throughput": 1.0, "completed": 3}, "kind_not_supported", "benchmark"),
        (listing({"apiVersion": "v1", "kind": "ConfigMap"}), "kind_not_supported", "ConfigMap"),
        ({"something": "else"}, "unrecognised_file", "KIND if you know it, one of audit_log, bill,"),
        ("a page of prose\n", "unrecognised_file", "KIND if you know it, one of audit_log, bill,"),
        (
            "id,log\n1,NVRM: Xid (PCI:0000:dc:00): 45, pid=1, x\n2,fallen off the bus\n",
            "unrecognised_file",
            "kernel_log",
        ),
    ],
)
def test_what_has_no_reader_is_said_with_what_to_do(tmp_path: Path, content: object, code: str, words: str) -> None:
    report = import_files(tmp_path / "d", write(tmp_path / "x", content))
    (file,) = report.files
    assert (file.status, dict(report.findings_by_code)) == ("refused", {code: 1})
    assert words in (file.message or "")


@pytest.mark.parametrize(
    "content",
    [
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log><timestamp>&a;</timestamp></nvidia_smi_log>',
        '<?xml version="1.0"?><nvidia_smi_log><gpu id="0">',
    ],
)
def test_a_file_that_is_refused_as_a_whole_is_not_called_imported(tmp_path: Path, content: str) -> None:
    (file,) = import_files(tmp_path / "d", write(tmp_path / "x.xml", content)).files
    assert (file.status, file.refused_count) == ("refused", 1)


def test_each_file_is_recorded_with_its_bytes_and_its_facts_carry_its_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "in/x.json", listing(pod("a")))
    import_files(tmp_path / "d", tmp_path / "in")
    ((name, size, sha),) = rows(tmp_path / "d", "SELECT path, bytes_count, sha256 FROM fact.import_file")
    assert (name, size) == ("x.json", path.stat().st_size)
    assert rows(tmp_path / "d", "SELECT DISTINCT import_id FROM fact.request") == [(sha,)]


def test_the_ledgers_are_posted_once_after_all_files(tmp_path: Path) -> None:
    seen = []

    def post(store: Store) -> int:
        seen.append(store.rows("SELECT count(*) FROM fact.request")[0][0])
        return 7

    report = import_files(tmp_path / "d", write(tmp_path / "a", pod("a")), write(tmp_path / "b", pod("b")), post=post)
    assert (seen, report.postings_count) == ([2], 7)


@pytest.mark.parametrize(
    "request_",
    [{"kind": "nonsense"}, {"kind": "benchmark_result"}, {"as_of": 2**62}, {"companions": {"moon": Path("x")}}],
)
def test_a_request_that_makes_no_sense_is_refused_before_anything_is_stored(
    tmp_path: Path, request_: dict[str, object]
) -> None:
    with pytest.raises(UsageError):
        import_files(tmp_path / "d", write(tmp_path / "x", pod("a")), **request_)
    assert not (tmp_path / "d").exists()


def test_a_path_that_does_not_exist_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        import_files(tmp_path / "d", write(tmp_path / "x", pod("a")), tmp_path / "absent")
    assert not (tmp_path / "d").exists()


def test_the_cluster_of_the_settings_is_carried_where_the_command_names_none(tmp_path: Path) -> None:
    path = write(tmp_path / "x", pod("a"))
    import_files(tmp_path / "d", path, settings=Settings(cluster="east"))
    import_files(tmp_path / "d", path, settings=Settings(cluster="east"), cluster="west")
    assert rows(tmp_path / "d", "SELECT cluster FROM fact.request ORDER BY ALL") == [("east",), ("west",)]


def test_a_query_by_index_finds_its_cards_in_the_list_beside_it(tmp_path: Path) -> None:
    query = write(tmp_path / "a.csv", "index, memory.used [MiB], memory.total [MiB]\n0, 5 MiB, 81920 MiB\n")
    cards = write(tmp_path / "b.txt", f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {CARD})\n")
    import_files(tmp_path / "d", query, cards, node="n1")
    assert "device_unresolved" not in codes(tmp_path / "d")
    assert rows(tmp_path / "d", "SELECT DISTINCT device_uuid FROM fact.device_sample") == [(CARD,)]


def test_a_list_of_serial_uuid_node_and_status_is_the_sites_inventory(tmp_path: Path) -> None:
    listed = write(tmp_path / "assets.csv", f"serial,uuid,node,status\n123,{CARD},n1,in use\n")
    assert [file.kind for file in import_files(tmp_path / "d", listed).files] == ["inventory"]


def test_a_holding_since_the_year_one_is_refused_and_said(tmp_path: Path) -> None:
    lent = write(tmp_path / "h.csv", f"device_uuid,holder,from,to\n{CARD},lab,0001-01-01,2026-03-01\n")
    import_files(tmp_path / "d", lent)
    assert codes(tmp_path / "d") == ["source_malformed"]


OPENB_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


@pytest.mark.parametrize(
    ("header", "status", "words"),
    [
        ("serial,uuid,node,rack,owner,status", "refused", "nothing was taken"),
        ("# lent cards\ndevice_uuid,holder,kind,from,to,approver\n\n", "refused", "nothing was taken"),
        (OPENB_PODS, "refused", "nothing was taken"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", "refused", "nothing was taken"),
        ("index, uuid, memory.used [MiB], memory.total [MiB]\n", "imported", "nothing was taken"),
        ("gpu_uuid, pid, used_gpu_memory [MiB]\n", "imported", "no process was listed"),
    ],
)
def test_a_table_with_a_header_alone_is_said_to_have_no_rows(
    tmp_path: Path, header: str, status: str, words: str
) -> None:
    (file,) = import_files(tmp_path / "d", write(tmp_path / "x.csv", header)).files
    assert (file.status, (file.message or "").startswith("no rows"), words in (file.message or "")) == (
        status,
        True,
        True,
    )
    assert codes(tmp_path / "d") == ["no_rows"]


def test_a_table_with_rows_is_not_said_to_have_none(tmp_path: Path) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x.csv", "serial,uuid,node,rack,owner,status\n1,GPU-a,n,r,o,ok\n"))
    assert codes(tmp_path / "d") == []


@pytest.mark.parametrize("written", ["2026-13-01", "2026-02-30", "2026-11-01T25:00:00Z", "01/03/2025", "1e9"])
def test_a_date_that_is_none_is_told_with_its_line_its_text_and_the_form_that_was_expected(
    tmp_path: Path, written: str
) -> None:
    good = "GPU-a,hpc,vm,2026-01-01,2026-02-01,c.ito"
    text = f"device_uuid,holder,kind,from,to,approver\n{good}\nGPU-b,hpc,vm,{written},2027-01-01,c.ito\n"
    (file,) = import_files(tmp_path / "d", write(tmp_path / "lent.csv", text)).files
    found = rows(tmp_path / "d", "SELECT file, line, message FROM fact.finding WHERE code = 'source_malformed'")
    expected = (
        "from: expected a date such as 2026-11-30 or a time with a zone such as 2026-11-30T02:00:40Z; "
        f"found '{written}'"
    )
    assert found == [("lent.csv", 3, expected)]
    assert (file.status, file.message) == ("imported", f"line 3: {expected}")


def test_a_cell_that_cannot_be_read_is_told_beside_its_file(tmp_path: Path) -> None:
    text = "serial,uuid,node,rack,owner,purchase_date\n1,GPU-a,n,r,o,2025-01-01\n2,GPU-b,n,r,o,2025-00-01\n"
    (file,) = import_files(tmp_path / "d", write(tmp_path / "x.csv", text)).files
    assert (file.message or "").startswith("line 3: purchased: expected a date such as 2026-11-30")


def test_a_stamp_of_nvidia_smi_that_is_no_time_is_told_with_what_stands_there(tmp_path: Path) -> None:
    text = f"timestamp, uuid, memory.used [MiB]\n2026/13/14 09:00:44.742, {CARD}, 5 MiB\n"
    import_files(tmp_path / "d", write(tmp_path / "x.csv", text))
    assert [
        "2026-13-14 09:00:44" in message for (message,) in rows(tmp_path / "d", "SELECT message FROM fact.finding")
    ] == [True]

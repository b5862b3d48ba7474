"""The files of a request are found and refused by the same rules wherever they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.app.reading import FileRefused, read_content
from steelyard.app.request_files import files_of, outgoing_files, received_files
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import INSTANT_MAX
from steelyard.surfaces.shared.ports import ImportRequest
from steelyard.surfaces.shared.server_ports import ReceivedFile
from tests.app.import_samples import WRITTEN, import_files, listing, pod, write

LIMIT = 1_000


def test_what_is_sent_is_read_there_as_it_would_have_been_here(tmp_path: Path) -> None:
    source = tmp_path / "in"
    write(source / "a.json", listing(pod("a")))
    write(source / "b.gz", b"x" * 500, compress=True)
    write(source / "empty", b"")
    write(source / "large", b"x" * (LIMIT + 5))
    write(source / os.fsdecode(b"odd\xff"), b"text")
    (source / "outside").symlink_to("/etc/hostname")
    (source / "dangling").symlink_to(source / "nowhere")
    os.mkfifo(source / "pipe")
    request = ImportRequest([source, source / "a.json", source / os.fsdecode(b"odd\xff"), source / "pipe"])
    received = []
    for number, (head, read) in enumerate(outgoing_files(request)):
        spooled = tmp_path / str(number)
        spooled.write_bytes(b"".join(read()) if head.refusal is None else b"")
        received.append(
            ReceivedFile(head.path, head.name, head.kind, spooled, head.size, False, head.modified_at, head.refusal)
        )
    here, there = files_of(request), received_files(request, received, LIMIT)
    assert len(here) == len(there) == 11
    for own, other in zip(here, there, strict=True):
        assert (own.name, own.kind, str(own.path)) == (other.name, other.kind, other.shown)
        results: list[object] = []
        for each in (own, other):
            try:
                results.append(read_content(each, LIMIT, 0))
            except FileRefused as refused:
                results.append((refused.code, refused.message))
        assert results[0] == results[1], own


def test_a_file_that_was_longer_than_is_kept_is_refused_in_the_words_of_its_reader(tmp_path: Path) -> None:
    spooled = write(tmp_path / "0", b"x")
    files = [
        ReceivedFile("p", "n", None, spooled, size, cut) for size, cut in ((LIMIT + 1, True), (None, True), (5, True))
    ]
    messages = [file.refusal.message for file in received_files(ImportRequest(()), files, LIMIT) if file.refusal]
    assert messages == [
        "expected at most 1000 bytes, found 1001",
        "expected at most 1000 bytes, found more",
        "expected at most 1000 bytes, found more",
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ImportRequest((), kind="nonsense"), "no such kind"),
        (ImportRequest((), kind="benchmark_result"), "cannot be imported"),
        (ImportRequest((), as_of=INSTANT_MAX + 1), "--as-of"),
    ],
)
def test_what_cannot_be_asked_is_refused_here_and_there(request_: ImportRequest, message: str) -> None:
    for refuse in (
        lambda: files_of(request_),
        lambda: received_files(request_, [], LIMIT),
        lambda: outgoing_files(request_),
    ):
        with pytest.raises(UsageError, match=message):
            refuse()


def test_a_kind_that_a_file_comes_with_is_checked(tmp_path: Path) -> None:
    def received(kind: str | None) -> str | None:
        return received_files(ImportRequest((), kind="openb"), [ReceivedFile("p", "n", kind, tmp_path)], LIMIT)[0].kind

    assert (received(None), received("openb_nodes"), received("dmesg")) == ("openb", "openb_nodes", "kernel_log")
    for kind in ("benchmark_result", "nonsense", ""):
        with pytest.raises(UsageError):
            received(kind)


def test_a_file_whose_name_is_no_text_is_imported(tmp_path: Path) -> None:
    report = import_files(
        tmp_path / "d", write(tmp_path / os.fsdecode(b"\xff.json"), listing(pod("a")), written=WRITTEN)
    )
    assert report.files[0].status == "imported"

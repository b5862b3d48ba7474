"""A stream of files comes out as it went in, however it is cut into pieces; whatever is no such stream is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN
from steelyard.surfaces.shared.upload_stream import CHUNK_BYTES, HEAD_BYTES_MAX, FileHead, FrameParser, framed

Sent = list[tuple[FileHead, bytes]]

any_text = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates too: a name may be any bytes
heads = st.builds(
    FileHead,
    path=any_text,
    name=any_text,
    kind=st.none() | any_text,
    size=st.none() | st.integers(0, 2**63),
    modified_at=st.none() | st.integers(INSTANT_MIN, INSTANT_MAX),
    refusal=st.none() | st.tuples(st.sampled_from(["unreadable_file", "special_file"]), any_text),
)


def parsed(pieces: Iterable[bytes]) -> Sent:
    parser = FrameParser()
    found: Sent = []
    for piece in pieces:
        for part in parser.feed(piece):
            if isinstance(part, FileHead):
                found.append((part, b""))
            else:
                found[-1] = (found[-1][0], found[-1][1] + part)
    parser.close()
    return found


def stream(files: Sent) -> bytes:
    return b"".join(framed((head, [content]) for head, content in files))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(heads, st.binary(max_size=60)), max_size=4), st.integers(1, 23))
def test_files_come_out_as_they_went_in_however_the_stream_is_cut(files: Sent, step: int) -> None:
    whole = stream(files)
    assert parsed(whole[start : start + step] for start in range(0, len(whole), step)) == files


def test_a_long_file_travels_in_chunks_that_the_parser_hands_on() -> None:
    content = bytes(range(256)) * (CHUNK_BYTES // 100)
    assert parsed([stream([(FileHead("p", "n"), content)])]) == [(FileHead("p", "n"), content)]


def test_a_stream_that_is_cut_off_anywhere_is_refused() -> None:
    whole = stream([(FileHead("p", "n"), b"abc"), (FileHead("q", "m"), b"")])
    for end in range(len(whole)):
        with pytest.raises(SourceMalformed, match="cut off"):
            parsed([whole[:end]])


def head_of(**values: object) -> bytes:
    head = {"path": "p", "name": "n", "kind": None, "size": None, "modified_at": None, "refusal": None, **values}
    return json.dumps(head).encode()


@pytest.mark.parametrize(
    "head",
    [
        b"no json",
        b"[1]",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"path": "p"}',
        head_of(path=7),
        head_of(name=None),
        head_of(path="x" * 9_000),
        head_of(kind=["a"]),
        head_of(size=-1),
        head_of(size=True),
        head_of(size=1.5),
        head_of(size=2**70),
        head_of(modified_at=INSTANT_MAX + 1),
        head_of(modified_at="now"),
        head_of(refusal=["Code with spaces", "m"]),
        head_of(refusal=["ok"]),
        head_of(refusal=["", "m"]),
        head_of(refusal=[1, 2]),
        b'{"path": "p", "name": "n", "kind": null, "size": 1' + b"0" * 5_000 + b"}",
    ],
)
def test_a_head_that_is_none_is_refused(head: bytes) -> None:
    with pytest.raises(SourceMalformed, match="head cannot be read"):
        parsed([len(head).to_bytes(4, "big") + head])


@pytest.mark.parametrize(
    "whole",
    [
        (HEAD_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        stream([(FileHead("p", "n"), b"x")])[:-8] + (CHUNK_BYTES + 1).to_bytes(4, "big"),
        stream([]) + b"more",
    ],
)
def test_parts_beyond_their_bound_and_what_follows_the_end_are_refused_at_once(whole: bytes) -> None:
    with pytest.raises(SourceMalformed, match="no stream of files"):
        parsed([whole])

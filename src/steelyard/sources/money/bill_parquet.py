"""A provider's bill in FOCUS from Parquet, within bounds: what is packed must not become more than memory holds.

The trick to know: text columns are kept as dictionaries, so a text that a file repeats a million times stands in memory once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported
from steelyard.primitives.instant import INSTANT_MIN, SECOND_US, format_instant
from steelyard.sources.money.bill import COLUMNS, MARKS, SOURCE, bill_line, missing_columns
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import malformed

ROWS_MAX: Final = 20_000_000
COLUMNS_MAX: Final = 1_000
_ROWS_AT_ONCE: Final = 4_096
_TEXTS_MAX: Final = 100_000
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (FOCUS times are UTC, with a zone or without)


def read_bill_parquet(data: bytes, sha256: str, ctx: ReadContext) -> Iterator[Fact]:
    """A fact per row. Raises SourceUnsupported where it is no Parquet of a FOCUS Cost and Usage file, or beyond the bounds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = _opened(pa, pq, data, ctx)
        names = list(file.schema_arrow.names)
        missing = missing_columns(names, ctx)
        if missing is not None:
            yield missing
            return
        line = 0
        wanted = [name for name in names if name in COLUMNS]
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=wanted):
            columns = [_texts(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                line += 1
                row = dict(zip(batch.schema.names, cells, strict=True))
                try:
                    yield bill_line(row, line, sha256, ctx)
                except SourceMalformed as error:
                    yield malformed(ctx, SOURCE, SourceMalformed(error.message, line, _excerpt(row)))
    except (pa.ArrowException, OSError) as error:
        raise SourceUnsupported(f"no readable Parquet: {str(error)[:200]}") from None


def _opened(pa: Any, pq: Any, data: bytes, ctx: ReadContext) -> Any:
    plain = pq.ParquetFile(pa.BufferReader(data))
    schema, metadata = plain.schema_arrow, plain.metadata
    if not set(schema.names) >= MARKS or len(schema.names) > COLUMNS_MAX:
        raise SourceUnsupported(
            f"a Parquet file, but no bill in FOCUS: expected the columns {', '.join(sorted(MARKS))}"
        )
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if metadata.num_rows > ROWS_MAX or size > ctx.settings.decompressed_bytes_max:
        raise SourceUnsupported(
            f"expected at most {ROWS_MAX} rows and {ctx.settings.decompressed_bytes_max} bytes, found {metadata.num_rows} rows and {size} bytes"
        )
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)


def _texts(column: Any) -> Sequence[str]:
    """A column's values as cells. A text that many rows share is one object."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        known = [_text(value) for value in column.dictionary.to_pylist()]
        return ["" if index is None else known[index] for index in column.indices.to_pylist()]
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    """A value as the text that a CSV would hold."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_instant(_instant(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):  # a map, as pairs
        return json.dumps(dict(value)) if all(isinstance(item, tuple) for item in value) else "?"
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    return str(value)[:_TEXTS_MAX] if isinstance(value, str | int | Decimal) else "?"


def _instant(value: datetime) -> int:
    plain = value.replace(tzinfo=None) - (value.utcoffset() or _EPOCH - _EPOCH)
    seconds = (plain - _EPOCH).days * 86_400 + (plain - _EPOCH).seconds
    return max(INSTANT_MIN, seconds * SECOND_US + (plain - _EPOCH).microseconds)


def _excerpt(row: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value[:30]}" for name, value in list(row.items())[:8])

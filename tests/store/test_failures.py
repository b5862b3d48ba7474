"""What the engine raises becomes one line by who is at fault; our own mistakes stay what they are."""

from __future__ import annotations

import duckdb
import pytest

from steelyard.primitives.errors import StoreDamaged, StoreFailed
from steelyard.store import Store
from steelyard.store.failures import failure_of, failures_told


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (duckdb.IOException("IO Error: Could not write file: No space left on device\nmore"), StoreFailed),
        (duckdb.TransactionException("Failed to commit: Could not allocate block: disk full"), StoreFailed),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to pin block"), StoreFailed),
        (duckdb.FatalException("FATAL Error: database has been invalidated"), StoreFailed),
        (duckdb.IOException("IO Error: Corrupt database file: computed checksum 1"), StoreDamaged),
        (duckdb.IOException("IO Error: Could not read enough bytes from file"), StoreDamaged),
        (duckdb.SerializationException("Failed to deserialize: field id mismatch"), StoreDamaged),
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), KeyboardInterrupt),
        (RuntimeError("Query interrupted"), KeyboardInterrupt),
    ],
)
def test_trouble_of_the_world_is_one_line_with_its_class(error: Exception, expected: type[BaseException]) -> None:
    with pytest.raises(expected) as caught, failures_told():
        raise error
    assert type(caught.value) is expected
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [duckdb.ParserException("syntax"), duckdb.BinderException("no column"), OSError(28)])
def test_a_mistake_of_ours_is_not_made_a_failure_of_the_store(error: Exception) -> None:
    assert failure_of(error) is None


def test_a_query_that_outgrows_its_bounds_is_told_by_the_store() -> None:
    with Store.open_memory() as store:
        store.execute("SET memory_limit = '10MB'; SET temp_directory = ''")
        with pytest.raises(StoreFailed):
            store.rows("SELECT list(x) FROM range(10000000) AS t(x)")

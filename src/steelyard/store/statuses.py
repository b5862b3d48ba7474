"""Which statuses of rounds say nothing that their neighbours do not say, so that what is kept grows with what happens and not with the clock.

``retention`` calls this for one day at a time. Kept are the first and the last row of every run of rounds that say the same, so every change of
state keeps both its sides, and between them one an hour. The trick to know: stretches that were seen throughout become one per hour, made of
stretches that touch, so that what was seen throughout stays the same to the microsecond; and listings, which say of objects that they are not
there, stay as they were seen, as do the one that first missed a card and everything that came by an import.

Sceptic's query: ``SELECT kind, scope, date_trunc('hour', occurred_at), count(*) FROM fact.source_status GROUP BY ALL ORDER BY 4 DESC``.
"""

from __future__ import annotations

from typing import Final

_STATE: Final = "status, complete, as_of_basis, gap_max_us, observed_to_at IS NULL, regexp_replace(coalesce(message, ''), '[0-9]+', '#', 'g')"
"""What makes two rounds say the same. Figures in a message and the number of objects may differ from round to round."""

_UNIT: Final = "cluster, source, natural_key, kind, scope"


def steady_statuses_sql(day: str) -> str:
    """A SELECT of the rows that go. ``day``: a condition on ``occurred_at`` that names one day.

    Columns: those of ``fact.source_status``, ``island_no`` and ``hour_at``: touching stretches of one hour, of which ``merged_statuses_sql``
    makes one row (NULL where a round saw no stretch).
    """
    return f"""
        WITH rounds AS (
            SELECT *, date_trunc('hour', occurred_at) AS hour_at, row({_STATE}) AS state
            FROM fact.source_status
            WHERE {day} AND import_id IS NULL AND kind NOT IN ('trace', 'backfill', 'dcgm_series')
                AND NOT (kind IN ('pods', 'nodes') AND observed_to_at IS NULL AND status <> 'failed')
        ),
        stepped AS (
            SELECT
                *,
                lag(state) OVER unit IS DISTINCT FROM state AS opens,
                lead(state) OVER unit IS DISTINCT FROM state AS closes,
                coalesce(observed_from_at > max(observed_to_at) OVER (
                    PARTITION BY {_UNIT}, state ORDER BY observed_from_at, observed_to_at, fact_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), TRUE) AS apart
            FROM rounds
            WINDOW unit AS (PARTITION BY {_UNIT} ORDER BY occurred_at, fact_id)
        ),
        numbered AS (
            SELECT
                *,
                count(*) FILTER (WHERE opens) OVER (PARTITION BY {_UNIT} ORDER BY occurred_at, fact_id ROWS UNBOUNDED PRECEDING) AS run_no,
                count(*) FILTER (WHERE apart) OVER (
                    PARTITION BY {_UNIT}, state ORDER BY observed_from_at, observed_to_at, fact_id ROWS UNBOUNDED PRECEDING
                ) AS island
            FROM stepped
        ),
        placed AS (
            SELECT
                *,
                row_number() OVER (PARTITION BY {_UNIT}, run_no, hour_at ORDER BY occurred_at, fact_id) AS place_in_hour,
                count(*) OVER (PARTITION BY {_UNIT}, state, island, hour_at) AS touching_count
            FROM numbered
        )
        SELECT
            * EXCLUDE (state, opens, closes, apart, run_no, island, place_in_hour, touching_count),
            CASE WHEN observed_to_at IS NOT NULL THEN island END AS island_no
        FROM placed
        WHERE CASE
            WHEN observed_to_at IS NOT NULL THEN touching_count > 1
            ELSE NOT opens AND NOT closes AND place_in_hour > 1
                AND fact_id <> (SELECT max_by(fact_id, observed_at) FROM fact.source_status)
                AND (cluster, occurred_at) NOT IN (SELECT (cluster, gone_by_at) FROM dim.device WHERE gone_by_at IS NOT NULL)
        END
    """


def merged_statuses_sql(doomed: str, mark: str) -> str:
    """An INSERT of the stretches that take the place of those in the table ``doomed``. ``mark``: how their ``fact_id`` begins, which says that
    they were never seen."""
    state = "status, complete, as_of_basis, gap_max_us"
    return f"""
        INSERT INTO fact.source_status ({_UNIT}, {state}, message, objects_count, occurred_at, observed_at, observed_from_at, observed_to_at, fact_id)
        SELECT
            {_UNIT}, {state}, arg_max(message, occurred_at), arg_max(objects_count, occurred_at), max(occurred_at), max(observed_at),
            min(observed_from_at), max(observed_to_at),
            '{mark}' || md5(to_json([{", ".join(f"CAST({name} AS VARCHAR)" for name in _UNIT.split(", "))},
                CAST(min(observed_from_at) AS VARCHAR), CAST(max(observed_to_at) AS VARCHAR), status, complete::VARCHAR])::VARCHAR)
        FROM {doomed}
        WHERE island_no IS NOT NULL
        GROUP BY {_UNIT}, {state}, regexp_replace(coalesce(message, ''), '[0-9]+', '#', 'g'), island_no, hour_at
    """

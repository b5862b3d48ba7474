-- Where every GPU-second went: each posting of the supply ledger split into states, exact in integers (see gpu_state.py). Held time by the triple
-- (dim.gpu_state_held), free time by who waits for it (dim.gpu_state_free); everything else is what supply says it is.
WITH
split AS (
    SELECT
        book.posting_no, book.key_no, book.grain_at, book.pod_uid, book.unit_id, book.amount_gpu_us, held.state, held.cause, held.basis, held.gpu_us,
        CAST(sum(held.gpu_us) OVER posting AS BIGINT) AS held_us,
        row_number() OVER (
            PARTITION BY book.posting_no ORDER BY held.gpu_us DESC, held.state, held.cause NULLS FIRST, held.basis
        ) AS size_no
    FROM dim.gpu_state_book AS book
    JOIN dim.gpu_state_held AS held ON held.posting_no = book.posting_no
    WINDOW posting AS (PARTITION BY book.posting_no)
),

-- Parts that differ from the posting by a rounding stand as they are, the largest takes the rest; any others are scaled to it.
scaled AS (
    SELECT *, CAST(CAST(gpu_us AS HUGEINT) * amount_gpu_us // held_us AS BIGINT) AS part_us
    FROM split
    WHERE abs(amount_gpu_us - held_us) > 1000
),

held_posting AS (
    SELECT
        key_no, grain_at, pod_uid, unit_id, state, cause, basis,
        gpu_us + CASE WHEN size_no = 1 THEN amount_gpu_us - held_us ELSE 0 END AS gpu_us
    FROM split
    WHERE abs(amount_gpu_us - held_us) <= 1000
    UNION ALL
    SELECT
        key_no, grain_at, pod_uid, unit_id, state, cause, basis,
        CAST(
            part_us + CASE WHEN size_no = 1 THEN amount_gpu_us - sum(part_us) OVER (PARTITION BY posting_no) ELSE 0 END AS BIGINT
        )
    FROM scaled
),

waiting AS (
    SELECT book.key_no, book.grain_at, free.cause, free.gpu_us
    FROM dim.gpu_state_book AS book
    JOIN dim.gpu_state_free AS free ON free.site_no = book.site_no AND free.grain_us_at = epoch_us(book.grain_at)
    WHERE book.account = 'free' AND NOT book.is_down AND book.amount_gpu_us > 0
),

plain_posting AS (
    SELECT
        book.key_no, book.grain_at, book.pod_uid, book.unit_id,
        CASE
            WHEN book.account IN ('held', 'held_unplaced') AND book.is_down THEN 'held_down'
            WHEN book.account IN ('held', 'held_unplaced') THEN 'held_unknown'
            WHEN book.account = 'free' AND book.is_down THEN 'out_of_service'
            WHEN book.account = 'free' THEN 'free_no_demand'
            ELSE book.account
        END AS state,
        CASE
            WHEN book.account = 'held' AND NOT book.is_down THEN 'telemetry'
            WHEN book.account = 'held_unplaced' AND NOT book.is_down THEN 'device'
        END AS cause,
        book.amount_gpu_us - coalesce(waited.gpu_us, 0) AS gpu_us
    FROM dim.gpu_state_book AS book
    LEFT JOIN (SELECT DISTINCT posting_no FROM split) AS parts ON parts.posting_no = book.posting_no
    LEFT JOIN (SELECT key_no, grain_at, CAST(sum(gpu_us) AS BIGINT) AS gpu_us FROM waiting GROUP BY key_no, grain_at) AS waited
        ON waited.key_no = book.key_no AND waited.grain_at = book.grain_at AND book.account = 'free' AND NOT book.is_down
        AND book.amount_gpu_us > 0
    WHERE parts.posting_no IS NULL
)

SELECT key_no, grain_at, pod_uid, unit_id, state, cause, basis, gpu_us AS amount_gpu_us
FROM held_posting
WHERE gpu_us <> 0
UNION ALL
SELECT key_no, grain_at, NULL, NULL, 'free_waiting', cause, 'occupancy', gpu_us
FROM waiting
WHERE gpu_us <> 0
UNION ALL
SELECT key_no, grain_at, pod_uid, unit_id, state, cause, 'occupancy', CAST(sum(gpu_us) AS BIGINT)
FROM plain_posting
GROUP BY key_no, grain_at, pod_uid, unit_id, state, cause
HAVING sum(gpu_us) <> 0

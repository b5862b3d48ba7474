-- Holdings cut into pieces in which neither the holder's share nor the state of its place changes, scaled where the place is over-committed.
-- measurable: service is read off the measured minutes, else it is held_service (1 unknown, 2 down). doubled: the holder stands there twice at
-- some time (two resources of one pod). What is asked beyond the place stands as pieces of its own, with the account `overcommitted`, a memo.
-- At a place that only takes a transfer they stand as asked; dim.supply_piece takes them out of what is left of its cards (dim.supply_room).
-- memory_mib: what the grant states, else its share of the card's; NULL where neither is known.
-- A share that is not known takes its least; a holder beyond a million cards, or a figure beyond 10^8 MiB or percent, is not known.
WITH
place AS (
    SELECT place_no, cluster, place_kind, place_id, max(memory_mib) AS memory_mib
    FROM dim.supply_site
    GROUP BY place_no, cluster, place_kind, place_id
),

holding AS (
    SELECT
        place.place_no, place.memory_mib AS card_mib, holding.cluster, holding.pod_uid, holding.unit_kind, holding.unit_id,
        CASE
            WHEN holding.occupancy <> 'held' THEN holding.occupancy
            WHEN holding.place_kind = 'device' THEN 'held'
            ELSE 'held_unplaced'
        END AS account,
        epoch_us(holding.started_at) AS lo,
        epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS hi,
        CASE
            WHEN holding.share_ppm <= 1000000000000 THEN holding.share_ppm
            WHEN holding.share_at_least_ppm <= 1000000000000 THEN holding.share_at_least_ppm
            ELSE 0
        END AS share_ppm,
        CASE WHEN holding.memory_mib <= 100000000 THEN holding.memory_mib END AS memory_mib,
        CASE WHEN holding.cores_percent <= 100000000 THEN holding.cores_percent END AS cores_percent
    FROM ledger.holding AS holding
    JOIN place
        ON place.cluster = holding.cluster AND place.place_kind = holding.place_kind AND place.place_id = holding.place_id
    WHERE coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
),

placed AS (
    SELECT
        dense_rank() OVER (ORDER BY place_no, account, pod_uid, unit_id) AS holder_no,
        -dense_rank() OVER (ORDER BY place_no, pod_uid, unit_id) AS memo_no,
        place_no, account, pod_uid, unit_id, cluster, lo, hi, share_ppm,
        coalesce(memory_mib, gpu_time_us(card_mib, share_ppm)) AS memory_mib,
        CASE
            WHEN cores_percent IS NOT NULL THEN cores_percent
            WHEN unit_kind = 'vgpu' AND memory_mib IS NOT NULL THEN 0
            ELSE share_ppm // 10000
        END AS cores_percent
    FROM holding
),

-- What is asked of a place beside what it has, in each of its three measures.
load AS (
    SELECT
        place_no, turned_at AS lo, lead(turned_at) OVER sweep AS hi,
        CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
        CAST(sum(share_ppm) OVER sweep AS BIGINT) AS share_ppm,
        CAST(sum(memory_mib) OVER sweep AS BIGINT) AS memory_mib,
        CAST(sum(cores_percent) OVER sweep AS BIGINT) AS cores_percent
    FROM (
        SELECT
            place_no, turned_at, sum(cards) AS cards, sum(share_ppm) AS share_ppm, sum(memory_mib) AS memory_mib,
            sum(cores_percent) AS cores_percent
        FROM (
            SELECT place_no, from_us AS turned_at, cards, 0 AS share_ppm, 0 AS memory_mib, 0 AS cores_percent FROM dim.supply_stretch
            UNION ALL
            SELECT place_no, to_us, -cards, 0, 0, 0 FROM dim.supply_stretch
            UNION ALL
            SELECT place_no, lo, 0, share_ppm, coalesce(memory_mib, 0), cores_percent FROM placed
            UNION ALL
            SELECT place_no, hi, 0, -share_ppm, -coalesce(memory_mib, 0), -cores_percent FROM placed
        ) AS edge
        GROUP BY place_no, turned_at
    ) AS turn_of_load
    WINDOW sweep AS (PARTITION BY place_no ORDER BY turned_at)
),

judged_load AS (
    SELECT
        load.place_no, load.lo, load.hi, load.cards, load.share_ppm, load.memory_mib, load.cores_percent,
        place.memory_mib AS card_mib,
        load.cards > 0 AND (
            load.share_ppm > load.cards * 1000000 OR load.cores_percent > load.cards * 100
            OR coalesce(load.memory_mib > load.cards * place.memory_mib, FALSE)
        ) AS excessive
    FROM load
    JOIN place ON place.place_no = load.place_no
    WHERE load.hi IS NOT NULL
),

-- Over-committed places in parts: each excessive stretch alone, what lies between them in one; all other places in one part.
part AS (
    SELECT
        place_no, min(lo) AS lo, max(hi) AS hi, bool_or(excessive) AS excessive,
        max(cards) * 1000000 AS share_cap, max(share_ppm) AS share_sum,
        max(cards) * max(card_mib) AS memory_cap, max(memory_mib) AS memory_sum,
        max(cards) * 100 AS cores_cap, max(cores_percent) AS cores_sum
    FROM (
        SELECT
            place_no, lo, hi, excessive, cards, card_mib, share_ppm, memory_mib, cores_percent,
            sum(CASE WHEN excessive OR coalesce(excessive_before, TRUE) THEN 1 ELSE 0 END) OVER (
                PARTITION BY place_no ORDER BY lo ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS run_no
        FROM (
            SELECT
                place_no, lo, hi, excessive, cards, card_mib, share_ppm, memory_mib, cores_percent,
                lag(excessive) OVER (PARTITION BY place_no ORDER BY lo) AS excessive_before
            FROM judged_load
            WHERE place_no IN (SELECT place_no FROM judged_load WHERE excessive)
        ) AS marked
    ) AS numbered
    GROUP BY place_no, run_no
    UNION ALL
    SELECT
        place_no, -4611686018427387904, 4611686018427387904, FALSE, NULL, NULL, NULL, NULL, NULL, NULL
    FROM place
    WHERE place_no NOT IN (SELECT place_no FROM judged_load WHERE excessive)
),

scaled AS (
    SELECT
        placed.holder_no, placed.memo_no, placed.place_no, placed.cluster, placed.account, placed.pod_uid, placed.unit_id,
        greatest(placed.lo, part.lo) AS lo, least(placed.hi, part.hi) AS hi, part.excessive,
        placed.share_ppm AS asked_ppm, placed.memory_mib AS asked_mib, placed.cores_percent AS asked_percent,
        CASE
            WHEN part.excessive THEN booked_share_ppm(placed.share_ppm, part.share_sum, part.share_cap)
            ELSE placed.share_ppm
        END AS share_ppm,
        CASE
            WHEN part.excessive AND part.memory_cap IS NOT NULL THEN booked_share_ppm(placed.memory_mib, part.memory_sum, part.memory_cap)
            ELSE placed.memory_mib
        END AS memory_mib,
        CASE
            WHEN part.excessive THEN booked_share_ppm(placed.cores_percent, part.cores_sum, part.cores_cap)
            ELSE placed.cores_percent
        END AS cores_percent
    FROM placed
    JOIN part ON part.place_no = placed.place_no AND part.lo < placed.hi AND part.hi > placed.lo
),

-- What counts, and beside it what was asked beyond the place.
booked AS (
    SELECT holder_no, memo_no, place_no, cluster, account, pod_uid, unit_id, lo, hi, share_ppm, memory_mib, cores_percent
    FROM scaled
    UNION ALL
    SELECT
        memo_no, memo_no, place_no, cluster, 'overcommitted', pod_uid, unit_id, lo, hi, asked_ppm - share_ppm, asked_mib - memory_mib,
        asked_percent - cores_percent
    FROM scaled
    WHERE excessive AND (asked_ppm > share_ppm OR asked_mib > memory_mib OR asked_percent > cores_percent)
),

-- How long a pod tolerates an unreachable node, for pods on nodes that were not ready.
toleration AS (
    SELECT cluster, pod_uid, toleration_us
    FROM (
        SELECT
            cluster, pod_uid,
            greatest(0, least(coalesce(unreachable_toleration_us, 2305843009213693952), 2305843009213693952)) AS toleration_us,
            row_number() OVER (
                PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, unreachable_toleration_us DESC NULLS FIRST
            ) AS recency
        FROM fact.request
        WHERE pod_uid IN (
            SELECT pod_uid
            FROM placed
            WHERE place_no IN (SELECT place_no FROM dim.supply_stretch WHERE not_ready_since_us IS NOT NULL)
        )
    ) AS ranked
    WHERE recency = 1
),

laid AS (
    SELECT
        booked.holder_no, booked.memo_no, booked.account, booked.pod_uid, booked.unit_id, booked.share_ppm, booked.memory_mib, booked.cores_percent,
        stretch.site_no, stretch.place_no, stretch.rest_account, stretch.rest_service, stretch.broken, stretch.not_ready_since_us,
        greatest(booked.lo, stretch.from_us) AS lo, least(booked.hi, stretch.to_us) AS hi,
        CASE
            WHEN stretch.broken THEN -4611686018427387904
            WHEN stretch.not_ready_since_us IS NULL THEN 4611686018427387904
            ELSE least(stretch.not_ready_since_us + coalesce(toleration.toleration_us, 300000000), 4611686018427387904)
        END AS down_from
    FROM booked
    JOIN dim.supply_stretch AS stretch ON stretch.place_no = booked.place_no AND stretch.from_us < booked.hi AND stretch.to_us > booked.lo
    LEFT JOIN toleration
        ON toleration.cluster = booked.cluster AND toleration.pod_uid = booked.pod_uid AND stretch.not_ready_since_us IS NOT NULL
)

SELECT
    holder_no, memo_no, site_no, place_no, account, pod_uid, unit_id, lo AS from_us, hi AS to_us, share_ppm, memory_mib, cores_percent,
    rest_account, rest_service, held_service, measurable,
    coalesce(bool_or(lo < reach_before) OVER (PARTITION BY holder_no), FALSE) AS doubled
FROM (
    SELECT
        *,
        max(hi) OVER (
            PARTITION BY holder_no ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_before
    FROM (
        SELECT
            holder_no, memo_no, site_no, place_no, account, pod_uid, unit_id, share_ppm, memory_mib, cores_percent, rest_account, rest_service,
            1 AS held_service, NOT broken AND not_ready_since_us IS NULL AS measurable, lo, least(hi, down_from) AS hi
        FROM laid
        WHERE lo < down_from
        UNION ALL
        SELECT
            holder_no, memo_no, site_no, place_no, account, pod_uid, unit_id, share_ppm, memory_mib, cores_percent, rest_account, rest_service,
            2, FALSE, greatest(lo, down_from), hi
        FROM laid
        WHERE hi > down_from
    ) AS served
) AS marked

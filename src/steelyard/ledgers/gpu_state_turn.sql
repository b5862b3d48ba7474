-- When each holder of a card holds it, beside whom: pieces of supply cut by grains, by who else is on the unit, and by when the pod was ready. Time in which
-- service is down is left out (held_down needs no look at samples). posting_no: the posting of supply whose part it is (dim.gpu_state_book). unit_gi: the GPU instance whose counters count, NULL = the card's, -1 = an instance of which nobody tells the number. is_sole: nobody else
-- is on that unit. A pod in suspense, a process of a pod that holds nothing of it (dim.usage_intruder) and a pod whose card of the same node is not known may be
-- on it too; of these the last is on another card while this one is granted whole to one pod alone (dim.usage_exclusive), unless it holds a part of a shared one.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

place AS (
    SELECT DISTINCT place_no, cluster, place_kind, place_id FROM dim.supply_site
),

piece AS (
    SELECT
        piece.site_no, place.cluster, place.place_kind, place.place_id, piece.account, piece.pod_uid, piece.unit_id, piece.share_ppm, piece.held_service,
        greatest(piece.from_us, CAST($from_us AS BIGINT)) AS lo, least(piece.to_us, CAST($to_us AS BIGINT)) AS hi,
        coalesce(holder.is_mig, FALSE) AS is_mig, CASE WHEN holder.is_mig THEN holder.gi END AS gi, holder.ready_us,
        coalesce(holder.starting_until_us, -4611686018427387904) AS starting_until_us, coalesce(holder.is_interactive, FALSE) AS is_interactive,
        coalesce(holder.is_shared, TRUE) AS is_shared
    FROM dim.supply_piece AS piece
    JOIN place ON place.place_no = piece.place_no
    LEFT JOIN dim.gpu_state_holder AS holder
        ON holder.cluster = place.cluster AND holder.place_kind = place.place_kind AND holder.place_id = place.place_id
        AND holder.pod_uid IS NOT DISTINCT FROM piece.pod_uid AND holder.unit_id IS NOT DISTINCT FROM piece.unit_id
    WHERE piece.account IN ('held', 'in_suspense', 'held_unplaced') AND piece.from_us < CAST($to_us AS BIGINT) AND piece.to_us > CAST($from_us AS BIGINT)
),

presence AS (
    SELECT cluster, place_id AS device_uuid, pod_uid, gi, lo, hi, FALSE AS is_elsewhere
    FROM piece
    WHERE place_kind = 'device'
    UNION ALL
    SELECT piece.cluster, card.device_uuid, piece.pod_uid, NULL, piece.lo, piece.hi, NOT piece.is_shared
    FROM piece
    JOIN (SELECT DISTINCT cluster, node, device_uuid FROM dim.device) AS card
        ON piece.place_kind = 'node' AND card.cluster = piece.cluster AND card.node = piece.place_id
    UNION ALL
    SELECT cluster, device_uuid, pod_uid, gi, greatest(from_us, CAST($from_us AS BIGINT)), least(to_us, CAST($to_us AS BIGINT)), FALSE
    FROM dim.usage_intruder
    WHERE from_us < CAST($to_us AS BIGINT) AND to_us > CAST($from_us AS BIGINT)
),

scope AS (
    SELECT DISTINCT cluster, place_id AS device_uuid, gi
    FROM piece
    WHERE place_kind = 'device' AND account = 'held'
),

-- Who may be on each unit. kind 0: at all; where a card of the node is not known also 1: who is known to be on it or to share a card; 2: whose alone it is.
claim AS (
    SELECT scope.cluster, scope.device_uuid, scope.gi, presence.pod_uid, presence.lo, presence.hi, presence.is_elsewhere
    FROM scope
    JOIN presence
        ON presence.cluster = scope.cluster AND presence.device_uuid = scope.device_uuid
        AND (scope.gi IS NULL OR presence.gi IS NULL OR presence.gi = scope.gi)
),

kinded AS (
    SELECT cluster, device_uuid, gi, 0 AS kind, pod_uid, lo, hi
    FROM claim
    UNION ALL
    SELECT claim.cluster, claim.device_uuid, NULL, 1, claim.pod_uid, claim.lo, claim.hi
    FROM claim
    JOIN (SELECT DISTINCT cluster, device_uuid FROM dim.usage_exclusive) AS exclusive
        ON exclusive.cluster = claim.cluster AND exclusive.device_uuid = claim.device_uuid
    WHERE claim.gi IS NULL AND NOT claim.is_elsewhere
    UNION ALL
    SELECT
        exclusive.cluster, exclusive.device_uuid, NULL, 2, exclusive.pod_uid, greatest(exclusive.from_us, CAST($from_us AS BIGINT)),
        least(exclusive.to_us, CAST($to_us AS BIGINT))
    FROM dim.usage_exclusive AS exclusive
    JOIN scope ON scope.cluster = exclusive.cluster AND scope.device_uuid = exclusive.device_uuid AND scope.gi IS NULL
    WHERE exclusive.from_us < CAST($to_us AS BIGINT) AND exclusive.to_us > CAST($from_us AS BIGINT)
),

-- The stays of each pod on each unit, merged where they touch, of each kind by itself.
stay AS (
    SELECT cluster, device_uuid, gi, kind, pod_uid, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT
            *,
            sum(CASE WHEN lo <= reach_before THEN 0 ELSE 1 END) OVER (
                PARTITION BY cluster, device_uuid, gi, kind, pod_uid ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS island_no
        FROM (
            SELECT
                *,
                max(hi) OVER (
                    PARTITION BY cluster, device_uuid, gi, kind, pod_uid ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS reach_before
            FROM kinded
        ) AS reached
    ) AS numbered
    GROUP BY cluster, device_uuid, gi, kind, pod_uid, island_no
),

swept AS (
    SELECT
        cluster, device_uuid, gi, turned_at AS lo, lead(turned_at) OVER sweep AS hi, sum(pods) OVER sweep AS pods_count,
        sum(placed) OVER sweep AS placed_count, sum(exclusive) OVER sweep AS exclusive_count
    FROM (
        SELECT cluster, device_uuid, gi, turned_at, sum(pods) AS pods, sum(placed) AS placed, sum(exclusive) AS exclusive
        FROM (
            SELECT
                cluster, device_uuid, gi, lo AS turned_at, CASE WHEN kind = 0 THEN 1 ELSE 0 END AS pods, CASE WHEN kind = 1 THEN 1 ELSE 0 END AS placed,
                CASE WHEN kind = 2 THEN 1 ELSE 0 END AS exclusive
            FROM stay
            UNION ALL
            SELECT
                cluster, device_uuid, gi, hi, CASE WHEN kind = 0 THEN -1 ELSE 0 END, CASE WHEN kind = 1 THEN -1 ELSE 0 END,
                CASE WHEN kind = 2 THEN -1 ELSE 0 END
            FROM stay
        ) AS edge
        GROUP BY cluster, device_uuid, gi, turned_at
    ) AS turn
    WINDOW sweep AS (PARTITION BY cluster, device_uuid, gi ORDER BY turned_at)
),

beside AS (
    SELECT
        piece.site_no, piece.cluster, piece.place_id AS device_uuid, piece.pod_uid, piece.unit_id, piece.share_ppm, piece.is_mig, piece.gi AS unit_gi,
        piece.ready_us, piece.starting_until_us, piece.is_interactive, swept.pods_count <= 1 OR (swept.exclusive_count > 0 AND swept.placed_count <= 1) AS is_sole,
        greatest(piece.lo, swept.lo) AS lo, least(piece.hi, swept.hi) AS hi
    FROM piece
    JOIN swept
        ON swept.cluster = piece.cluster AND swept.device_uuid = piece.place_id AND swept.gi IS NOT DISTINCT FROM piece.gi
        AND swept.lo < piece.hi AND swept.hi > piece.lo
    WHERE piece.place_kind = 'device' AND piece.account = 'held' AND piece.held_service <> 2
),

phased AS (
    SELECT * EXCLUDE (lo, hi), TRUE AS is_starting, lo, least(hi, starting_until_us) AS hi
    FROM beside
    WHERE lo < starting_until_us
    UNION ALL
    SELECT * EXCLUDE (lo, hi), FALSE, greatest(lo, starting_until_us), hi
    FROM beside
    WHERE hi > starting_until_us
)

SELECT
    book.posting_no, cut.cluster, cut.device_uuid, cut.pod_uid, cut.share_ppm,
    CASE WHEN cut.is_mig AND cut.unit_gi IS NULL THEN -1 ELSE cut.unit_gi END AS unit_gi, cut.ready_us, cut.is_interactive, cut.is_starting,
    CASE WHEN cut.is_starting THEN 'occupancy' WHEN NOT cut.is_sole THEN 'card' WHEN cut.unit_gi IS NOT NULL THEN 'instance' ELSE 'triple' END AS basis,
    grain_start_us(cut.grain_us_at, 3600000000) AS hour_us,
    greatest(cut.lo, cut.grain_us_at) AS from_us, least(cut.hi, cut.grain_us_at + cut.grain_us) AS to_us
FROM (
    SELECT phased.*, parameter.grain_us, unnest(range(grain_start_us(phased.lo, parameter.grain_us), phased.hi, parameter.grain_us)) AS grain_us_at
    FROM phased
    CROSS JOIN parameter
    WHERE phased.hi > phased.lo
) AS cut
JOIN dim.gpu_state_book AS book
    ON book.account = 'held' AND NOT book.is_down AND book.site_no = cut.site_no AND epoch_us(book.grain_at) = cut.grain_us_at
    AND book.pod_uid IS NOT DISTINCT FROM cut.pod_uid AND book.unit_id IS NOT DISTINCT FROM cut.unit_id

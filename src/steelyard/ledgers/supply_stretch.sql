-- Stretches of each site in which nothing changes: how many cards, was occupancy seen, is it lost, in MIG reconfiguration, not ready.
-- Every condition is an interval with a flag; +1 at its start and -1 at its end, summed in time order, give the state between two turns.
-- rest_account: where time without a holder goes: 0 free, 1 unobserved, 2 nowhere, for no basis tells the capacity then and supply is what is held
-- (a place without a basis; a counted one at a time for which nobody declares a count). rest_service: its service outside measured minutes, 1 unknown, 2 down.
WITH
listing AS (
    SELECT
        cluster, scope, listed_at, gap_max_us,
        lag(listed_at) OVER (PARTITION BY cluster, scope ORDER BY listed_at) AS listed_before
    FROM (
        SELECT cluster, scope, epoch_us(occurred_at) AS listed_at, max(gap_max_us) AS gap_max_us
        FROM fact.source_status
        WHERE kind = 'pods' AND complete AND status = 'ok'
        GROUP BY cluster, scope, occurred_at
    ) AS round
),

seen_throughout AS (
    SELECT
        cluster, scope, lo, hi,
        max(hi) OVER (
            PARTITION BY cluster, scope ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_before
    FROM (
        SELECT cluster, scope, listed_before AS lo, listed_at AS hi
        FROM listing
        WHERE listed_at - listed_before <= gap_max_us
        UNION ALL
        SELECT cluster, scope, epoch_us(observed_from_at), epoch_us(observed_to_at)
        FROM fact.source_status
        WHERE kind IN ('pods', 'trace') AND complete AND status <> 'failed' AND observed_to_at > observed_from_at
    ) AS stretch_seen
),

observed AS (
    SELECT cluster, scope, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT
            cluster, scope, lo, hi,
            sum(CASE WHEN lo <= reach_before THEN 0 ELSE 1 END) OVER (
                PARTITION BY cluster, scope ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS island_no
        FROM seen_throughout
    ) AS numbered
    GROUP BY cluster, scope, island_no
),

-- A card is lost from the sighting or kernel event that says so to the next sighting that says it is well.
lost_sighting AS (
    SELECT cluster, device_uuid, occurred_at
    FROM fact.device
    WHERE state = 'lost'
    UNION ALL
    SELECT event.cluster, card.device_uuid, event.occurred_at
    FROM fact.event AS event
    JOIN (SELECT DISTINCT cluster, device_uuid, node, pci_address FROM dim.device) AS card
        ON card.cluster = event.cluster
        AND (
            card.device_uuid = event.device_uuid
            OR (event.device_uuid IS NULL AND card.node = event.node AND card.pci_address = event.pci_address)
        )
    WHERE event.kind = 'fell_off_bus' OR (event.kind = 'xid' AND event.code = 79)
),

card_verdict AS (
    SELECT
        cluster, device_uuid, seen_at, lost,
        lag(lost) OVER (PARTITION BY cluster, device_uuid ORDER BY seen_at) AS lost_before
    FROM (
        SELECT cluster, device_uuid, epoch_us(occurred_at) AS seen_at, bool_or(lost) AS lost
        FROM (
            SELECT cluster, device_uuid, occurred_at, TRUE AS lost FROM lost_sighting
            UNION ALL
            SELECT cluster, device_uuid, occurred_at, FALSE
            FROM fact.device
            WHERE state <> 'lost' AND coalesce(healthy, basis = 'inventory') AND source <> 'pod_resources'
                AND device_uuid IN (SELECT device_uuid FROM lost_sighting)
        ) AS verdict
        GROUP BY cluster, device_uuid, occurred_at
    ) AS sighting
),

lost_card AS (
    SELECT cluster, device_uuid, lo, hi
    FROM (
        SELECT
            cluster, device_uuid, lost, seen_at AS lo,
            coalesce(lead(seen_at) OVER (PARTITION BY cluster, device_uuid ORDER BY seen_at), 4611686018427387904) AS hi
        FROM card_verdict
        WHERE lost_before IS NULL OR lost_before <> lost
    ) AS change
    WHERE lost
),

troubled_node AS (
    SELECT
        cluster, node, epoch_us(occurred_at) AS seen_at,
        bool_or(coalesce(mig_config_state IN ('pending', 'rebooting'), FALSE)) AS reconfiguring,
        bool_or(NOT coalesce(ready, ready_changed_at IS NULL)) AS not_ready,
        epoch_us(max(ready_changed_at)) AS changed_at
    FROM fact.node
    WHERE node IN (
        SELECT node
        FROM fact.node
        WHERE NOT coalesce(ready, ready_changed_at IS NULL) OR mig_config_state IN ('pending', 'rebooting')
    )
    GROUP BY cluster, node, occurred_at
),

reconfiguring_node AS (
    SELECT cluster, node, lo, hi
    FROM (
        SELECT
            cluster, node, reconfiguring, seen_at AS lo,
            coalesce(lead(seen_at) OVER (PARTITION BY cluster, node ORDER BY seen_at), 4611686018427387904) AS hi
        FROM (
            SELECT
                cluster, node, seen_at, reconfiguring,
                lag(reconfiguring) OVER (PARTITION BY cluster, node ORDER BY seen_at) AS reconfiguring_before
            FROM troubled_node
        ) AS marked
        WHERE reconfiguring_before IS NULL OR reconfiguring_before <> reconfiguring
    ) AS change
    WHERE reconfiguring
),

-- A spell without readiness: from its transition (not before the last sighting that said otherwise) to the next readiness; a later
-- transition means that it was ready in between.
readiness_run AS (
    SELECT
        cluster, node, run_no,
        bool_or(not_ready) AS not_ready,
        max(changed_at) AS changed_at,
        min(seen_at) AS first_seen_at,
        max(seen_at) AS last_seen_at
    FROM (
        SELECT
            cluster, node, seen_at, not_ready, changed_at,
            sum(
                CASE
                    WHEN not_ready = not_ready_before AND (NOT not_ready OR changed_at IS NOT DISTINCT FROM changed_before) THEN 0
                    ELSE 1
                END
            ) OVER (PARTITION BY cluster, node ORDER BY seen_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run_no
        FROM (
            SELECT
                cluster, node, seen_at, not_ready, changed_at,
                lag(not_ready) OVER (PARTITION BY cluster, node ORDER BY seen_at) AS not_ready_before,
                lag(changed_at) OVER (PARTITION BY cluster, node ORDER BY seen_at) AS changed_before
            FROM troubled_node
        ) AS marked
    ) AS numbered
    GROUP BY cluster, node, run_no
),

not_ready_node AS (
    SELECT cluster, node, since_at AS lo, hi
    FROM (
        SELECT
            cluster, node, not_ready,
            greatest(
                least(coalesce(changed_at, first_seen_at), first_seen_at),
                coalesce(lag(last_seen_at) OVER later, -4611686018427387904)
            ) AS since_at,
            CASE
                WHEN lead(not_ready) OVER later IS NULL THEN 4611686018427387904
                WHEN lead(not_ready) OVER later THEN last_seen_at
                WHEN lead(changed_first_at) OVER later > last_seen_at THEN lead(changed_first_at) OVER later
                ELSE lead(first_seen_at) OVER later
            END AS hi
        FROM (
            SELECT
                readiness_run.cluster, readiness_run.node, readiness_run.run_no, readiness_run.not_ready, readiness_run.changed_at,
                readiness_run.first_seen_at, readiness_run.last_seen_at,
                CASE WHEN first_sighting.changed_at <= readiness_run.first_seen_at THEN first_sighting.changed_at END AS changed_first_at
            FROM readiness_run
            JOIN troubled_node AS first_sighting
                ON first_sighting.cluster = readiness_run.cluster AND first_sighting.node = readiness_run.node
                AND first_sighting.seen_at = readiness_run.first_seen_at
        ) AS run
        WINDOW later AS (PARTITION BY cluster, node ORDER BY run_no)
    ) AS spell
    WHERE not_ready AND hi > since_at
),

site AS (
    SELECT site_no, place_no, cluster, place_kind, place_id, node, basis FROM dim.supply_site WHERE stay_no = 1
),

condition AS (
    SELECT
        site_no, from_us AS lo, to_us AS hi, CASE WHEN basis = 'card' OR (basis = 'unknown' AND place_kind = 'device') THEN 1 ELSE 0 END AS cards,
        1 AS here, 0 AS seen, 0 AS lost, 0 AS reconfiguring, 0 AS not_ready, 0 AS not_ready_since, 0 AS beyond_toleration, 0 AS unknown_share
    FROM dim.supply_site
    UNION ALL
    SELECT site.site_no, capacity.from_us, capacity.to_us, capacity.cards_count, 0, 0, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN dim.node_capacity AS capacity
        ON site.basis = 'count' AND capacity.cluster = site.cluster AND capacity.node = site.place_id
    UNION ALL
    SELECT site.site_no, observed.lo, observed.hi, 0, 0, 1, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN observed ON observed.cluster = site.cluster AND observed.scope = 'cluster'
    UNION ALL
    SELECT site.site_no, observed.lo, observed.hi, 0, 0, 1, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN observed ON observed.cluster = site.cluster AND observed.scope = 'node/' || site.node
    UNION ALL
    SELECT site.site_no, lost_card.lo, lost_card.hi, 0, 0, 0, 1, 0, 0, 0, 0, 0
    FROM site
    JOIN lost_card
        ON site.place_kind = 'device' AND lost_card.cluster = site.cluster AND lost_card.device_uuid = site.place_id
    UNION ALL
    SELECT site.site_no, reconfiguring_node.lo, reconfiguring_node.hi, 0, 0, 0, 0, 1, 0, 0, 0, 0
    FROM site
    JOIN reconfiguring_node ON reconfiguring_node.cluster = site.cluster AND reconfiguring_node.node = site.node
    UNION ALL
    SELECT site.site_no, not_ready_node.lo, not_ready_node.hi, 0, 0, 0, 0, 0, 1, not_ready_node.lo, 0, 0
    FROM site
    JOIN not_ready_node ON not_ready_node.cluster = site.cluster AND not_ready_node.node = site.node
    UNION ALL
    SELECT site.site_no, not_ready_node.lo + 300000000, not_ready_node.hi, 0, 0, 0, 0, 0, 0, 0, 1, 0
    FROM site
    JOIN not_ready_node ON not_ready_node.cluster = site.cluster AND not_ready_node.node = site.node
    UNION ALL
    SELECT
        site.site_no, epoch_us(holding.started_at), epoch_us(coalesce(holding.ended_at, holding.known_to_at)), 0, 0, 0, 0, 0, 0, 0, 0, 1
    FROM site
    JOIN ledger.holding AS holding
        ON holding.cluster = site.cluster AND holding.place_kind = site.place_kind AND holding.place_id = site.place_id
    WHERE holding.share_ppm IS NULL OR holding.share_ppm > 1000000000000
    UNION ALL
    -- The tail of a vanished pod: it may be there still until a listing misses it. On a node whose card is not known, any card may be its own.
    SELECT site.site_no, epoch_us(holding.ended_at), epoch_us(holding.ended_before_at), 0, 0, 0, 0, 0, 0, 0, 0, 1
    FROM site
    JOIN ledger.holding AS holding
        ON holding.cluster = site.cluster AND holding.place_kind = site.place_kind AND holding.place_id = site.place_id
    WHERE holding.ended_before_at > holding.ended_at
    UNION ALL
    SELECT site.site_no, epoch_us(holding.ended_at), epoch_us(holding.ended_before_at), 0, 0, 0, 0, 0, 0, 0, 0, 1
    FROM site
    JOIN ledger.holding AS holding
        ON holding.cluster = site.cluster AND holding.place_kind = 'node' AND site.place_kind = 'device' AND holding.place_id = site.node
    WHERE holding.ended_before_at > holding.ended_at
),

condition_within AS (
    SELECT
        condition.site_no, greatest(condition.lo, stay.from_us) AS lo, least(condition.hi, stay.to_us) AS hi,
        condition.cards, condition.here, condition.seen, condition.lost, condition.reconfiguring, condition.not_ready, condition.not_ready_since,
        condition.beyond_toleration, condition.unknown_share
    FROM condition
    JOIN dim.supply_site AS stay ON stay.site_no = condition.site_no
    WHERE least(condition.hi, stay.to_us) > greatest(condition.lo, stay.from_us)
),

turn AS (
    SELECT
        site_no, turned_at, sum(cards) AS cards, sum(here) AS here, sum(seen) AS seen, sum(lost) AS lost, sum(reconfiguring) AS reconfiguring,
        sum(not_ready) AS not_ready, sum(not_ready_since) AS not_ready_since, sum(beyond_toleration) AS beyond_toleration,
        sum(unknown_share) AS unknown_share
    FROM (
        SELECT
            site_no, lo AS turned_at, cards, here, seen, lost, reconfiguring, not_ready, not_ready_since, beyond_toleration, unknown_share
        FROM condition_within
        UNION ALL
        SELECT
            site_no, hi, -cards, -here, -seen, -lost, -reconfiguring, -not_ready, -not_ready_since, -beyond_toleration, -unknown_share
        FROM condition_within
    ) AS edge
    GROUP BY site_no, turned_at
)

-- not_ready_since_us is NULL while the node is ready.
SELECT
    swept.site_no, site.place_no, swept.lo AS from_us, swept.hi AS to_us, swept.cards,
    CASE
        WHEN site.basis = 'unknown' OR (site.basis = 'count' AND swept.cards = 0) THEN 2
        WHEN swept.lost > 0 OR (swept.seen > 0 AND swept.unknown_share = 0) THEN 0
        ELSE 1
    END AS rest_account,
    swept.lost + swept.reconfiguring > 0 AS broken,
    CASE WHEN swept.not_ready > 0 AND swept.lost + swept.reconfiguring = 0 THEN swept.not_ready_since END AS not_ready_since_us,
    CASE WHEN swept.lost + swept.reconfiguring + swept.beyond_toleration > 0 THEN 2 ELSE 1 END AS rest_service
FROM (
    SELECT
        site_no, turned_at AS lo, lead(turned_at) OVER sweep AS hi,
        CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
        sum(here) OVER sweep AS here,
        sum(seen) OVER sweep AS seen,
        sum(lost) OVER sweep AS lost,
        sum(reconfiguring) OVER sweep AS reconfiguring,
        sum(not_ready) OVER sweep AS not_ready,
        CAST(sum(not_ready_since) OVER sweep AS BIGINT) AS not_ready_since,
        sum(beyond_toleration) OVER sweep AS beyond_toleration,
        sum(unknown_share) OVER sweep AS unknown_share
    FROM turn
    WINDOW sweep AS (PARTITION BY site_no ORDER BY turned_at)
) AS swept
JOIN site ON site.site_no = swept.site_no
WHERE swept.hi IS NOT NULL AND swept.here > 0

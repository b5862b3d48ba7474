-- Where every GPU-second of every place went: one side `supply`, the other side its accounts, exact in integers.
--
-- How it reads, top to bottom: (1) places and the stretch in which each has supply; (2) conditions of a place over time (capacity, occupancy
-- seen, lost, reconfigured, node not ready), swept into stretches in which nothing changes; (3) holdings, scaled where a place is
-- over-committed, cut by stretches and grains; (4) what each grain could hold; (5) the remainder, which is free or unobserved.
-- Times inside are microseconds since 1970. Codes inside: account of the remainder 0 free, 1 unobserved; service 0 up, 1 unknown, 2 down.
-- The trick to know: free time is never cut into pieces, it is what a class of time holds less what is held in that class. Each amount is
-- floored once per holder, grain and class, so that every remainder lands in free or unobserved and the books close to the microsecond.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

-- (1) Places ------------------------------------------------------------------------------------------------------------------------
holding AS (
    SELECT
        cluster, place_kind, place_id, node, device_uuid, pod_uid, unit_kind, unit_id,
        CASE
            WHEN occupancy <> 'held' THEN occupancy
            WHEN place_kind = 'device' THEN 'held'
            ELSE 'held_unplaced'
        END AS account,
        share_ppm, memory_mib, cores_percent,
        epoch_us(started_at) AS lo,
        epoch_us(coalesce(ended_at, known_to_at)) AS hi
    FROM ledger.holding
    WHERE coalesce(ended_at, known_to_at) > started_at
),

-- One pass over all samples: the minutes in which a card was measured, one bit each. Samples that stand for several minutes are few.
sampled_hour AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(CAST(1 AS BIGINT) << minute(occurred_at)) AS minutes_mask,
        min(occurred_at) AS first_at,
        max(epoch_us(occurred_at) + CASE WHEN interval_us BETWEEN 1 AND 3600000000 THEN interval_us ELSE 0 END) AS last_us
    FROM fact.device_sample
    WHERE memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
        OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

long_sample_hour AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(lit_minutes(minute(occurred_at), interval_us)) AS minutes_mask,
        bit_or(lit_minutes_of_next_hour(minute(occurred_at), interval_us)) AS spilled_mask
    FROM fact.device_sample
    WHERE interval_us >= 120000000
        AND (
            memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
            OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
        )
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

known_device AS (
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT cluster, device_uuid, memory_mib, epoch_us(valid_from_at) AS lo, epoch_us(valid_to_at) AS hi
        FROM dim.device
        UNION ALL
        SELECT cluster, device_uuid, NULL, epoch_us(min(first_at)), max(last_us)
        FROM sampled_hour
        GROUP BY cluster, device_uuid
        UNION ALL
        SELECT cluster, object_uid, NULL, epoch_us(min(occurred_at)), epoch_us(max(occurred_at))
        FROM fact.sighting
        WHERE object_kind = 'device'
        GROUP BY cluster, object_uid
    ) AS seen
    GROUP BY cluster, device_uuid
),

device_node AS (
    SELECT
        cluster, device_uuid, node,
        CASE WHEN row_number() OVER earlier = 1 THEN -4611686018427387904 ELSE epoch_us(valid_from_at) END AS lo,
        coalesce(lead(epoch_us(valid_from_at)) OVER earlier, 4611686018427387904) AS hi
    FROM dim.device
    WINDOW earlier AS (PARTITION BY cluster, device_uuid ORDER BY valid_from_at, node)
),

node_card AS (
    SELECT
        cluster, node,
        CASE WHEN min(memory_mib) = max(memory_mib) AND count(memory_mib) = count(*) THEN max(memory_mib) END AS memory_mib
    FROM dim.device
    GROUP BY cluster, node
),

cluster_card AS (
    SELECT
        cluster,
        CASE WHEN min(memory_mib) = max(memory_mib) AND count(memory_mib) = count(*) THEN max(memory_mib) END AS memory_mib
    FROM dim.device
    GROUP BY cluster
),

-- Declared capacity of nodes whose cards have no known UUID; the strongest basis of a node counts.
labelled AS (
    SELECT
        cluster, node, cards_count, memory_mib, seen_at,
        lag(cards_count) OVER (PARTITION BY cluster, node ORDER BY seen_at) AS cards_before
    FROM (
        SELECT cluster, node, epoch_us(occurred_at) AS seen_at, max(cards_count) AS cards_count, max(memory_mib) AS memory_mib
        FROM (
            SELECT cluster, node, occurred_at, cards_count, memory_mib
            FROM fact.inventory_basis
            WHERE basis = 'gfd_label' AND node IS NOT NULL
            UNION ALL
            SELECT cluster, node, occurred_at, gpu_count, gpu_memory_mib
            FROM fact.node
            WHERE gpu_count IS NOT NULL
        ) AS label
        GROUP BY cluster, node, occurred_at
    ) AS sighting
),

labelled_change AS (
    SELECT
        cluster, node, cards_count,
        CASE WHEN cards_before IS NULL THEN -4611686018427387904 ELSE seen_at END AS lo,
        coalesce(lead(seen_at) OVER (PARTITION BY cluster, node ORDER BY seen_at), 4611686018427387904) AS hi
    FROM labelled
    WHERE cards_before IS NULL OR cards_before <> cards_count
),

watched_span AS (
    SELECT cluster, epoch_us(min(observed_from_at)) AS lo, epoch_us(max(observed_to_at)) AS hi
    FROM fact.source_status
    WHERE kind IN ('pods', 'trace') AND complete AND status <> 'failed' AND scope = 'cluster'
    GROUP BY cluster
),

declared AS (
    SELECT
        basis.cluster, basis.node, basis.cards_count, basis.memory_mib,
        CASE basis.basis WHEN 'declared' THEN 2 ELSE 3 END AS basis_rank,
        coalesce(epoch_us(basis.valid_from_at), -4611686018427387904) AS lo,
        coalesce(epoch_us(basis.valid_to_at), 4611686018427387904) AS hi,
        coalesce(epoch_us(basis.valid_from_at), least(epoch_us(basis.occurred_at), watched_span.lo)) AS seen_from,
        coalesce(epoch_us(basis.valid_to_at), greatest(epoch_us(basis.occurred_at), watched_span.hi)) AS seen_to,
        row_number() OVER (
            PARTITION BY basis.cluster, basis.basis, basis.natural_key
            ORDER BY basis.occurred_at DESC, basis.cards_count DESC, basis.valid_from_at, basis.valid_to_at
        ) AS recency
    FROM fact.inventory_basis AS basis
    LEFT JOIN watched_span ON watched_span.cluster = basis.cluster
    WHERE basis.basis IN ('declared', 'asset_list') AND basis.node IS NOT NULL
),

counted_rank AS (
    SELECT cluster, node, min(basis_rank) AS basis_rank, max(memory_mib) AS memory_mib
    FROM (
        SELECT cluster, node, 1 AS basis_rank, memory_mib FROM labelled WHERE cards_count > 0
        UNION ALL
        SELECT cluster, node, basis_rank, memory_mib FROM declared WHERE recency = 1 AND cards_count > 0
    ) AS candidate
    WHERE NOT EXISTS (
        SELECT 1 FROM dim.device AS card WHERE card.cluster = candidate.cluster AND card.node = candidate.node
    )
    GROUP BY cluster, node
),

counted_capacity AS (
    SELECT part.cluster, part.node, part.cards_count, part.lo, part.hi
    FROM (
        SELECT cluster, node, 1 AS basis_rank, cards_count, lo, hi FROM labelled_change
        UNION ALL
        SELECT cluster, node, basis_rank, cards_count, lo, hi FROM declared WHERE recency = 1
    ) AS part
    JOIN counted_rank
        ON counted_rank.cluster = part.cluster AND counted_rank.node = part.node AND counted_rank.basis_rank = part.basis_rank
    WHERE part.cards_count > 0 AND part.hi > part.lo
),

extent AS (
    SELECT cluster, place_kind, place_id, min(lo) AS lo, max(hi) AS hi, min(node) AS node
    FROM (
        SELECT cluster, 'device' AS place_kind, device_uuid AS place_id, lo, hi, NULL AS node FROM known_device
        UNION ALL
        SELECT cluster, place_kind, place_id, lo, hi, node FROM holding
        UNION ALL
        SELECT labelled.cluster, 'node', labelled.node, labelled.seen_at, labelled.seen_at, labelled.node
        FROM labelled
        JOIN counted_rank
            ON counted_rank.cluster = labelled.cluster AND counted_rank.node = labelled.node AND counted_rank.basis_rank = 1
        UNION ALL
        SELECT declared.cluster, 'node', declared.node, declared.seen_from, declared.seen_to, declared.node
        FROM declared
        JOIN counted_rank
            ON counted_rank.cluster = declared.cluster AND counted_rank.node = declared.node
            AND counted_rank.basis_rank = declared.basis_rank
        WHERE declared.recency = 1
    ) AS stay
    GROUP BY cluster, place_kind, place_id
),

-- basis: `card` a known card; `count` a node of known capacity; `transfer` takes only a transfer; `unknown` no capacity basis.
place AS (
    SELECT
        row_number() OVER (ORDER BY extent.cluster, extent.place_kind, extent.place_id) AS place_no,
        extent.cluster, extent.place_kind, extent.place_id, extent.lo, extent.hi, extent.node,
        CASE extent.place_kind
            WHEN 'device' THEN known_device.memory_mib
            WHEN 'node' THEN coalesce(node_card.memory_mib, counted_rank.memory_mib)
            ELSE cluster_card.memory_mib
        END AS memory_mib,
        CASE
            WHEN extent.place_kind = 'device' THEN CASE WHEN known_device.device_uuid IS NULL THEN 'unknown' ELSE 'card' END
            WHEN extent.place_kind <> 'node' OR node_card.node IS NOT NULL THEN 'transfer'
            WHEN counted_rank.node IS NOT NULL THEN 'count'
            ELSE 'unknown'
        END AS basis
    FROM extent
    LEFT JOIN known_device
        ON extent.place_kind = 'device' AND known_device.cluster = extent.cluster AND known_device.device_uuid = extent.place_id
    LEFT JOIN node_card
        ON extent.place_kind = 'node' AND node_card.cluster = extent.cluster AND node_card.node = extent.place_id
    LEFT JOIN counted_rank
        ON extent.place_kind = 'node' AND counted_rank.cluster = extent.cluster AND counted_rank.node = extent.place_id
    LEFT JOIN cluster_card
        ON extent.place_kind = 'cluster' AND cluster_card.cluster = extent.cluster
),

-- A place at one node: a card that moved has one site per node, which follow each other in time.
site AS (
    SELECT
        row_number() OVER (ORDER BY place.place_no, device_node.lo) AS site_no,
        place.place_no, place.cluster, place.place_kind, place.place_id, place.memory_mib, place.basis,
        CASE WHEN device_node.device_uuid IS NULL THEN place.node ELSE device_node.node END AS node,
        greatest(place.lo, coalesce(device_node.lo, place.lo)) AS lo,
        least(place.hi, coalesce(device_node.hi, place.hi)) AS hi
    FROM place
    LEFT JOIN device_node
        ON place.place_kind = 'device' AND device_node.cluster = place.cluster AND device_node.device_uuid = place.place_id
        AND device_node.lo < place.hi AND device_node.hi > place.lo AND device_node.lo < device_node.hi
),

-- (2) Conditions --------------------------------------------------------------------------------------------------------------------
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

card_verdict AS (
    SELECT
        cluster, device_uuid, seen_at, lost,
        lag(lost) OVER (PARTITION BY cluster, device_uuid ORDER BY seen_at) AS lost_before
    FROM (
        SELECT cluster, device_uuid, epoch_us(occurred_at) AS seen_at, bool_or(state = 'lost') AS lost
        FROM fact.device
        WHERE (state = 'lost' OR coalesce(healthy, basis = 'inventory'))
            AND device_uuid IN (SELECT device_uuid FROM fact.device WHERE state = 'lost')
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

-- A spell without readiness: from its transition to the next readiness; a later transition means that it was ready in between.
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
            cluster, node, not_ready, least(coalesce(changed_at, first_seen_at), first_seen_at) AS since_at,
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

condition AS (
    SELECT
        site_no, lo, hi, CASE WHEN basis = 'card' OR (basis = 'unknown' AND place_kind = 'device') THEN 1 ELSE 0 END AS cards,
        0 AS seen, 0 AS lost, 0 AS reconfiguring, 0 AS not_ready, 0 AS not_ready_since, 0 AS beyond_toleration, 0 AS unknown_share
    FROM site
    UNION ALL
    SELECT site.site_no, counted_capacity.lo, counted_capacity.hi, counted_capacity.cards_count, 0, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN counted_capacity
        ON site.basis = 'count' AND counted_capacity.cluster = site.cluster AND counted_capacity.node = site.place_id
    UNION ALL
    SELECT site.site_no, observed.lo, observed.hi, 0, 1, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN observed ON observed.cluster = site.cluster AND observed.scope = 'cluster'
    UNION ALL
    SELECT site.site_no, observed.lo, observed.hi, 0, 1, 0, 0, 0, 0, 0, 0
    FROM site
    JOIN observed ON observed.cluster = site.cluster AND observed.scope = 'node/' || site.node
    UNION ALL
    SELECT site.site_no, lost_card.lo, lost_card.hi, 0, 0, 1, 0, 0, 0, 0, 0
    FROM site
    JOIN lost_card
        ON site.place_kind = 'device' AND lost_card.cluster = site.cluster AND lost_card.device_uuid = site.place_id
    UNION ALL
    SELECT site.site_no, reconfiguring_node.lo, reconfiguring_node.hi, 0, 0, 0, 1, 0, 0, 0, 0
    FROM site
    JOIN reconfiguring_node ON reconfiguring_node.cluster = site.cluster AND reconfiguring_node.node = site.node
    UNION ALL
    SELECT site.site_no, not_ready_node.lo, not_ready_node.hi, 0, 0, 0, 0, 1, not_ready_node.lo, 0, 0
    FROM site
    JOIN not_ready_node ON not_ready_node.cluster = site.cluster AND not_ready_node.node = site.node
    UNION ALL
    SELECT site.site_no, not_ready_node.lo + 300000000, not_ready_node.hi, 0, 0, 0, 0, 0, 0, 1, 0
    FROM site
    JOIN not_ready_node ON not_ready_node.cluster = site.cluster AND not_ready_node.node = site.node
    UNION ALL
    SELECT site.site_no, holding.lo, holding.hi, 0, 0, 0, 0, 0, 0, 0, 1
    FROM site
    JOIN holding
        ON holding.cluster = site.cluster AND holding.place_kind = site.place_kind AND holding.place_id = site.place_id
    WHERE holding.share_ppm IS NULL
),

condition_within AS (
    SELECT
        condition.site_no, greatest(condition.lo, site.lo) AS lo, least(condition.hi, site.hi) AS hi,
        condition.cards, condition.seen, condition.lost, condition.reconfiguring, condition.not_ready, condition.not_ready_since,
        condition.beyond_toleration, condition.unknown_share
    FROM condition
    JOIN site ON site.site_no = condition.site_no
    WHERE least(condition.hi, site.hi) > greatest(condition.lo, site.lo)
),

turn AS (
    SELECT
        site_no, turned_at, sum(cards) AS cards, sum(seen) AS seen, sum(lost) AS lost, sum(reconfiguring) AS reconfiguring,
        sum(not_ready) AS not_ready, sum(not_ready_since) AS not_ready_since, sum(beyond_toleration) AS beyond_toleration,
        sum(unknown_share) AS unknown_share
    FROM (
        SELECT
            site_no, lo AS turned_at, cards, seen, lost, reconfiguring, not_ready, not_ready_since, beyond_toleration, unknown_share
        FROM condition_within
        UNION ALL
        SELECT
            site_no, hi, -cards, -seen, -lost, -reconfiguring, -not_ready, -not_ready_since, -beyond_toleration, -unknown_share
        FROM condition_within
    ) AS edge
    GROUP BY site_no, turned_at
),

-- Stretches of a site in which nothing changes. not_ready_since is NULL while the node is ready.
stretch AS (
    SELECT
        swept.site_no, site.place_no, swept.lo, swept.hi, swept.cards,
        CASE WHEN swept.lost > 0 OR (swept.seen > 0 AND swept.unknown_share = 0) THEN 0 ELSE 1 END AS rest_account,
        swept.lost + swept.reconfiguring > 0 AS broken,
        CASE WHEN swept.not_ready > 0 AND swept.lost + swept.reconfiguring = 0 THEN swept.not_ready_since END AS not_ready_since,
        CASE WHEN swept.lost + swept.reconfiguring + swept.beyond_toleration > 0 THEN 2 ELSE 1 END AS rest_service
    FROM (
        SELECT
            site_no, turned_at AS lo, lead(turned_at) OVER sweep AS hi,
            CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
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
    WHERE swept.hi IS NOT NULL
),

-- (3) Holdings ----------------------------------------------------------------------------------------------------------------------
placed AS (
    SELECT
        dense_rank() OVER (ORDER BY place.place_no, holding.account, holding.pod_uid, holding.unit_id) AS holder_no,
        place.place_no, holding.account, holding.pod_uid, holding.unit_id, holding.lo, holding.hi, holding.share_ppm, holding.cluster,
        CASE
            WHEN place.memory_mib IS NOT NULL
                THEN coalesce(holding.memory_mib, holding.share_ppm * place.memory_mib // 1000000)
        END AS memory_mib,
        coalesce(
            holding.cores_percent,
            CASE
                WHEN holding.unit_kind = 'vgpu' AND holding.memory_mib IS NOT NULL THEN 0
                ELSE holding.share_ppm // 10000
            END
        ) AS cores_percent
    FROM holding
    JOIN place
        ON place.cluster = holding.cluster AND place.place_kind = holding.place_kind AND place.place_id = holding.place_id
    WHERE holding.share_ppm IS NOT NULL
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
            SELECT place_no, lo AS turned_at, cards, 0 AS share_ppm, 0 AS memory_mib, 0 AS cores_percent FROM stretch
            UNION ALL
            SELECT place_no, hi, -cards, 0, 0, 0 FROM stretch
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
        placed.holder_no, placed.place_no, placed.cluster, placed.pod_uid,
        greatest(placed.lo, part.lo) AS lo, least(placed.hi, part.hi) AS hi, part.excessive,
        placed.share_ppm AS asked_ppm, placed.memory_mib AS asked_mib, placed.cores_percent AS asked_percent,
        CASE
            WHEN part.excessive AND part.share_sum > part.share_cap
                THEN CAST(CAST(placed.share_ppm AS DECIMAL(38, 0)) * part.share_cap // part.share_sum AS BIGINT)
            ELSE placed.share_ppm
        END AS share_ppm,
        CASE
            WHEN part.excessive AND part.memory_sum > part.memory_cap
                THEN CAST(CAST(placed.memory_mib AS DECIMAL(38, 0)) * part.memory_cap // part.memory_sum AS BIGINT)
            ELSE placed.memory_mib
        END AS memory_mib,
        CASE
            WHEN part.excessive AND part.cores_sum > part.cores_cap
                THEN CAST(CAST(placed.cores_percent AS DECIMAL(38, 0)) * part.cores_cap // part.cores_sum AS BIGINT)
            ELSE placed.cores_percent
        END AS cores_percent
    FROM placed
    JOIN part ON part.place_no = placed.place_no AND part.lo < placed.hi AND part.hi > placed.lo
),

-- How long a pod tolerates an unreachable node, for pods on nodes that were not ready.
toleration AS (
    SELECT cluster, pod_uid, toleration_us
    FROM (
        SELECT
            cluster, pod_uid, coalesce(unreachable_toleration_us, 4611686018427387904) AS toleration_us,
            row_number() OVER (
                PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, unreachable_toleration_us DESC NULLS FIRST
            ) AS recency
        FROM fact.request
        WHERE pod_uid IN (
            SELECT pod_uid
            FROM placed
            WHERE place_no IN (SELECT place_no FROM stretch WHERE not_ready_since IS NOT NULL)
        )
    ) AS ranked
    WHERE recency = 1
),

laid AS (
    SELECT
        scaled.holder_no, scaled.excessive, scaled.asked_ppm, scaled.asked_mib, scaled.asked_percent, scaled.share_ppm, scaled.memory_mib,
        scaled.cores_percent, stretch.site_no, stretch.place_no, stretch.rest_account, stretch.rest_service,
        stretch.broken, stretch.not_ready_since,
        greatest(scaled.lo, stretch.lo) AS lo, least(scaled.hi, stretch.hi) AS hi,
        CASE
            WHEN stretch.broken THEN -4611686018427387904
            WHEN stretch.not_ready_since IS NULL THEN 4611686018427387904
            ELSE least(stretch.not_ready_since + coalesce(toleration.toleration_us, 300000000), 4611686018427387904)
        END AS down_from
    FROM scaled
    JOIN stretch ON stretch.place_no = scaled.place_no AND stretch.lo < scaled.hi AND stretch.hi > scaled.lo
    LEFT JOIN toleration
        ON toleration.cluster = scaled.cluster AND toleration.pod_uid = scaled.pod_uid AND stretch.not_ready_since IS NOT NULL
),

piece AS (
    SELECT
        holder_no, excessive, asked_ppm, asked_mib, asked_percent, share_ppm, memory_mib, cores_percent, site_no, place_no, rest_account,
        rest_service, held_service, measurable, lo, hi,
        NOT excessive AND count(*) OVER (PARTITION BY holder_no) = 1 AS alone
    FROM (
        SELECT
            holder_no, excessive, asked_ppm, asked_mib, asked_percent, share_ppm, memory_mib, cores_percent, site_no, place_no,
            rest_account, rest_service, 1 AS held_service, NOT broken AND not_ready_since IS NULL AS measurable,
            lo, least(hi, down_from) AS hi
        FROM laid
        WHERE lo < down_from
        UNION ALL
        SELECT
            holder_no, excessive, asked_ppm, asked_mib, asked_percent, share_ppm, memory_mib, cores_percent, site_no, place_no,
            rest_account, rest_service, 2, FALSE, greatest(lo, down_from), hi
        FROM laid
        WHERE hi > down_from
    ) AS served
),

measured_hour AS (
    SELECT place.place_no, epoch_us(lit.hour_at) AS hour_us, bit_or(lit.minutes_mask) AS minutes_mask
    FROM (
        SELECT cluster, device_uuid, hour_at, minutes_mask FROM sampled_hour
        UNION ALL
        SELECT cluster, device_uuid, hour_at, minutes_mask FROM long_sample_hour
        UNION ALL
        SELECT cluster, device_uuid, hour_at + INTERVAL 1 HOUR, spilled_mask FROM long_sample_hour WHERE spilled_mask <> 0
    ) AS lit
    JOIN place ON place.place_kind = 'device' AND place.cluster = lit.cluster AND place.place_id = lit.device_uuid
    GROUP BY place.place_no, lit.hour_at
),

grain_piece AS (
    SELECT
        holder_no, alone, asked_ppm, asked_mib, asked_percent, share_ppm, memory_mib, cores_percent, site_no, place_no, rest_account,
        rest_service, held_service, measurable, grain_us_at, grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(lo, grain_us_at) AS lo, least(hi, grain_us_at + grain_us) AS hi
    FROM (
        SELECT
            piece.holder_no, piece.alone, piece.asked_ppm, piece.asked_mib, piece.asked_percent, piece.share_ppm, piece.memory_mib,
            piece.cores_percent, piece.site_no, piece.place_no, piece.rest_account, piece.rest_service, piece.held_service,
            piece.measurable, piece.lo, piece.hi, parameter.grain_us,
            unnest(range(grain_start_us(piece.lo, parameter.grain_us), piece.hi, parameter.grain_us)) AS grain_us_at
        FROM piece
        CROSS JOIN parameter
    ) AS cut
),

timed_piece AS (
    SELECT
        grain_piece.holder_no, grain_piece.alone, grain_piece.asked_ppm, grain_piece.asked_mib, grain_piece.asked_percent,
        grain_piece.share_ppm, grain_piece.memory_mib, grain_piece.cores_percent, grain_piece.site_no, grain_piece.grain_us_at,
        grain_piece.rest_account, grain_piece.rest_service, grain_piece.held_service,
        grain_piece.hi - grain_piece.lo AS length_us,
        CASE
            WHEN grain_piece.measurable AND measured_hour.minutes_mask IS NOT NULL
                THEN measured_us(measured_hour.minutes_mask, grain_piece.hour_us, grain_piece.lo, grain_piece.hi)
            ELSE 0
        END AS up_us
    FROM grain_piece
    LEFT JOIN measured_hour
        ON measured_hour.place_no = grain_piece.place_no AND measured_hour.hour_us = grain_piece.hour_us
),

-- A holder that is one piece has one row a grain; all others are summed and then floored.
held_alone AS (
    SELECT
        holder_no, site_no, grain_us_at, rest_account, rest_service, held_service,
        gpu_time_us(up_us, share_ppm) AS up_gpu_us,
        gpu_time_us(length_us - up_us, share_ppm) AS rest_gpu_us,
        up_us * memory_mib AS up_mib_us,
        (length_us - up_us) * memory_mib AS rest_mib_us,
        up_us * cores_percent AS up_percent_us,
        (length_us - up_us) * cores_percent AS rest_percent_us
    FROM timed_piece
    WHERE alone
),

held_together AS (
    SELECT
        holder_no, site_no, grain_us_at, rest_account, rest_service, held_service,
        CAST(sum(CAST(up_us AS DECIMAL(38, 0)) * share_ppm) // 1000000 AS BIGINT) AS up_gpu_us,
        CAST(sum(CAST(length_us - up_us AS DECIMAL(38, 0)) * share_ppm) // 1000000 AS BIGINT) AS rest_gpu_us,
        CAST(sum(up_us * memory_mib) AS BIGINT) AS up_mib_us,
        CAST(sum((length_us - up_us) * memory_mib) AS BIGINT) AS rest_mib_us,
        CAST(sum(up_us * cores_percent) AS BIGINT) AS up_percent_us,
        CAST(sum((length_us - up_us) * cores_percent) AS BIGINT) AS rest_percent_us,
        CAST(sum(CAST(up_us AS DECIMAL(38, 0)) * (asked_ppm - share_ppm)) // 1000000 AS BIGINT) AS up_excess_gpu_us,
        CAST(sum(CAST(length_us - up_us AS DECIMAL(38, 0)) * (asked_ppm - share_ppm)) // 1000000 AS BIGINT) AS rest_excess_gpu_us,
        CAST(sum(up_us * (asked_mib - memory_mib)) AS BIGINT) AS up_excess_mib_us,
        CAST(sum((length_us - up_us) * (asked_mib - memory_mib)) AS BIGINT) AS rest_excess_mib_us,
        CAST(sum(up_us * (asked_percent - cores_percent)) AS BIGINT) AS up_excess_percent_us,
        CAST(sum((length_us - up_us) * (asked_percent - cores_percent)) AS BIGINT) AS rest_excess_percent_us
    FROM timed_piece
    WHERE NOT alone
    GROUP BY holder_no, site_no, grain_us_at, rest_account, rest_service, held_service
),

held_in_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service,
        CAST(sum(up_gpu_us) AS BIGINT) AS up_gpu_us, CAST(sum(rest_gpu_us) AS BIGINT) AS rest_gpu_us,
        CAST(sum(up_mib_us) AS BIGINT) AS up_mib_us, CAST(sum(rest_mib_us) AS BIGINT) AS rest_mib_us,
        CAST(sum(up_percent_us) AS BIGINT) AS up_percent_us, CAST(sum(rest_percent_us) AS BIGINT) AS rest_percent_us
    FROM (
        SELECT
            site_no, grain_us_at, rest_account, rest_service, up_gpu_us, rest_gpu_us, up_mib_us, rest_mib_us, up_percent_us,
            rest_percent_us
        FROM held_alone
        UNION ALL
        SELECT
            site_no, grain_us_at, rest_account, rest_service, up_gpu_us, rest_gpu_us, up_mib_us, rest_mib_us, up_percent_us,
            rest_percent_us
        FROM held_together
    ) AS held_class
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

-- (4) What each grain could hold ----------------------------------------------------------------------------------------------------
grain_stretch AS (
    SELECT
        site_no, place_no, cards, rest_account, rest_service, measurable, grain_us_at,
        grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(lo, grain_us_at) AS lo, least(hi, grain_us_at + grain_us) AS hi
    FROM (
        SELECT
            stretch.site_no, stretch.place_no, stretch.cards, stretch.rest_account, stretch.rest_service, stretch.lo, stretch.hi,
            NOT stretch.broken AND stretch.not_ready_since IS NULL AS measurable, parameter.grain_us,
            unnest(range(grain_start_us(stretch.lo, parameter.grain_us), stretch.hi, parameter.grain_us)) AS grain_us_at
        FROM stretch
        CROSS JOIN parameter
    ) AS cut
),

timed_stretch AS (
    SELECT
        grain_stretch.site_no, grain_stretch.grain_us_at, grain_stretch.cards, grain_stretch.rest_account, grain_stretch.rest_service,
        grain_stretch.hi - grain_stretch.lo AS length_us,
        CASE
            WHEN grain_stretch.measurable AND measured_hour.minutes_mask IS NOT NULL
                THEN measured_us(measured_hour.minutes_mask, grain_stretch.hour_us, grain_stretch.lo, grain_stretch.hi)
            ELSE 0
        END AS up_us
    FROM grain_stretch
    LEFT JOIN measured_hour
        ON measured_hour.place_no = grain_stretch.place_no AND measured_hour.hour_us = grain_stretch.hour_us
),

capacity_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service,
        CAST(sum(cards * up_us) AS BIGINT) AS up_card_us,
        CAST(sum(cards * (length_us - up_us)) AS BIGINT) AS rest_card_us
    FROM timed_stretch
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

-- (5) The books ---------------------------------------------------------------------------------------------------------------------
remainder AS (
    SELECT
        capacity_class.site_no, capacity_class.grain_us_at, capacity_class.rest_account, capacity_class.rest_service,
        capacity_class.up_card_us - coalesce(held_in_class.up_gpu_us, 0) AS up_gpu_us,
        capacity_class.rest_card_us - coalesce(held_in_class.rest_gpu_us, 0) AS rest_gpu_us,
        capacity_class.up_card_us * site.memory_mib - coalesce(held_in_class.up_mib_us, 0) AS up_mib_us,
        capacity_class.rest_card_us * site.memory_mib - coalesce(held_in_class.rest_mib_us, 0) AS rest_mib_us,
        capacity_class.up_card_us * 100 - coalesce(held_in_class.up_percent_us, 0) AS up_percent_us,
        capacity_class.rest_card_us * 100 - coalesce(held_in_class.rest_percent_us, 0) AS rest_percent_us
    FROM capacity_class
    JOIN site ON site.site_no = capacity_class.site_no
    LEFT JOIN held_in_class
        ON held_in_class.site_no = capacity_class.site_no AND held_in_class.grain_us_at = capacity_class.grain_us_at
        AND held_in_class.rest_account = capacity_class.rest_account AND held_in_class.rest_service = capacity_class.rest_service
    WHERE site.basis <> 'unknown'
),

-- What stands for the place itself. side: 0 supply, 1 the remainder.
place_posting AS (
    SELECT
        0 AS side, capacity_class.site_no, capacity_class.grain_us_at, CAST(NULL AS INTEGER) AS rest_account,
        CAST(NULL AS INTEGER) AS service,
        CAST(sum(capacity_class.up_card_us + capacity_class.rest_card_us) AS BIGINT) AS gpu_us,
        CAST(sum((capacity_class.up_card_us + capacity_class.rest_card_us) * site.memory_mib) AS BIGINT) AS mib_us,
        CAST(sum((capacity_class.up_card_us + capacity_class.rest_card_us) * 100) AS BIGINT) AS percent_us
    FROM capacity_class
    JOIN site ON site.site_no = capacity_class.site_no
    WHERE site.basis <> 'unknown'
    GROUP BY capacity_class.site_no, capacity_class.grain_us_at
    UNION ALL
    SELECT
        0, held_in_class.site_no, held_in_class.grain_us_at, NULL, NULL,
        CAST(sum(held_in_class.up_gpu_us + held_in_class.rest_gpu_us) AS BIGINT),
        CAST(sum(held_in_class.up_mib_us + held_in_class.rest_mib_us) AS BIGINT),
        CAST(sum(held_in_class.up_percent_us + held_in_class.rest_percent_us) AS BIGINT)
    FROM held_in_class
    JOIN site ON site.site_no = held_in_class.site_no
    WHERE site.basis = 'unknown'
    GROUP BY held_in_class.site_no, held_in_class.grain_us_at
    UNION ALL
    SELECT 1, site_no, grain_us_at, rest_account, 0, up_gpu_us, up_mib_us, up_percent_us
    FROM remainder
    WHERE rest_service = 1
    UNION ALL
    SELECT 1, site_no, grain_us_at, rest_account, rest_service, rest_gpu_us, rest_mib_us, rest_percent_us
    FROM remainder
),

-- What stands for a holder. side: 2 what it holds, 3 the memo of what it asked beyond the place.
holder_posting AS (
    SELECT 2 AS side, site_no, grain_us_at, holder_no, 0 AS service, up_gpu_us AS gpu_us, up_mib_us AS mib_us, up_percent_us AS percent_us
    FROM held_alone
    UNION ALL
    SELECT 2, site_no, grain_us_at, holder_no, held_service, rest_gpu_us, rest_mib_us, rest_percent_us
    FROM held_alone
    UNION ALL
    SELECT
        side, site_no, grain_us_at, holder_no, service,
        CAST(sum(gpu_us) AS BIGINT), CAST(sum(mib_us) AS BIGINT), CAST(sum(percent_us) AS BIGINT)
    FROM (
        SELECT
            2 AS side, site_no, grain_us_at, holder_no, 0 AS service, up_gpu_us AS gpu_us, up_mib_us AS mib_us,
            up_percent_us AS percent_us
        FROM held_together
        UNION ALL
        SELECT 2, site_no, grain_us_at, holder_no, held_service, rest_gpu_us, rest_mib_us, rest_percent_us
        FROM held_together
        UNION ALL
        SELECT 3, site_no, grain_us_at, holder_no, 0, up_excess_gpu_us, up_excess_mib_us, up_excess_percent_us
        FROM held_together
        UNION ALL
        SELECT 3, site_no, grain_us_at, holder_no, held_service, rest_excess_gpu_us, rest_excess_mib_us, rest_excess_percent_us
        FROM held_together
    ) AS part_of_holder
    GROUP BY side, site_no, grain_us_at, holder_no, service
),

holder AS (
    SELECT holder_no, min(account) AS account, min(pod_uid) AS pod_uid, min(unit_id) AS unit_id
    FROM placed
    GROUP BY holder_no
),

-- The time between an old and a new card of a slot belongs to the slot and was seen by nobody.
slot_gap AS (
    SELECT cluster, node, slot, lo, hi
    FROM (
        SELECT
            slot.cluster, slot.node, slot.slot, slot.device_uuid,
            lag(slot.device_uuid) OVER succession AS device_before,
            lag(greatest(epoch_us(slot.valid_to_at), coalesce(card.hi, epoch_us(slot.valid_to_at)))) OVER succession AS lo,
            least(epoch_us(slot.valid_from_at), coalesce(card.lo, epoch_us(slot.valid_from_at))) AS hi
        FROM dim.slot AS slot
        LEFT JOIN place AS card
            ON card.place_kind = 'device' AND card.cluster = slot.cluster AND card.place_id = slot.device_uuid
        WINDOW succession AS (
            PARTITION BY slot.cluster, slot.node, slot.slot ORDER BY slot.valid_from_at, slot.valid_to_at, slot.device_uuid
        )
    ) AS succeeding
    WHERE device_before <> device_uuid AND hi > lo
),

slot_grain AS (
    SELECT
        cut.cluster, cut.node, cut.slot, cut.grain_us_at,
        CAST(sum(least(cut.hi, cut.grain_us_at + parameter.grain_us) - greatest(cut.lo, cut.grain_us_at)) AS BIGINT) AS gpu_us
    FROM (
        SELECT
            slot_gap.cluster, slot_gap.node, slot_gap.slot, slot_gap.lo, slot_gap.hi,
            unnest(
                range(grain_start_us(slot_gap.lo, parameter.grain_us), slot_gap.hi, parameter.grain_us)
            ) AS grain_us_at
        FROM slot_gap
        CROSS JOIN parameter
    ) AS cut
    CROSS JOIN parameter
    GROUP BY cut.cluster, cut.node, cut.slot, cut.grain_us_at
)

SELECT
    site.cluster, site.place_kind, site.place_id, site.node,
    CASE WHEN site.place_kind = 'device' THEN site.place_id END AS device_uuid,
    make_timestamp(holder_posting.grain_us_at) AS grain_at,
    CASE holder_posting.side WHEN 2 THEN holder.account ELSE 'overcommitted' END AS account,
    CASE holder_posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END AS service,
    holder.pod_uid, holder.unit_id,
    holder_posting.gpu_us AS amount_gpu_us,
    holder_posting.mib_us AS memory_mib_us,
    holder_posting.percent_us AS cores_percent_us
FROM holder_posting
JOIN holder ON holder.holder_no = holder_posting.holder_no
JOIN site ON site.site_no = holder_posting.site_no
WHERE holder_posting.gpu_us <> 0 OR holder_posting.mib_us <> 0 OR holder_posting.percent_us <> 0
UNION ALL
SELECT
    site.cluster, site.place_kind, site.place_id, site.node,
    CASE WHEN site.place_kind = 'device' THEN site.place_id END,
    make_timestamp(place_posting.grain_us_at),
    CASE WHEN place_posting.side = 0 THEN 'supply' WHEN place_posting.rest_account = 0 THEN 'free' ELSE 'unobserved' END,
    CASE place_posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END,
    NULL, NULL, place_posting.gpu_us, place_posting.mib_us, place_posting.percent_us
FROM place_posting
JOIN site ON site.site_no = place_posting.site_no
WHERE place_posting.gpu_us <> 0 OR place_posting.mib_us <> 0 OR place_posting.percent_us <> 0
UNION ALL
SELECT
    slot_grain.cluster, 'slot', slot_grain.node || '/' || slot_grain.slot, slot_grain.node, NULL,
    make_timestamp(slot_grain.grain_us_at), side.account, side.service, NULL, NULL, slot_grain.gpu_us, NULL, slot_grain.gpu_us * 100
FROM slot_grain
CROSS JOIN (
    SELECT 'supply' AS account, CAST(NULL AS VARCHAR) AS service
    UNION ALL
    SELECT 'unobserved', 'unknown'
) AS side

-- Places that have supply or take holdings, and when. A place at one node is a site: a card that moved has one site per node and, where it came
-- back, several stays at one; each row is a stay, stay_no 1 the first of its site. basis: `card` a known card; `count` a node of known capacity whose cards have no known UUID;
-- `transfer` takes only a transfer (its cards are booked one by one); `unknown` no capacity basis: supply is booked as held.
-- A card is there from its first sighting or dated holding to its last. A holding on an unknown card of its node says as much of the node's
-- cards: of those that were the first ones seen there, and of those that are there still.
-- No place reaches beyond the time that is posted (dim.parameter); a finding names what does.
-- Times are microseconds since 1970; the ends of time stand as -2^62 and 2^62.
WITH
holding AS (
    SELECT cluster, place_kind, place_id, node, epoch_us(started_at) AS lo, epoch_us(coalesce(ended_at, known_to_at)) AS hi
    FROM ledger.holding
    WHERE coalesce(ended_at, known_to_at) > started_at
),

known_device AS (
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT cluster, device_uuid, memory_mib, epoch_us(first_seen_at) AS lo, epoch_us(last_seen_at) AS hi
        FROM dim.device
        UNION ALL
        SELECT cluster, device_uuid, NULL, epoch_us(min(first_at)), epoch_us(max(last_at))
        FROM dim.measured_hour
        GROUP BY cluster, device_uuid
        UNION ALL
        SELECT cluster, object_uid, NULL, epoch_us(min(occurred_at)), epoch_us(max(occurred_at))
        FROM fact.sighting
        WHERE object_kind = 'device'
            AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
        GROUP BY cluster, object_uid
    ) AS seen
    GROUP BY cluster, device_uuid
),

unplaced AS (
    SELECT cluster, place_id AS node, min(lo) AS lo, max(hi) AS hi
    FROM holding
    WHERE place_kind = 'node'
    GROUP BY cluster, place_id
),

presumed AS (
    SELECT
        card.cluster, card.device_uuid,
        CASE WHEN card.first_seen_at = first_card.seen_at AND card.first_seen_at = first_home.seen_at THEN unplaced.lo END AS lo,
        CASE WHEN card.valid_to_at IS NULL THEN unplaced.hi END AS hi
    FROM dim.device AS card
    JOIN unplaced ON unplaced.cluster = card.cluster AND unplaced.node = card.node
    JOIN (SELECT cluster, node, min(first_seen_at) AS seen_at FROM dim.device GROUP BY cluster, node) AS first_card
        ON first_card.cluster = card.cluster AND first_card.node = card.node
    JOIN (SELECT cluster, device_uuid, min(first_seen_at) AS seen_at FROM dim.device GROUP BY cluster, device_uuid) AS first_home
        ON first_home.cluster = card.cluster AND first_home.device_uuid = card.device_uuid
),

-- Where a card was: from the sighting that first names a node to the one that names another.
arrival AS (
    SELECT cluster, device_uuid, node, seen_at
    FROM (
        SELECT
            sighting.cluster, sighting.device_uuid, sighting.node, epoch_us(sighting.occurred_at) AS seen_at,
            lag(sighting.node) OVER (
                PARTITION BY sighting.cluster, sighting.device_uuid ORDER BY sighting.occurred_at, sighting.node
            ) AS node_before
        FROM dim.device_sighting AS sighting
        JOIN (SELECT cluster, device_uuid FROM dim.device GROUP BY cluster, device_uuid HAVING count(*) > 1) AS moved
            ON moved.cluster = sighting.cluster AND moved.device_uuid = sighting.device_uuid
    ) AS succession
    WHERE node_before IS NULL OR node_before <> node
),

device_node AS (
    SELECT
        cluster, device_uuid, node,
        CASE WHEN lag(seen_at) OVER earlier IS NULL THEN -4611686018427387904 ELSE seen_at END AS lo,
        coalesce(lead(seen_at) OVER earlier, 4611686018427387904) AS hi
    FROM arrival
    WINDOW earlier AS (PARTITION BY cluster, device_uuid ORDER BY seen_at, node)
    UNION ALL
    SELECT cluster, device_uuid, min(node), -4611686018427387904, 4611686018427387904
    FROM dim.device
    GROUP BY cluster, device_uuid
    HAVING count(*) = 1
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

counted AS (
    SELECT cluster, node, max(memory_mib) AS memory_mib FROM dim.node_capacity GROUP BY cluster, node
),

extent AS (
    SELECT cluster, place_kind, place_id, min(lo) AS lo, max(hi) AS hi, min(node) AS node
    FROM (
        SELECT cluster, 'device' AS place_kind, device_uuid AS place_id, lo, hi, NULL AS node FROM known_device
        UNION ALL
        SELECT cluster, 'device', device_uuid, lo, hi, NULL FROM presumed
        UNION ALL
        SELECT cluster, place_kind, place_id, lo, hi, node FROM holding
        UNION ALL
        SELECT cluster, 'node', node, seen_from_us, seen_to_us, node FROM dim.node_capacity
    ) AS stay
    GROUP BY cluster, place_kind, place_id
),

place AS (
    SELECT
        row_number() OVER (ORDER BY extent.cluster, extent.place_kind, extent.place_id) AS place_no,
        extent.cluster, extent.place_kind, extent.place_id, extent.lo, extent.hi, extent.node,
        CASE extent.place_kind
            WHEN 'device' THEN known_device.memory_mib
            WHEN 'node' THEN coalesce(node_card.memory_mib, counted.memory_mib)
            ELSE cluster_card.memory_mib
        END AS memory_mib,
        CASE
            WHEN extent.place_kind = 'device' THEN CASE WHEN known_device.device_uuid IS NULL THEN 'unknown' ELSE 'card' END
            WHEN extent.place_kind <> 'node' OR node_card.node IS NOT NULL THEN 'transfer'
            WHEN counted.node IS NOT NULL THEN 'count'
            ELSE 'unknown'
        END AS basis
    FROM extent
    LEFT JOIN known_device
        ON extent.place_kind = 'device' AND known_device.cluster = extent.cluster AND known_device.device_uuid = extent.place_id
    LEFT JOIN node_card
        ON extent.place_kind = 'node' AND node_card.cluster = extent.cluster AND node_card.node = extent.place_id
    LEFT JOIN counted
        ON extent.place_kind = 'node' AND counted.cluster = extent.cluster AND counted.node = extent.place_id
    LEFT JOIN cluster_card
        ON extent.place_kind = 'cluster' AND cluster_card.cluster = extent.cluster
)

SELECT
    dense_rank() OVER (ORDER BY place_no, node) AS site_no,
    row_number() OVER (PARTITION BY place_no, node ORDER BY from_us) AS stay_no,
    place_no, cluster, place_kind, place_id, node, basis, memory_mib, from_us, to_us
FROM (
    SELECT
        place.place_no, place.cluster, place.place_kind, place.place_id,
        CASE WHEN device_node.device_uuid IS NULL THEN place.node ELSE device_node.node END AS node,
        place.basis, place.memory_mib,
        greatest(place.lo, device_node.lo, epoch_us(parameter.history_from_at)) AS from_us,
        least(place.hi, device_node.hi, epoch_us(parameter.horizon_at)) AS to_us
    FROM place
    CROSS JOIN dim.parameter AS parameter
    LEFT JOIN device_node
        ON place.place_kind = 'device' AND device_node.cluster = place.cluster AND device_node.device_uuid = place.place_id
        AND device_node.lo < place.hi AND device_node.hi > place.lo AND device_node.lo < device_node.hi
) AS stay

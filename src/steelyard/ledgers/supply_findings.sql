-- Places whose capacity nothing tells: supply there is booked equal to what is held, so that the books close and say so.
WITH
counted AS (
    SELECT cluster, node FROM fact.inventory_basis WHERE node IS NOT NULL AND cards_count > 0
    UNION
    SELECT cluster, node FROM fact.node WHERE gpu_count > 0
    UNION
    SELECT cluster, node FROM dim.device WHERE node IS NOT NULL
),

doubtful AS (
    SELECT holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.started_at,
        coalesce(holding.ended_at, holding.known_to_at) AS until_at
    FROM ledger.holding AS holding
    LEFT JOIN counted
        ON holding.place_kind = 'node' AND counted.cluster = holding.cluster AND counted.node = holding.place_id
    LEFT JOIN (SELECT DISTINCT cluster, device_uuid FROM dim.device) AS card
        ON holding.place_kind = 'device' AND card.cluster = holding.cluster AND card.device_uuid = holding.place_id
    WHERE holding.place_kind IN ('device', 'node') AND counted.node IS NULL AND card.device_uuid IS NULL
        AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at AND holding.share_ppm IS NOT NULL
),

-- Only the few doubtful cards are looked for among the samples.
seen_card AS (
    SELECT DISTINCT cluster, device_uuid
    FROM fact.device_sample
    WHERE device_uuid IN (SELECT place_id FROM doubtful WHERE place_kind = 'device')
    UNION
    SELECT cluster, object_uid
    FROM fact.sighting
    WHERE object_kind = 'device' AND object_uid IN (SELECT place_id FROM doubtful WHERE place_kind = 'device')
),

bare AS (
    SELECT
        doubtful.cluster, doubtful.place_kind, doubtful.place_id,
        count(DISTINCT doubtful.pod_uid) AS holders,
        max(doubtful.until_at) AS last_at
    FROM doubtful
    LEFT JOIN seen_card
        ON doubtful.place_kind = 'device' AND seen_card.cluster = doubtful.cluster AND seen_card.device_uuid = doubtful.place_id
    WHERE seen_card.device_uuid IS NULL
    GROUP BY doubtful.cluster, doubtful.place_kind, doubtful.place_id
)

SELECT
    cluster,
    'ledger.supply' AS source,
    'supply_unknown/' || place_kind || ' ' || place_id AS natural_key,
    last_at AS occurred_at,
    last_at AS observed_at,
    'supply_unknown' AS code,
    'warning' AS severity,
    place_kind || ' ' || place_id AS subject,
    'no inventory, register, label or declaration tells the cards here: supply is booked equal to what is held' AS message,
    '{"holders":' || CAST(holders AS VARCHAR) || ',"supply_basis":"unknown"}' AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM bare

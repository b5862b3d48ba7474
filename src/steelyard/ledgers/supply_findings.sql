-- What the supply ledger found about its own grounds: places whose capacity nothing tells while something is held there (supply is booked equal
-- to what is held, so that the books close), and spans that reach beyond the time that is posted.
WITH
bare AS (
    SELECT
        site.cluster, site.place_kind, site.place_id, site.basis,
        count(DISTINCT piece.pod_uid) AS holders,
        make_timestamp(max(piece.to_us)) AS last_at
    FROM dim.supply_piece AS piece
    JOIN dim.supply_site AS site ON site.site_no = piece.site_no AND site.stay_no = 1
    WHERE piece.rest_account = 2
    GROUP BY site.cluster, site.place_kind, site.place_id, site.basis
),

-- What reaches beyond the time that is posted.
long AS (
    SELECT
        holding.cluster, 'pod ' || holding.namespace || '/' || holding.pod AS subject,
        min(holding.started_at) AS from_at, max(coalesce(holding.ended_at, holding.known_to_at)) AS to_at
    FROM ledger.holding AS holding
    CROSS JOIN dim.parameter AS parameter
    WHERE holding.started_at < parameter.history_from_at OR coalesce(holding.ended_at, holding.known_to_at) > parameter.horizon_at
    GROUP BY holding.cluster, holding.namespace, holding.pod
    UNION ALL
    SELECT capacity.cluster, 'node ' || capacity.node, make_timestamp(min(capacity.seen_from_us)), make_timestamp(max(capacity.seen_to_us))
    FROM dim.node_capacity AS capacity
    CROSS JOIN dim.parameter AS parameter
    WHERE capacity.seen_from_us < epoch_us(parameter.history_from_at) OR capacity.seen_to_us > epoch_us(parameter.horizon_at)
    GROUP BY capacity.cluster, capacity.node
),

found AS (
    SELECT
        cluster, last_at AS found_at, 'supply_unknown' AS code, place_kind || ' ' || place_id AS subject,
        CASE basis
            WHEN 'count' THEN 'it is held at times for which nobody declares how many cards it has: supply is booked equal to what is held then'
            WHEN 'transfer' THEN 'it is held at times at which none of its cards is known to be there: supply is booked equal to what is held then'
            ELSE 'no inventory, register, label or declaration tells the cards here: supply is booked equal to what is held'
        END AS message,
        '{"holders":' || CAST(holders AS VARCHAR) || ',"supply_basis":"unknown"}' AS evidence
    FROM bare
    UNION ALL
    SELECT
        long.cluster, parameter.as_of_at, 'span_not_posted', long.subject,
        'it reaches beyond the time that is posted grain by grain: supply has only what lies within',
        CAST(
            json_object(
                'from', CAST(long.from_at AS VARCHAR), 'to', CAST(long.to_at AS VARCHAR),
                'posted_from', CAST(parameter.history_from_at AS VARCHAR), 'posted_to', CAST(parameter.horizon_at AS VARCHAR)
            ) AS VARCHAR
        )
    FROM long
    CROSS JOIN dim.parameter AS parameter
)

SELECT
    cluster,
    'ledger.supply' AS source,
    code || '/' || subject AS natural_key,
    found_at AS occurred_at,
    found_at AS observed_at,
    code,
    'warning' AS severity,
    subject,
    message,
    evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found

-- How many cards a node has, where no card of it has a known UUID: by the GFD label, else declared, else by the asset list; the strongest
-- basis of a node counts, never an allocatable count. from_us, to_us: when the row holds (-2^62 and 2^62: without end); rows add up.
-- seen_from_us, seen_to_us: between which instants the capacity is certain; a validity declared beyond the as-of instant is none yet.
WITH
labelled AS (
    SELECT
        cluster, node, cards_count, max(memory_mib) OVER (PARTITION BY cluster, node) AS memory_mib, seen_at,
        min(seen_at) OVER (PARTITION BY cluster, node) AS seen_from,
        max(seen_at) OVER (PARTITION BY cluster, node) AS seen_to,
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
        cluster, node, cards_count, memory_mib, seen_from, seen_to,
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
        CASE
            WHEN basis.valid_to_at IS NULL THEN greatest(epoch_us(basis.occurred_at), watched_span.hi)
            ELSE least(
                epoch_us(basis.valid_to_at),
                greatest(
                    epoch_us(parameter.as_of_at), coalesce(epoch_us(basis.valid_from_at), least(epoch_us(basis.occurred_at), watched_span.lo))
                )
            )
        END AS seen_to,
        row_number() OVER (
            PARTITION BY basis.cluster, basis.basis, basis.natural_key
            ORDER BY basis.occurred_at DESC, basis.cards_count DESC, basis.valid_from_at, basis.valid_to_at
        ) AS recency
    FROM fact.inventory_basis AS basis
    CROSS JOIN dim.parameter AS parameter
    LEFT JOIN watched_span ON watched_span.cluster = basis.cluster
    WHERE basis.basis IN ('declared', 'asset_list') AND basis.node IS NOT NULL
),

candidate AS (
    SELECT cluster, node, 1 AS basis_rank, cards_count, memory_mib, lo, hi, seen_from, seen_to FROM labelled_change
    UNION ALL
    SELECT cluster, node, basis_rank, cards_count, memory_mib, lo, hi, seen_from, seen_to FROM declared WHERE recency = 1
),

ranked AS (
    SELECT
        candidate.cluster, candidate.node, candidate.basis_rank, candidate.cards_count, candidate.lo, candidate.hi,
        candidate.seen_from, candidate.seen_to,
        max(candidate.memory_mib) OVER (PARTITION BY candidate.cluster, candidate.node, candidate.basis_rank) AS memory_mib,
        min(candidate.basis_rank) OVER (PARTITION BY candidate.cluster, candidate.node) AS best_rank
    FROM candidate
    LEFT JOIN (SELECT DISTINCT cluster, node FROM dim.device) AS card
        ON card.cluster = candidate.cluster AND card.node = candidate.node
    WHERE candidate.cards_count BETWEEN 1 AND 1000000 AND candidate.hi > candidate.lo AND card.node IS NULL
)

SELECT
    cluster, node,
    CASE basis_rank WHEN 1 THEN 'gfd_label' WHEN 2 THEN 'declared' ELSE 'asset_list' END AS basis,
    cards_count,
    CASE WHEN memory_mib BETWEEN 1 AND 1000000000 // cards_count THEN memory_mib END AS memory_mib,
    lo AS from_us, hi AS to_us, seen_from AS seen_from_us, seen_to AS seen_to_us
FROM ranked
WHERE basis_rank = best_rank

-- What a sharing layer's scheduler, or Kubernetes, says a namespace uses of its quota, held against what its pods hold: on the nodes that this exporter
-- speaks of, where that is known. A limit of 0 is none. Memory counts once per card; a sum that leaves out how many cards a pod has is named.
WITH
newest AS (
    SELECT cluster, max(occurred_at) AS last_at
    FROM fact.metric_sample
    WHERE metric = 'hami_resource_quota_used' AND occurred_at <= (SELECT horizon_at FROM dim.parameter)
    GROUP BY cluster
),

said AS (
    SELECT
        sample.cluster, sample.namespace, json_extract_string(sample.labels, '$.quota_name') AS quota_name, sample.metric, sample.value, sample.import_id,
        row_number() OVER (PARTITION BY sample.cluster, sample.import_id, sample.metric, sample.labels ORDER BY sample.occurred_at DESC, sample.fact_id) AS age
    FROM fact.metric_sample AS sample
    JOIN newest
        ON newest.cluster = sample.cluster AND sample.occurred_at >= newest.last_at - INTERVAL 1 HOUR AND sample.occurred_at <= newest.last_at
    WHERE sample.metric IN ('hami_resource_quota_used', 'hami_resource_quota_limit') AND sample.namespace IS NOT NULL
        AND sample.occurred_at >= (SELECT min(last_at) FROM newest) - INTERVAL 1 HOUR
),

told AS (
    SELECT
        said.cluster, said.namespace, 'exporter' AS told_by, said.import_id,
        CASE WHEN ends_with(said.quota_name, 'gpumem') THEN 'memory' ELSE 'cores' END AS amount, min(said.quota_name) AS quota_name,
        CAST(max(said.value) FILTER (WHERE said.metric = 'hami_resource_quota_used') AS BIGINT) AS used,
        CAST(max(CASE WHEN isfinite(said.value) THEN said.value END) FILTER (WHERE said.metric = 'hami_resource_quota_limit') AS BIGINT) AS limit_of
    FROM said
    WHERE said.age = 1 AND (ends_with(said.quota_name, 'gpumem') OR ends_with(said.quota_name, 'gpucores'))
        AND (said.value BETWEEN 0 AND 1e12 OR NOT isfinite(said.value))
    GROUP BY said.cluster, said.namespace, said.import_id, CASE WHEN ends_with(said.quota_name, 'gpumem') THEN 'memory' ELSE 'cores' END
    UNION ALL
    SELECT
        quota.cluster, quota.namespace, 'kubernetes', CAST(NULL AS VARCHAR), CASE WHEN ends_with(quota.resource, 'gpumem') THEN 'memory' ELSE 'cores' END,
        min(quota.resource), arg_max(quota.used_milli, quota.occurred_at) // 1000, arg_max(quota.nominal_milli, quota.occurred_at) // 1000
    FROM fact.quota AS quota
    WHERE quota.namespace IS NOT NULL AND quota.used_milli IS NOT NULL AND (ends_with(quota.resource, 'gpumem') OR ends_with(quota.resource, 'gpucores'))
        AND quota.queue_kind = 'resource_quota'
    GROUP BY quota.cluster, quota.namespace, CASE WHEN ends_with(quota.resource, 'gpumem') THEN 'memory' ELSE 'cores' END
),

-- Which nodes the exporter of a reading speaks of.
scope AS (
    SELECT DISTINCT cluster, import_id, node
    FROM dim.deviation_now
    WHERE origin = 'scheduler' AND standing = 'card' AND node IS NOT NULL
),

scoped AS (
    SELECT told.*, count(scope.node) AS nodes_count, string_agg(scope.node, ',' ORDER BY scope.node) AS scope_nodes
    FROM told
    LEFT JOIN scope ON told.told_by = 'exporter' AND scope.cluster = told.cluster AND scope.import_id IS NOT DISTINCT FROM told.import_id
    GROUP BY ALL
),

-- What each container of a namespace holds, by its own grant: in all, and as a sum that knows no number of cards counts it.
container AS (
    SELECT
        cluster, namespace, node, occupancy, pod_uid, container, sum(memory_mib) AS memory_mib, sum(cores_percent) AS cores_percent, max(memory_mib) AS once_mib,
        max(cores_percent) AS once_percent, count(*) AS cards_count
    FROM dim.deviation_held
    GROUP BY cluster, namespace, node, occupancy, pod_uid, container
),

-- Held as the books have it: of a pod and card once, init containers not on top.
pod AS (
    SELECT cluster, namespace, node, occupancy, sum(pod_memory_mib) AS memory_mib, sum(pod_cores_percent) AS cores_percent
    FROM dim.deviation_held
    WHERE is_first
    GROUP BY cluster, namespace, node, occupancy
),

truth AS (
    SELECT
        scoped.cluster, scoped.namespace, scoped.told_by, scoped.import_id, scoped.amount,
        CAST(coalesce(sum(CASE WHEN scoped.amount = 'memory' THEN pod.memory_mib ELSE pod.cores_percent END) FILTER (WHERE pod.occupancy = 'held'), 0) AS BIGINT) AS all_nodes,
        CAST(
            coalesce(
                sum(CASE WHEN scoped.amount = 'memory' THEN pod.memory_mib ELSE pod.cores_percent END) FILTER (
                    WHERE pod.occupancy = 'held' AND (scoped.nodes_count = 0 OR list_contains(string_split(scoped.scope_nodes, ','), pod.node))
                ), 0
            ) AS BIGINT
        ) AS in_scope,
        CAST(
            coalesce(
                sum(CASE WHEN scoped.amount = 'memory' THEN pod.memory_mib ELSE pod.cores_percent END) FILTER (
                    WHERE pod.occupancy <> 'held' AND (scoped.nodes_count = 0 OR list_contains(string_split(scoped.scope_nodes, ','), pod.node))
                ), 0
            ) AS BIGINT
        ) AS reserved
    FROM scoped
    LEFT JOIN pod ON pod.cluster = scoped.cluster AND pod.namespace = scoped.namespace
    GROUP BY scoped.cluster, scoped.namespace, scoped.told_by, scoped.import_id, scoped.amount
),

once AS (
    SELECT
        scoped.cluster, scoped.namespace, scoped.told_by, scoped.import_id, scoped.amount,
        CAST(coalesce(sum(CASE WHEN scoped.amount = 'memory' THEN container.once_mib ELSE container.once_percent END), 0) AS BIGINT) AS once_sum,
        coalesce(max(container.cards_count), 0) AS cards_max
    FROM scoped
    LEFT JOIN container
        ON container.cluster = scoped.cluster AND container.namespace = scoped.namespace AND container.occupancy = 'held'
        AND (scoped.nodes_count = 0 OR list_contains(string_split(scoped.scope_nodes, ','), container.node))
    GROUP BY scoped.cluster, scoped.namespace, scoped.told_by, scoped.import_id, scoped.amount
),

judged AS (
    SELECT
        scoped.cluster, scoped.namespace, scoped.told_by, scoped.import_id, scoped.amount, scoped.quota_name, scoped.used, scoped.limit_of, scoped.scope_nodes,
        truth.in_scope, truth.all_nodes, truth.reserved,
        CASE
            WHEN scoped.used IN (truth.in_scope, truth.in_scope + truth.reserved) THEN 'agrees'
            WHEN once.cards_max > 1 AND scoped.used = once.once_sum THEN 'not_times_count'
            WHEN scoped.used < truth.in_scope THEN 'understated'
            ELSE 'overstated'
        END AS verdict
    FROM scoped
    JOIN truth
        ON truth.cluster = scoped.cluster AND truth.namespace = scoped.namespace AND truth.told_by = scoped.told_by
        AND truth.import_id IS NOT DISTINCT FROM scoped.import_id AND truth.amount = scoped.amount
    JOIN once
        ON once.cluster = scoped.cluster AND once.namespace = scoped.namespace AND once.told_by = scoped.told_by
        AND once.import_id IS NOT DISTINCT FROM scoped.import_id AND once.amount = scoped.amount
    WHERE scoped.used IS NOT NULL
),

-- Memory and cores of one namespace are one finding: memory's, with cores beside it.
paired AS (
    SELECT
        memory.cluster, memory.namespace, memory.told_by, memory.quota_name, memory.used, memory.limit_of, memory.scope_nodes, memory.in_scope, memory.all_nodes,
        memory.reserved, memory.verdict, cores.used AS cores_used, cores.in_scope AS cores_in_scope, cores.all_nodes AS cores_all_nodes
    FROM judged AS memory
    LEFT JOIN judged AS cores
        ON cores.cluster = memory.cluster AND cores.namespace = memory.namespace AND cores.told_by = memory.told_by
        AND cores.import_id IS NOT DISTINCT FROM memory.import_id AND cores.amount = 'cores'
    WHERE memory.amount = 'memory'
),

found AS (
    SELECT
        cluster,
        'quota_used_' || verdict AS code,
        CASE WHEN verdict = 'agrees' THEN 'info' ELSE 'warning' END AS severity,
        'namespace ' || namespace AS subject,
        CASE
            WHEN verdict = 'agrees' THEN 'what is said to be used of its quota is what its pods hold'
            WHEN verdict = 'not_times_count' THEN 'the quota counts the memory of one card per container, its pods hold ' || in_scope || ' MiB: number of cards x memory is what they use'
            ELSE 'the quota says that ' || used || ' MiB are used, its pods hold ' || in_scope || ' there: the quota admits by a figure that is '
                || CASE WHEN verdict = 'understated' THEN 'too small' ELSE 'too large' END
        END AS message,
        json_object(
            'namespace', namespace, 'quota_name', quota_name, 'told_by', told_by, 'scope_nodes', scope_nodes, 'exporter_mib', used, 'truth_mib_in_scope', in_scope,
            'truth_mib_all_nodes', all_nodes, 'reserved_mib', reserved, 'limit_mib', limit_of, 'exceeds_limit_mib', CASE WHEN all_nodes > limit_of THEN all_nodes - limit_of END,
            'exporter_cores_percent', cores_used, 'truth_cores_percent_in_scope', cores_in_scope, 'truth_cores_percent_all_nodes', cores_all_nodes
        ) AS evidence
    FROM paired
)

SELECT
    found.cluster,
    'ledger.deviation' AS source,
    found.code || '/' || found.subject AS natural_key,
    parameter.as_of_at AS occurred_at,
    parameter.as_of_at AS observed_at,
    found.code,
    found.severity,
    found.subject,
    found.message,
    CAST(found.evidence AS VARCHAR) AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter

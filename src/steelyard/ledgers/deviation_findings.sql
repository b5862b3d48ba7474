-- What a sharing layer's exporters say and the cluster's objects or the device do not: series of pods that are gone, figures that should be one and
-- are not, series that are absent. As of their last word.
WITH
scheduler_card AS (
    SELECT cluster, device_uuid, node, allocated_mib, cores_percent, occurred_at, import_id
    FROM dim.deviation_now
    WHERE origin = 'scheduler' AND standing = 'card' AND is_current
),

slot AS (
    SELECT
        sample.cluster, json_extract_string(sample.labels, '$.device_uuid') AS device_uuid, arg_max(CAST(sample.value AS BIGINT), sample.occurred_at) AS shared_count
    FROM fact.metric_sample AS sample
    WHERE sample.metric = 'hami_gpu_shared_count' AND sample.value BETWEEN 0 AND 100000
        AND sample.occurred_at >= (SELECT min(occurred_at) FROM scheduler_card)
    GROUP BY sample.cluster, json_extract_string(sample.labels, '$.device_uuid')
),

truth AS (
    SELECT
        cluster, device_uuid,
        CASE WHEN count(*) FILTER (WHERE is_first AND occupancy = 'held' AND pod_memory_mib IS NULL) = 0
            THEN CAST(coalesce(sum(pod_memory_mib) FILTER (WHERE is_first AND occupancy = 'held'), 0) AS BIGINT)
        END AS held_mib,
        CAST(coalesce(sum(pod_cores_percent) FILTER (WHERE is_first AND occupancy = 'held'), 0) AS BIGINT) AS held_percent,
        count(*) FILTER (WHERE occupancy = 'held') AS held_count,
        CAST(coalesce(sum(share_ppm) FILTER (WHERE is_first AND occupancy = 'held'), 0) AS BIGINT) AS held_ppm,
        CASE WHEN count(*) FILTER (WHERE is_first AND occupancy = 'reserved' AND pod_memory_mib IS NULL) = 0
            THEN CAST(coalesce(sum(pod_memory_mib) FILTER (WHERE is_first AND occupancy = 'reserved'), 0) AS BIGINT)
        END AS reserved_mib,
        CASE WHEN count(*) FILTER (WHERE is_first AND occupancy = 'in_suspense' AND pod_memory_mib IS NULL) = 0
            THEN CAST(coalesce(sum(pod_memory_mib) FILTER (WHERE is_first AND occupancy = 'in_suspense'), 0) AS BIGINT)
        END AS suspense_mib,
        bool_or(unit_kind = 'mig') AS is_mig
    FROM dim.deviation_held
    GROUP BY cluster, device_uuid
),

-- Cards of which the exporter speaks, with what is true of them. What is held is not known where a holder's memory is not: then nothing is called stale by it.
weighed AS (
    SELECT
        card.*, CASE WHEN truth.cluster IS NULL THEN 0 ELSE truth.held_mib END AS held_mib, coalesce(truth.held_percent, 0) AS held_percent, coalesce(truth.held_count, 0) AS held_count,
        coalesce(truth.held_ppm, 0) AS held_ppm, CASE WHEN truth.cluster IS NULL THEN 0 ELSE truth.reserved_mib END AS reserved_mib, CASE WHEN truth.cluster IS NULL THEN 0 ELSE truth.suspense_mib END AS suspense_mib,
        coalesce(truth.is_mig, FALSE) AS is_mig, slot.shared_count
    FROM scheduler_card AS card
    LEFT JOIN truth ON truth.cluster = card.cluster AND truth.device_uuid = card.device_uuid
    LEFT JOIN slot ON slot.cluster = card.cluster AND slot.device_uuid = card.device_uuid
),

series AS (
    SELECT now.*, 'pod ' || coalesce(now.namespace || '/', '') || now.pod AS subject
    FROM dim.deviation_now AS now
    WHERE now.pod IS NOT NULL AND now.is_current
),

-- Nodes of which an origin spoke, and when last.
spoken AS (
    SELECT DISTINCT cluster, origin, node, round_at FROM dim.deviation_now WHERE node IS NOT NULL
),

board AS (
    SELECT cluster, device_uuid, arg_max(memory_used_mib, occurred_at) AS used_mib, arg_max(util_gpu_ratio, occurred_at) AS util_ratio, max(occurred_at) AS occurred_at,
        bool_or(source = 'hami') AS by_monitor
    FROM fact.device_sample
    WHERE gi IS NULL AND occurred_at >= (
            SELECT least(parameter.as_of_at, coalesce(max(now.occurred_at), parameter.as_of_at)) - INTERVAL 1 HOUR
            FROM dim.parameter AS parameter
            LEFT JOIN dim.deviation_now AS now ON TRUE
            GROUP BY parameter.as_of_at
        )
        AND occurred_at <= (SELECT horizon_at FROM dim.parameter) AND memory_used_mib IS NOT NULL
    GROUP BY cluster, device_uuid
),

card AS (
    SELECT
        device.cluster, device.device_uuid, arg_max(device.node, device.last_seen_at) AS node, bool_or(device.mode = 'mig' OR coalesce(device.mig_enabled, FALSE)) AS is_mig,
        max(device.memory_mib) AS physical_mib, bool_or(device.vendor_registered) AS registered
    FROM dim.device AS device
    GROUP BY device.cluster, device.device_uuid
),

-- Cards whose node's monitor speaks, with what the device reports and what was counted of those who hold it.
measured AS (
    SELECT
        board.cluster, board.device_uuid, card.node, board.used_mib, board.util_ratio, card.is_mig OR coalesce(truth.is_mig, FALSE) AS is_mig,
        counted.counted_mib, coalesce(truth.held_count, 0) AS held_count, counted.pods_count, counted.sm_max, counted.sm_known, counted.limit_mib, board.occurred_at
    FROM board
    JOIN card ON card.cluster = board.cluster AND card.device_uuid = board.device_uuid
    LEFT JOIN truth ON truth.cluster = board.cluster AND truth.device_uuid = board.device_uuid
    LEFT JOIN (
        SELECT
            cluster, device_uuid, CAST(sum(counted_mib) AS BIGINT) AS counted_mib, count(counted_mib) AS pods_count, max(sm_ratio) AS sm_max, count(sm_ratio) AS sm_known,
            CAST(sum(limit_mib) AS BIGINT) AS limit_mib
        FROM series
        WHERE origin = 'monitor' AND standing = 'live'
        GROUP BY cluster, device_uuid
    ) AS counted ON counted.cluster = board.cluster AND counted.device_uuid = board.device_uuid
    WHERE board.by_monitor OR EXISTS (
        SELECT 1 FROM spoken WHERE spoken.cluster = board.cluster AND spoken.origin = 'monitor' AND spoken.node = card.node
    )
),

monitored_node AS (
    SELECT cluster, node, max(round_at) AS round_at
    FROM (
        SELECT cluster, node, round_at FROM spoken WHERE origin = 'monitor'
        UNION ALL
        SELECT board.cluster, card.node, board.occurred_at
        FROM board
        JOIN card ON card.cluster = board.cluster AND card.device_uuid = board.device_uuid
        WHERE board.by_monitor
    ) AS said
    WHERE node IS NOT NULL
    GROUP BY cluster, node
),

-- What the cluster's objects show as held by a pod on a card: containers and figures.
holder AS (
    SELECT
        cluster, pod_uid, device_uuid, min(namespace) AS namespace, min(pod) AS pod, max(node) AS node, max(gi) AS gi, bool_or(unit_kind = 'mig') AS is_mig,
        string_agg(container, ',' ORDER BY container) AS containers, CAST(sum(memory_mib) AS BIGINT) AS memory_mib, CAST(sum(cores_percent) AS BIGINT) AS cores_percent,
        count(memory_mib) = count(*) AS memory_known, min(started_at) AS started_at, 'pod ' || min(namespace) || '/' || min(pod) AS subject
    FROM dim.deviation_held
    WHERE occupancy <> 'reserved'
    GROUP BY cluster, pod_uid, device_uuid
),

enforced AS (
    SELECT
        cluster, pod_uid, device_uuid, CASE WHEN count(limit_mib) = count(*) THEN CAST(sum(limit_mib) AS BIGINT) END AS limit_mib,
        CAST(sum(counted_mib) AS BIGINT) AS counted_mib, bool_or(unknown LIKE '%no limit is set%') AS no_limit, max(node) AS node
    FROM series
    WHERE origin = 'monitor' AND standing = 'live'
    GROUP BY cluster, pod_uid, device_uuid
),

vanished AS (
    SELECT cluster, max(coalesce(observed_to_at, occurred_at)) AS listed_at
    FROM fact.source_status
    WHERE kind = 'nodes' AND scope = 'cluster' AND complete AND status = 'ok'
    GROUP BY cluster
),

-- The model that an exporter's rows call a card, beside the one of the node's register.
named_type AS (
    SELECT cluster, json_extract_string(labels, '$.device_uuid') AS device_uuid, arg_max(json_extract_string(labels, '$.device_type'), occurred_at) AS monitor_type
    FROM fact.metric_sample
    WHERE metric = 'hami_device_type'
    GROUP BY cluster, json_extract_string(labels, '$.device_uuid')
),

registered_type AS (
    SELECT cluster, device_uuid, arg_max(model, occurred_at) AS register_type
    FROM fact.device
    WHERE source = 'hami' AND model IS NOT NULL
    GROUP BY cluster, device_uuid
),

-- Which figures a namespace's quota is told to have used, by the sharing layer's exporter or by Kubernetes, and what its pods hold there. A limit of 0 is
-- none; a sum that leaves out how many cards a pod has is named.
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
quota_scope AS (
    SELECT DISTINCT cluster, import_id, node
    FROM dim.deviation_now
    WHERE origin = 'scheduler' AND standing = 'card' AND node IS NOT NULL
),

scoped AS (
    SELECT told.*, count(scope.node) AS nodes_count, string_agg(scope.node, ',' ORDER BY scope.node) AS scope_nodes
    FROM told
    LEFT JOIN quota_scope AS scope ON told.told_by = 'exporter' AND scope.cluster = told.cluster AND scope.import_id IS NOT DISTINCT FROM told.import_id
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

quota_truth AS (
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
        quota_truth.in_scope, quota_truth.all_nodes, quota_truth.reserved,
        CASE
            WHEN scoped.used IN (quota_truth.in_scope, quota_truth.in_scope + quota_truth.reserved) THEN 'agrees'
            WHEN once.cards_max > 1 AND scoped.used = once.once_sum THEN 'not_times_count'
            WHEN scoped.used < quota_truth.in_scope THEN 'understated'
            ELSE 'overstated'
        END AS verdict
    FROM scoped
    JOIN quota_truth
        ON quota_truth.cluster = scoped.cluster AND quota_truth.namespace = scoped.namespace AND quota_truth.told_by = scoped.told_by
        AND quota_truth.import_id IS NOT DISTINCT FROM scoped.import_id AND quota_truth.amount = scoped.amount
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
        series.cluster, 'ghost_pod' AS code, CASE WHEN series.origin = 'scheduler' THEN 'error' ELSE 'warning' END AS severity, series.subject,
        'the ' || series.origin || '''s exporter has a series of a pod that is not there: what it claims is blocked for nobody; restart the exporter (HAMi 2.8 and later let go)' AS message,
        json_object(
            'device_uuid', series.device_uuid, 'node', series.node, 'origin', series.origin, 'over_reported_memory_mib', coalesce(series.allocated_mib, series.counted_mib),
            'over_reported_cores_percent', series.cores_percent, 'exporter_memory_mib', weighed.allocated_mib, 'truth_memory_mib', weighed.held_mib,
            'exporter_shared_count', weighed.shared_count, 'truth_shared_count', weighed.held_count, 'seen_at', CAST(series.occurred_at AS VARCHAR)
        ) AS evidence
    FROM series
    LEFT JOIN weighed ON weighed.cluster = series.cluster AND weighed.device_uuid = series.device_uuid
    WHERE series.standing = 'gone'
    UNION ALL
    SELECT
        series.cluster, 'reserved_counted_as_allocated', 'info', series.subject, 'it is reserved and not bound: the scheduler''s exporter counts it as allocated, the books as reserved',
        json_object(
            'device_uuid', series.device_uuid, 'memory_mib', series.allocated_mib, 'cores_percent', series.cores_percent, 'exporter_memory_mib', weighed.allocated_mib,
            'truth_held_memory_mib', weighed.held_mib
        )
    FROM series
    LEFT JOIN weighed ON weighed.cluster = series.cluster AND weighed.device_uuid = series.device_uuid
    WHERE series.standing = 'reserved' AND series.origin = 'scheduler'
    UNION ALL
    SELECT
        series.cluster, 'series_of_finished_pod', 'warning', series.subject, 'the pod ended and its series is still printed: it counts up to the end of the pod only',
        json_object(
            'device_uuid', series.device_uuid, 'origin', series.origin, 'stale_memory_mib', coalesce(series.counted_mib, series.allocated_mib),
            'device_used_memory_mib', board.used_mib, 'seen_at', CAST(series.occurred_at AS VARCHAR)
        )
    FROM series
    LEFT JOIN board ON board.cluster = series.cluster AND board.device_uuid = series.device_uuid
    WHERE series.standing = 'finished'
    UNION ALL
    SELECT
        series.cluster, 'series_of_another_card', 'warning', series.subject, 'the ' || series.origin || '''s exporter has it on a card that it does not hold by its own grant',
        json_object('device_uuid', series.device_uuid, 'origin', series.origin, 'memory_mib', coalesce(series.allocated_mib, series.counted_mib))
    FROM series
    WHERE series.standing = 'elsewhere'
    UNION ALL
    SELECT
        series.cluster, 'series_merges_generations', 'warning', series.subject,
        'the exporter names pods and no uids: what it has under this name is more than the living pod was granted, an earlier pod of the name is still in it',
        json_object('device_uuid', series.device_uuid, 'exporter_memory_mib', series.allocated_mib, 'truth_memory_mib', holder.memory_mib, 'generations', series.bearers_count)
    FROM series
    JOIN holder ON holder.cluster = series.cluster AND holder.pod_uid = series.pod_uid AND holder.device_uuid = series.device_uuid
    WHERE series.origin = 'scheduler' AND series.standing = 'live' AND series.bearers_count > 1 AND series.allocated_mib > holder.memory_mib
    UNION ALL
    SELECT
        weighed.cluster, 'exporter_stale', 'error', 'device ' || weighed.device_uuid,
        'the scheduler''s exporter shows ' || weighed.allocated_mib || ' MiB of it as allocated, living pods, reservations and its own series explain '
        || (weighed.held_mib + weighed.reserved_mib + weighed.suspense_mib + coalesce(ghost.allocated_mib, 0)) || ': new pods are refused for nothing; restart the scheduler',
        json_object(
            'node', weighed.node, 'exporter_memory_mib', weighed.allocated_mib, 'truth_memory_mib', weighed.held_mib, 'device_used_memory_mib', board.used_mib,
            'over_reported_memory_mib', weighed.allocated_mib - weighed.held_mib - weighed.reserved_mib - weighed.suspense_mib - coalesce(ghost.allocated_mib, 0)
        )
    FROM weighed
    LEFT JOIN board ON board.cluster = weighed.cluster AND board.device_uuid = weighed.device_uuid
    LEFT JOIN (
        SELECT cluster, device_uuid, CAST(sum(allocated_mib) AS BIGINT) AS allocated_mib
        FROM series
        WHERE origin = 'scheduler' AND standing NOT IN ('live', 'reserved')
        GROUP BY cluster, device_uuid
    ) AS ghost ON ghost.cluster = weighed.cluster AND ghost.device_uuid = weighed.device_uuid
    JOIN card ON card.cluster = weighed.cluster AND card.device_uuid = weighed.device_uuid
    JOIN vanished ON vanished.cluster = weighed.cluster
    LEFT JOIN dim.node AS node ON node.cluster = weighed.cluster AND node.node = weighed.node
    WHERE weighed.allocated_mib > weighed.held_mib + weighed.reserved_mib + weighed.suspense_mib + coalesce(ghost.allocated_mib, 0) + 1 AND node.gone_by_at IS NULL
    UNION ALL
    SELECT
        weighed.cluster, 'removed_node_exported', 'warning', 'node ' || weighed.node, 'the node is gone and the scheduler''s exporter still shows its cards: they are no capacity',
        json_object('cards', count(*), 'device_uuids', string_agg(weighed.device_uuid, ',' ORDER BY weighed.device_uuid))
    FROM weighed
    JOIN vanished ON vanished.cluster = weighed.cluster
    LEFT JOIN dim.node AS node ON node.cluster = weighed.cluster AND node.node = weighed.node
    WHERE weighed.node IS NOT NULL AND (node.gone_by_at <= weighed.occurred_at OR (node.node IS NULL AND vanished.listed_at >= weighed.occurred_at))
    GROUP BY weighed.cluster, weighed.node
    UNION ALL
    SELECT
        holder.cluster, CASE WHEN with_init.pod_uid IS NULL THEN 'allocation_not_exported' ELSE 'missing_slice_after_init' END, 'warning', holder.subject,
        'it holds a part of the card and the scheduler''s exporter has no series of it there'
        || CASE WHEN with_init.pod_uid IS NULL THEN '' ELSE ': HAMi 2.10.0 drops empty slots of init containers (#2899); what it says of the card is too little' END,
        json_object(
            'device_uuid', holder.device_uuid, 'containers', holder.containers, 'granted_memory_mib', holder.memory_mib, 'exporter_memory_mib', weighed.allocated_mib,
            'truth_memory_mib', weighed.held_mib, 'exporter_cores_percent', weighed.cores_percent, 'truth_cores_percent', weighed.held_percent,
            'exporter_shared_count', weighed.shared_count, 'truth_shared_count', weighed.held_count
        )
    FROM holder
    JOIN spoken ON spoken.cluster = holder.cluster AND spoken.origin = 'scheduler' AND spoken.node = holder.node
    LEFT JOIN weighed ON weighed.cluster = holder.cluster AND weighed.device_uuid = holder.device_uuid
    LEFT JOIN (SELECT DISTINCT cluster, pod_uid FROM fact.container WHERE kind = 'init') AS with_init
        ON with_init.cluster = holder.cluster AND with_init.pod_uid = holder.pod_uid
    LEFT JOIN series ON series.cluster = holder.cluster AND series.origin = 'scheduler' AND series.pod_uid = holder.pod_uid AND series.device_uuid = holder.device_uuid
    WHERE series.cluster IS NULL AND holder.started_at + INTERVAL 2 MINUTE <= spoken.round_at
    UNION ALL
    SELECT
        cluster, 'profile_cores', 'info', 'device ' || device_uuid, 'under MIG the exporter adds up percent of profiles: that is no share of the card',
        json_object(
            'exporter_cores_percent', cores_percent, 'truth_held_cores_percent', held_percent, 'exporter_memory_mib', allocated_mib, 'truth_held_memory_mib', held_mib,
            'held_share_ppm', held_ppm
        )
    FROM weighed
    WHERE is_mig AND cores_percent > 0 AND cores_percent * 10000 <> held_ppm
    UNION ALL
    SELECT
        measured.cluster, 'residual_memory', CASE WHEN measured.used_mib - coalesce(measured.counted_mib, 0) > 600 * greatest(1, coalesce(measured.pods_count, 0)) THEN 'warning' ELSE 'info' END,
        'device ' || measured.device_uuid, 'the device has more memory in use than is counted of its holders: contexts, allocators that are not counted, holders without a figure',
        json_object(
            'node', measured.node, 'device_used_memory_mib', measured.used_mib, 'counted_memory_mib', CASE WHEN measured.held_count = 0 THEN coalesce(measured.counted_mib, 0) ELSE measured.counted_mib END,
            'residual_memory_mib', measured.used_mib - coalesce(measured.counted_mib, 0), 'enforced_memory_mib', measured.limit_mib
        )
    FROM measured
    WHERE NOT measured.is_mig AND measured.used_mib > coalesce(measured.counted_mib, 0)
    UNION ALL
    SELECT
        measured.cluster, 'counted_above_device', 'warning', 'device ' || measured.device_uuid,
        'more is counted of its holders than the device has in use: a process ended and its count stays; restart the container to have it right',
        json_object('node', measured.node, 'device_used_memory_mib', measured.used_mib, 'counted_memory_mib', measured.counted_mib)
    FROM measured
    WHERE NOT measured.is_mig AND measured.counted_mib > measured.used_mib + greatest(64, measured.used_mib // 20)
    UNION ALL
    SELECT
        measured.cluster, 'utilisation_not_counted', 'info', 'device ' || measured.device_uuid,
        'the layer counts 0 % of all its holders and the card is at work: it measures only where it limits cores; their utilisation is not known and is not 0',
        json_object('node', measured.node, 'device_utilisation_ratio', measured.util_ratio, 'series', measured.sm_known)
    FROM measured
    WHERE measured.sm_known > 0 AND measured.sm_max = 0 AND measured.util_ratio >= 0.05
    UNION ALL
    SELECT
        enforced.cluster, 'use_on_the_wrong_pod', 'warning', holder.subject,
        'it is counted above its own limit while a neighbour on the card counts 0: whose use it is cannot be told; what the device reports bounds it',
        json_object(
            'device_uuid', enforced.device_uuid, 'counted_memory_mib', enforced.counted_mib, 'enforced_memory_mib', enforced.limit_mib, 'device_used_memory_mib', board.used_mib
        )
    FROM enforced
    JOIN holder ON holder.cluster = enforced.cluster AND holder.pod_uid = enforced.pod_uid AND holder.device_uuid = enforced.device_uuid
    LEFT JOIN board ON board.cluster = enforced.cluster AND board.device_uuid = enforced.device_uuid
    WHERE enforced.counted_mib > coalesce(enforced.limit_mib, holder.memory_mib) AND EXISTS (
        SELECT 1
        FROM enforced AS neighbour
        WHERE neighbour.cluster = enforced.cluster AND neighbour.device_uuid = enforced.device_uuid AND neighbour.pod_uid <> enforced.pod_uid AND neighbour.counted_mib = 0
    )
    UNION ALL
    SELECT
        enforced.cluster, 'limit_not_in_force', 'error', holder.subject,
        'the limit in force is ' || coalesce(enforced.limit_mib || ' MiB', 'none') || ', granted are ' || holder.memory_mib || ' MiB: restart the pod to have its own limit',
        json_object('device_uuid', enforced.device_uuid, 'enforced_memory_mib', enforced.limit_mib, 'granted_memory_mib', holder.memory_mib, 'containers', holder.containers)
    FROM enforced
    JOIN holder ON holder.cluster = enforced.cluster AND holder.pod_uid = enforced.pod_uid AND holder.device_uuid = enforced.device_uuid
    LEFT JOIN card ON card.cluster = enforced.cluster AND card.device_uuid = enforced.device_uuid
    WHERE NOT holder.is_mig AND holder.memory_known
        AND (abs(enforced.limit_mib - holder.memory_mib) > 1 OR (enforced.no_limit AND holder.memory_mib < card.physical_mib))
    UNION ALL
    SELECT
        series.cluster, 'wrong_container', 'info', series.subject, 'the monitor names a container that does not hold this card; the one that does is charged',
        json_object('device_uuid', series.device_uuid, 'reported_container', series.container, 'true_container', holder.containers)
    FROM series
    JOIN holder ON holder.cluster = series.cluster AND holder.pod_uid = series.pod_uid AND holder.device_uuid = series.device_uuid
    WHERE series.origin = 'monitor' AND series.standing = 'live' AND series.container IS NOT NULL
        AND NOT list_contains(string_split(holder.containers, ','), series.container)
    UNION ALL
    SELECT
        holder.cluster, 'series_absent', 'info', holder.subject, 'the monitor has no series of it on this card: what it uses is not known and is not 0',
        json_object('device_uuid', holder.device_uuid, 'container', holder.containers, 'granted_memory_mib', holder.memory_mib)
    FROM holder
    JOIN monitored_node AS monitored ON monitored.cluster = holder.cluster AND monitored.node = holder.node
    LEFT JOIN series ON series.cluster = holder.cluster AND series.origin = 'monitor' AND series.pod_uid = holder.pod_uid AND series.device_uuid = holder.device_uuid
    WHERE series.cluster IS NULL AND NOT holder.is_mig AND holder.started_at + INTERVAL 2 MINUTE <= monitored.round_at
    UNION ALL
    SELECT DISTINCT
        granted.cluster, 'series_absent', 'info', 'pod ' || pod.namespace || '/' || pod.pod,
        'it runs on a node whose cards are shared, without a grant, and the monitor has no series of it: what it uses is not known and is not 0',
        json_object('node', granted.node, 'pod_uid', granted.pod_uid)
    FROM dim."grant" AS granted
    JOIN dim.pod AS pod ON pod.cluster = granted.cluster AND pod.pod_uid = granted.pod_uid
    JOIN monitored_node AS monitored ON monitored.cluster = granted.cluster AND monitored.node = granted.node
    LEFT JOIN series ON series.cluster = granted.cluster AND series.origin = 'monitor' AND series.pod_uid = granted.pod_uid
    WHERE granted.standing = 'without_grant' AND pod.phase = 'Running' AND pod.gone_by_at IS NULL AND series.cluster IS NULL
    UNION ALL
    SELECT
        holder.cluster, 'mig_without_container_usage', 'info', holder.subject, 'under MIG the layer counts nothing per container: join DCGM on the card and its GPU_I_ID ' || holder.gi,
        json_object('device_uuid', holder.device_uuid, 'gpu_instance_id', holder.gi, 'device_used_memory_mib', board.used_mib)
    FROM holder
    JOIN monitored_node AS monitored ON monitored.cluster = holder.cluster AND monitored.node = holder.node
    LEFT JOIN board ON board.cluster = holder.cluster AND board.device_uuid = holder.device_uuid
    LEFT JOIN series ON series.cluster = holder.cluster AND series.origin = 'monitor' AND series.pod_uid = holder.pod_uid AND series.device_uuid = holder.device_uuid
    WHERE holder.is_mig AND holder.gi IS NOT NULL AND series.cluster IS NULL
    UNION ALL
    SELECT
        named.cluster, 'type_mismatch', 'info', 'device ' || named.device_uuid, 'the monitor and the node''s register call its model by different names: it is joined on its UUID, never on its type',
        json_object('monitor_type', named.monitor_type, 'register_type', registered.register_type)
    FROM named_type AS named
    JOIN registered_type AS registered ON registered.cluster = named.cluster AND registered.device_uuid = named.device_uuid
    WHERE named.monitor_type <> registered.register_type
    UNION ALL
    SELECT
        device.cluster, 'memory_scaled', 'info', 'device ' || device.device_uuid,
        'the layer hands out ' || max(device.schedulable_memory_mib) || ' MiB of it, it has ' || max(device.memory_mib) || ': limits may lie above what the card has',
        json_object(
            'node', max(device.node), 'physical_memory_mib', max(device.memory_mib), 'schedulable_memory_mib', max(device.schedulable_memory_mib),
            'ratio', round(max(device.schedulable_memory_mib) / max(device.memory_mib), 4)
        )
    FROM dim.device AS device
    WHERE device.valid_to_at IS NULL AND device.memory_mib > 0 AND device.schedulable_memory_mib > device.memory_mib
    GROUP BY device.cluster, device.device_uuid
    UNION ALL
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
    found.code || '/' || found.subject || coalesce('/' || json_extract_string(found.evidence, '$.device_uuid'), '') AS natural_key,
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

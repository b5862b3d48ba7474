-- What telemetry does not show although it should, and what it shows although nobody holds it: cards and MIG instances without samples, exporters
-- that fell silent or print fewer fields than before, lost cards, cards used by nobody, labels that name another pod. As of the last round.
WITH
-- The last instant at which anything of a cluster was asked, answered or not.
latest_round AS (
    SELECT cluster, max(occurred_at) AS now_at
    FROM fact.source_status
    WHERE occurred_at <= (SELECT horizon_at FROM dim.parameter)
    GROUP BY cluster
),

-- How long a card may go without a sample: two widest gaps that its source declares, else ten minutes.
patience AS (
    SELECT cluster, coalesce(max(gap_max_us) * 2, 600000000) AS silence_max_us
    FROM fact.source_status
    WHERE source = 'dcgm' AND kind = 'dcgm' AND status <> 'failed'
    GROUP BY cluster
),

exported AS (
    SELECT DISTINCT cluster, device_uuid FROM dim.device_sighting WHERE source = 'dcgm'
),

last_sample AS (
    SELECT cluster, device_uuid, max(last_at) AS last_at FROM dim.measured_hour GROUP BY cluster, device_uuid
),

-- Falls that no line dates: their instant is that of the reading, not of the loss.
undated AS (
    SELECT DISTINCT cluster, node, device_uuid, pci_address, occurred_at
    FROM fact.event
    WHERE (kind = 'fell_off_bus' OR (kind = 'xid' AND code = 79)) AND json_exists(details, '$.time_unknown')
),

card AS (
    SELECT
        device.cluster, device.device_uuid, device.node, device.state, device.lost_at, device.state_reason,
        EXISTS (
            SELECT 1
            FROM undated
            WHERE undated.cluster = device.cluster AND undated.occurred_at = device.lost_at
                AND (
                    undated.device_uuid = device.device_uuid
                    OR (undated.device_uuid IS NULL AND undated.node = device.node AND undated.pci_address = device.pci_address)
                )
        ) AS lost_undated,
        CASE WHEN exported.device_uuid IS NOT NULL THEN last_sample.last_at END AS last_at,
        coalesce(
            exported.device_uuid IS NOT NULL
            AND epoch_us(latest_round.now_at) - epoch_us(last_sample.last_at) <= patience.silence_max_us,
            FALSE
        ) AS measured
    FROM dim.device AS device
    LEFT JOIN patience ON patience.cluster = device.cluster
    JOIN latest_round ON latest_round.cluster = device.cluster
    LEFT JOIN exported ON exported.cluster = device.cluster AND exported.device_uuid = device.device_uuid
    LEFT JOIN last_sample ON last_sample.cluster = device.cluster AND last_sample.device_uuid = device.device_uuid
    WHERE device.valid_to_at IS NULL AND device.node IS NOT NULL AND device.vendor = 'nvidia'
),

labelled AS (
    SELECT cluster, node, max(gpu_count) AS labelled_count FROM dim.node WHERE gpu_count BETWEEN 1 AND 1000 GROUP BY cluster, node
),

node_cards AS (
    SELECT
        card.cluster, card.node,
        greatest(count(*), coalesce(max(labelled.labelled_count), 0)) AS expected,
        count(*) FILTER (WHERE card.measured) AS found,
        count(card.last_at) AS ever_found,
        count(*) FILTER (WHERE card.state = 'lost') AS lost,
        max(card.last_at) AS last_at,
        string_agg(card.device_uuid, ',' ORDER BY card.device_uuid) FILTER (WHERE NOT card.measured) AS missing,
        string_agg(card.device_uuid, ',' ORDER BY card.device_uuid) FILTER (WHERE card.state = 'lost') AS lost_uuids,
        min(card.lost_at) FILTER (WHERE NOT card.lost_undated) AS lost_at,
        max(card.state_reason) FILTER (WHERE card.state = 'lost') AS lost_reason,
        coalesce(max(labelled.labelled_count), 0) > count(*) AS more_by_label
    FROM card
    LEFT JOIN labelled ON labelled.cluster = card.cluster AND labelled.node = card.node
    GROUP BY card.cluster, card.node
),

instance AS (
    SELECT
        unit.cluster, unit.device_uuid, max(unit.node) AS node,
        count(DISTINCT coalesce('gi/' || unit.gi, unit.unit_id)) AS expected,
        string_agg(DISTINCT CAST(unit.gi AS VARCHAR), ',') AS expected_gis
    FROM dim.unit AS unit
    JOIN (
        SELECT cluster, device_uuid, max(last_seen_at) AS last_seen_at FROM dim.unit WHERE unit_kind = 'mig' GROUP BY cluster, device_uuid
    ) AS newest
        ON newest.cluster = unit.cluster AND newest.device_uuid = unit.device_uuid AND newest.last_seen_at = unit.last_seen_at
    WHERE unit.unit_kind = 'mig'
    GROUP BY unit.cluster, unit.device_uuid
),

instance_sample AS (
    SELECT sample.cluster, sample.device_uuid, sample.gi, max(sample.occurred_at) AS last_at
    FROM fact.device_sample AS sample
    WHERE sample.gi IS NOT NULL AND sample.source = 'dcgm' AND sample.occurred_at <= (SELECT horizon_at FROM dim.parameter)
        AND sample.device_uuid IN (SELECT device_uuid FROM instance)
    GROUP BY sample.cluster, sample.device_uuid, sample.gi
),

instances_found AS (
    SELECT
        instance.cluster, instance.device_uuid, instance.node, instance.expected, count(*) AS found,
        string_agg(CAST(seen.gi AS VARCHAR), ',' ORDER BY seen.gi) AS found_gis
    FROM instance
    JOIN (
        SELECT
            cluster, device_uuid, gi, last_at, max(last_at) OVER (PARTITION BY cluster, device_uuid) AS newest_at
        FROM instance_sample
    ) AS seen ON seen.cluster = instance.cluster AND seen.device_uuid = instance.device_uuid
    JOIN patience ON patience.cluster = instance.cluster
    WHERE epoch_us(seen.newest_at) - epoch_us(seen.last_at) <= patience.silence_max_us
    GROUP BY instance.cluster, instance.device_uuid, instance.node, instance.expected
),

-- The fields that the questions need, the line of the exporter's CSV that brings each, and what is not known without it.
needed_field AS (
    SELECT *
    FROM (
        VALUES
            (203, 'DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).', TRUE, 'whether a kernel runs'),
            (252, 'DCGM_FI_DEV_FB_USED, gauge, Framebuffer memory used (in MiB).', TRUE, 'memory in use'),
            (155, 'DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).', TRUE, 'power, and so hangs'),
            (230, 'DCGM_FI_DEV_XID_ERRORS, gauge, Value of the last XID error encountered.', TRUE, 'hints of Xids: absent is not healthy'),
            (1001, 'DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time the graphics engine is active.', TRUE, 'activity, also under MIG'),
            (1002, 'DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.', FALSE, 'how much of the card is used'),
            (1005, 'DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.', TRUE, 'bandwidth in use')
    ) AS field (number, csv_line, is_stock, says)
),

series AS (
    SELECT
        cluster, scope, occurred_at, json_extract_string(message, '$.fields') AS fields,
        json_extract_string(message, '$.mig') = 'true' AS mig,
        json_extract_string(message, '$.exporter_version') AS exporter_version,
        json_extract_string(message, '$.driver_version') AS driver_version,
        row_number() OVER (PARTITION BY cluster, scope ORDER BY occurred_at DESC, fact_id) AS age
    FROM fact.source_status
    WHERE kind = 'dcgm_series' AND occurred_at <= (SELECT horizon_at FROM dim.parameter)
),

printed AS (
    SELECT
        cluster, scope, TRY_CAST(number AS BIGINT) AS number, max(occurred_at) AS last_at,
        arg_max(exporter_version, occurred_at) AS exporter_version
    FROM (SELECT cluster, scope, occurred_at, exporter_version, unnest(string_split(fields, ',')) AS number FROM series) AS listed
    GROUP BY cluster, scope, number
),

absent AS (
    SELECT
        series.cluster, series.scope, series.occurred_at AS seen_at, series.exporter_version, series.driver_version, field.number, field.csv_line,
        field.is_stock, field.says, printed.last_at AS printed_at, printed.exporter_version AS printed_by
    FROM series
    CROSS JOIN needed_field AS field
    LEFT JOIN printed ON printed.cluster = series.cluster AND printed.scope = series.scope AND printed.number = field.number
    WHERE series.age = 1 AND (printed.last_at IS NULL OR printed.last_at < series.occurred_at) AND NOT (series.mig AND field.number = 203)
),

-- Use at the last sample of each card, where that is of the last hour. By equal instants, so that the engine finds the few blocks that hold them:
-- it does so only where this join stands alone, in the midst of others it reads every sample there is.
recent AS MATERIALIZED (
    SELECT sample.cluster, sample.device_uuid, sample.occurred_at, max(sample.util_gpu_ratio) AS util_ratio,
        max(sample.gr_active_ratio) AS gr_ratio, max(sample.memory_used_mib) AS memory_mib
    FROM fact.device_sample AS sample
    JOIN (
        SELECT last_sample.cluster, last_sample.device_uuid, last_sample.last_at
        FROM last_sample
        JOIN latest_round ON latest_round.cluster = last_sample.cluster
        WHERE last_sample.last_at >= latest_round.now_at - INTERVAL 1 HOUR
    ) AS newest
        ON newest.device_uuid = sample.device_uuid AND newest.last_at = sample.occurred_at AND newest.cluster = sample.cluster
    GROUP BY sample.cluster, sample.device_uuid, sample.occurred_at
),

alive AS (
    SELECT cluster, device_uuid, node, place_kind, namespace, pod, pod_uid, started_at, coalesce(ended_at, known_to_at) AS to_at, ended_at
    FROM ledger.holding
    WHERE ended_at IS NULL OR ended_at >= (SELECT min(now_at) FROM latest_round) - INTERVAL 1 HOUR
),

-- A card in use while every pod was seen and none of them holds it, nor any card of its node that is not told. A card that nobody uses shows
-- less than 1 GiB (what a driver reserves, where it counts that as used).
unheld AS (
    SELECT recent.cluster, recent.device_uuid, card.node, recent.occurred_at, recent.util_ratio, recent.gr_ratio, recent.memory_mib
    FROM recent
    JOIN dim.device AS card ON card.cluster = recent.cluster AND card.device_uuid = recent.device_uuid AND card.valid_to_at IS NULL
    WHERE (recent.util_ratio >= 0.05 OR recent.gr_ratio >= 0.05 OR recent.memory_mib >= 1024)
        AND EXISTS (
            SELECT 1
            FROM fact.source_status AS status
            WHERE status.cluster = recent.cluster AND status.kind = 'pods' AND status.complete AND status.status = 'ok'
                AND coalesce(status.observed_to_at, status.occurred_at) >= recent.occurred_at
                AND (status.scope = 'cluster' OR status.scope = 'node/' || card.node)
        )
        AND NOT EXISTS (
            SELECT 1
            FROM alive
            WHERE alive.cluster = recent.cluster AND alive.started_at <= recent.occurred_at
                AND (alive.ended_at IS NULL OR alive.ended_at > recent.occurred_at)
                AND (
                    alive.device_uuid = recent.device_uuid
                    OR (alive.device_uuid IS NULL AND (alive.node = card.node OR alive.place_kind = 'cluster'))
                )
        )
),

-- The last complete look at the processes of such a card, within an hour of its sample: by the agent, or in a form of nvidia-smi that lists them.
looked AS (
    SELECT unheld.cluster, unheld.device_uuid, max(look.occurred_at) AS looked_at, arg_max(look.source, look.occurred_at) AS source
    FROM unheld
    JOIN (
        SELECT cluster, source, occurred_at, substr(scope, 6) AS node, CAST(NULL AS VARCHAR) AS device_uuid
        FROM fact.source_status
        WHERE source = 'agent' AND kind = 'nvml' AND status = 'ok'
        UNION ALL
        SELECT cluster, source, occurred_at, node, device_uuid
        FROM fact.device
        WHERE source = 'nvidia_smi' AND (encoding LIKE 'xml%' OR encoding IN ('smi_table', 'smi_q'))
    ) AS look
        ON look.cluster = unheld.cluster AND coalesce(look.device_uuid = unheld.device_uuid, look.node = unheld.node)
        AND look.occurred_at BETWEEN unheld.occurred_at - INTERVAL 1 HOUR AND unheld.occurred_at + INTERVAL 1 HOUR
    GROUP BY unheld.cluster, unheld.device_uuid
),

-- Memory or work that no living process has: what a process left behind (its name cannot be read, its pid is gone), or nothing at all.
orphan AS (
    SELECT unheld.cluster, unheld.device_uuid, unheld.node, unheld.occurred_at, unheld.util_ratio, unheld.memory_mib, looked.looked_at,
        owner.namespace, owner.pod, owner.ended_at
    FROM unheld
    JOIN looked ON looked.cluster = unheld.cluster AND looked.device_uuid = unheld.device_uuid
    LEFT JOIN (
        SELECT cluster, device_uuid, arg_max(namespace, ended_at) AS namespace, arg_max(pod, ended_at) AS pod, max(ended_at) AS ended_at
        FROM ledger.holding
        WHERE device_uuid IS NOT NULL AND ended_at IS NOT NULL AND occupancy = 'held'
        GROUP BY cluster, device_uuid
    ) AS owner
        ON owner.cluster = unheld.cluster AND owner.device_uuid = unheld.device_uuid
    WHERE NOT EXISTS (
            SELECT 1
            FROM fact.process_sample AS process
            WHERE process.cluster = unheld.cluster AND process.device_uuid = unheld.device_uuid AND process.source = looked.source
                AND process.occurred_at = looked.looked_at
                AND NOT coalesce(json_extract_string(process.unknown, '$.pod_uid') LIKE 'no such process%', FALSE)
                AND json_extract_string(process.unknown, '$.process_name') IS NULL
        )
),

used_by_nobody AS (
    SELECT unheld.*
    FROM unheld
    ANTI JOIN orphan ON orphan.cluster = unheld.cluster AND orphan.device_uuid = unheld.device_uuid
    WHERE unheld.util_ratio >= 0.05 OR unheld.gr_ratio >= 0.05
),

-- A profiler on a node whose cards share one set of profiling counters (before Hopper): it blanks or zeroes them on all of its cards.
profiler AS (
    SELECT
        process.cluster, card.node, min(process.process_name) AS process_name, min(process.occurred_at) AS first_at, max(process.occurred_at) AS last_at,
        string_agg(DISTINCT card.device_uuid, ',') AS cards
    FROM fact.process_sample AS process
    JOIN dim.device AS card
        ON card.cluster = process.cluster AND card.device_uuid = process.device_uuid AND card.valid_to_at IS NULL
    WHERE regexp_matches(lower(process.process_name), '(^|[/ ])(nsys|ncu|nvprof|nsight-sys|nsight-compute|nv-nsight[a-z-]*|dcgmproftester[0-9]*)(\.bin)?($| )')
        AND card.node IS NOT NULL AND NOT regexp_matches(lower(coalesce(card.model, '')), '(h100|h200|h800|h20|gh200|b100|b200|b300|gb200|gb300|rtx pro)')
        AND process.occurred_at BETWEEN (SELECT min(now_at) FROM latest_round) - INTERVAL 1 DAY AND (SELECT horizon_at FROM dim.parameter)
    GROUP BY process.cluster, card.node
),

-- Xids of the kernel's log of which DCGM, which was looking, showed none with that number since: the log wins.
logged_xid AS (
    SELECT log.cluster, coalesce(log.device_uuid, card.device_uuid) AS device_uuid, log.code, log.occurred_at
    FROM fact.event AS log
    LEFT JOIN dim.device AS card
        ON log.device_uuid IS NULL AND card.cluster = log.cluster AND card.node = log.node AND card.pci_address = log.pci_address
        AND card.valid_to_at IS NULL
    WHERE log.kind = 'xid' AND log.source <> 'dcgm' AND log.code <> 45
),

unseen_xid AS (
    SELECT log.cluster, log.device_uuid, max(log.occurred_at) AS last_at,
        string_agg(DISTINCT CAST(log.code AS VARCHAR), ', ' ORDER BY CAST(log.code AS VARCHAR)) AS codes
    FROM logged_xid AS log
    JOIN exported ON exported.cluster = log.cluster AND exported.device_uuid = log.device_uuid
    JOIN last_sample ON last_sample.cluster = log.cluster AND last_sample.device_uuid = log.device_uuid AND last_sample.last_at > log.occurred_at
    WHERE NOT EXISTS (
            SELECT 1
            FROM fact.event AS shown
            WHERE shown.cluster = log.cluster AND shown.device_uuid = log.device_uuid AND shown.kind = 'xid_last_seen' AND shown.code = log.code
                AND shown.occurred_at >= log.occurred_at - INTERVAL 1 HOUR
        )
    GROUP BY log.cluster, log.device_uuid
),

-- Whose the processes on such a card are, by any of the names under which sources speak of a pod.
process AS (
    SELECT cluster, device_uuid, string_agg(name, ', ' ORDER BY name) AS whose, bool_or(is_named) AS is_named
    FROM (
        SELECT DISTINCT
            sample.cluster, sample.device_uuid, sample.pod_uid IS NOT NULL AS is_named,
            coalesce(
                pod.namespace || '/' || pod.pod, CASE WHEN starts_with(sample.pod_uid, 'name:') THEN substr(sample.pod_uid, 6) END,
                sample.pod_uid, 'pid ' || CAST(sample.pid AS VARCHAR)
            ) AS name
        FROM fact.process_sample AS sample
        JOIN used_by_nobody AS used ON used.cluster = sample.cluster AND used.device_uuid = sample.device_uuid
        LEFT JOIN dim.pod_alias AS named ON named.cluster = sample.cluster AND named.alias = sample.pod_uid
        LEFT JOIN dim.pod AS pod ON pod.cluster = sample.cluster AND pod.pod_uid = coalesce(named.pod_uid, sample.pod_uid)
        WHERE sample.occurred_at >= used.occurred_at - INTERVAL 1 HOUR AND sample.occurred_at <= used.occurred_at + INTERVAL 1 HOUR
    ) AS whose
    GROUP BY cluster, device_uuid
),

-- Nodes of such cards of which a list of processes was read about then, though it may name none on the card.
listed_node AS (
    SELECT DISTINCT used.cluster, used.device_uuid
    FROM used_by_nobody AS used
    JOIN dim.device AS card ON card.cluster = used.cluster AND card.node = used.node
    JOIN fact.process_sample AS sample
        ON sample.cluster = card.cluster AND sample.device_uuid = card.device_uuid
        AND sample.occurred_at BETWEEN used.occurred_at - INTERVAL 1 HOUR AND used.occurred_at + INTERVAL 1 HOUR
),

-- The pods that an exporter's rows of a card name, by the last round that named any.
label AS (
    SELECT DISTINCT cluster, device_uuid, namespace, pod, pod_uid, occurred_at
    FROM fact.partition_sample
    WHERE origin = 'dcgm_label' AND pod IS NOT NULL
        AND occurred_at >= (SELECT min(now_at) FROM latest_round) - INTERVAL 2 HOUR
    QUALIFY occurred_at = max(occurred_at) OVER (PARTITION BY cluster, device_uuid)
),

labelled_wrong AS (
    SELECT label.cluster, label.device_uuid, label.namespace, label.pod, label.occurred_at, over.ended_at
    FROM label
    JOIN latest_round ON latest_round.cluster = label.cluster AND label.occurred_at >= latest_round.now_at - INTERVAL 2 HOUR
    LEFT JOIN (
        SELECT cluster, namespace, pod, max(ended_at) AS ended_at FROM ledger.holding GROUP BY cluster, namespace, pod
    ) AS over
        ON over.cluster = label.cluster AND over.pod = label.pod AND over.namespace IS NOT DISTINCT FROM label.namespace
    WHERE EXISTS (
            SELECT 1
            FROM fact.source_status AS status
            WHERE status.cluster = label.cluster AND status.kind = 'pods' AND status.complete AND status.status = 'ok'
                AND coalesce(status.observed_to_at, status.occurred_at) >= label.occurred_at
        )
        AND NOT EXISTS (
            SELECT 1
            FROM alive
            WHERE alive.cluster = label.cluster AND alive.pod = label.pod AND coalesce(alive.namespace = label.namespace, TRUE)
                AND (alive.device_uuid = label.device_uuid OR alive.device_uuid IS NULL)
                AND alive.started_at <= label.occurred_at AND (alive.ended_at IS NULL OR alive.ended_at > label.occurred_at)
        )
),

churn AS (
    SELECT cluster, coalesce('device ' || device_uuid, 'node ' || node) AS subject, sum(count) AS events, count(DISTINCT process_name) AS names,
        min(coalesce(first_at, occurred_at)) AS first_at, max(occurred_at) AS last_at
    FROM fact.event
    WHERE kind = 'xid' AND code = 45 AND coalesce(device_uuid, node) IS NOT NULL
    GROUP BY cluster, coalesce('device ' || device_uuid, 'node ' || node)
),

found AS (
    SELECT
        cluster, 'cards_not_measured' AS code, 'warning' AS severity, 'node ' || node AS subject,
        'cards expected ' || expected || ', measured ' || found || ': a card without a series is neither idle nor gone; see that the exporter '
        || 'watches every card and, where it prints virtual GPUs, that its release (4.5.3-4.8.2 or later) prints idle ones too'
        || CASE WHEN more_by_label THEN '; cards that only a label counts stand in no supply: import nvidia-smi -L of the node' ELSE '' END AS message,
        json_object(
            'expected', expected, 'found', found, 'missing', missing, 'counted_by_label_only', more_by_label,
            'exporter_settings', 'DCGM_EXPORTER_DEVICES_STR=f', 'check', 'nvidia-smi -L on ' || node
        ) AS evidence
    FROM node_cards
    WHERE found > 0 AND found < expected
    UNION ALL
    SELECT
        cluster, 'telemetry_stale', 'warning', 'node ' || node,
        'no sample of its ' || ever_found || ' cards since ' || strftime(last_at, '%Y-%m-%dT%H:%M:%SZ')
        || ', while others were asked later: their use since then is not known; a stalled DCGM is itself a symptom, look at the cards and their Xids',
        json_object('expected', ever_found, 'found', 0, 'last_sample_at', CAST(last_at AS VARCHAR), 'check', 'kubectl logs of the exporter on ' || node)
    FROM node_cards
    WHERE found = 0 AND ever_found > 0
    UNION ALL
    SELECT
        cluster, 'node_lost_cards', 'error', 'node ' || node,
        'it lost ' || lost || ' of ' || expected || ' cards' || coalesce(' at ' || strftime(lost_at, '%Y-%m-%dT%H:%M:%SZ'), ', at a time that no line tells') || ' ('
        || coalesce(lost_reason, 'lost')
        || '): they count as out of service' || CASE WHEN lost_at IS NULL THEN ' since they are known to be' ELSE ' since' END || ', whatever the node still offers; drain and reset it',
        json_object('expected', expected, 'found', expected - lost, 'lost', lost_uuids, 'lost_at', CAST(lost_at AS VARCHAR))
    FROM node_cards
    WHERE lost > 0
    UNION ALL
    SELECT
        cluster, 'mig_instances_not_measured', 'warning', 'device ' || device_uuid,
        'instances expected ' || expected || ', seen ' || found || coalesce(' on node ' || node, '')
        || ': the use of the others is not known; restart the exporter after each change of the MIG layout',
        json_object('expected', expected, 'found', found, 'found_gi', found_gis, 'node', node)
    FROM instances_found
    WHERE found < expected
    UNION ALL
    SELECT
        cluster, 'series_vanished', 'warning', 'dcgm ' || scope,
        'fields ' || string_agg(CAST(number AS VARCHAR), ', ' ORDER BY number) || ' have no row any more, last seen '
        || strftime(max(printed_at), '%Y-%m-%dT%H:%M:%SZ') || coalesce(' from ' || max(printed_by), '') || coalesce(', now ' || max(exporter_version), '')
        || ': what they told is not known, and absent is not healthy; compare with the release before, read Xids from the kernel log',
        json_object(
            'expected', string_agg(CAST(number AS VARCHAR), ',' ORDER BY number), 'found', '', 'version_before', max(printed_by),
            'version_now', max(exporter_version), 'driver_version', max(driver_version), 'last_seen_at', CAST(max(printed_at) AS VARCHAR),
            'csv_lines', string_agg(csv_line, chr(10) ORDER BY number)
        )
    FROM absent
    WHERE printed_at IS NOT NULL
    GROUP BY cluster, scope
    UNION ALL
    SELECT
        cluster, 'series_missing', CASE WHEN bool_or(is_stock) THEN 'warning' ELSE 'info' END, 'dcgm ' || scope,
        'fields ' || string_agg(CAST(number AS VARCHAR), ', ' ORDER BY number) || ' have no row'
        || coalesce(' from ' || max(exporter_version), '') || ', so these are not known: ' || string_agg(says, '; ' ORDER BY number)
        || '; add their lines to the exporter''s CSV',
        json_object(
            'expected', (SELECT count(*) FROM needed_field), 'found', (SELECT count(*) FROM needed_field) - count(*),
            'missing', string_agg(CAST(number AS VARCHAR), ',' ORDER BY number),
            'version_now', max(exporter_version), 'csv_lines', string_agg(csv_line, chr(10) ORDER BY number)
        )
    FROM absent
    WHERE printed_at IS NULL
    GROUP BY cluster, scope
    UNION ALL
    SELECT
        used.cluster, 'used_without_holder', 'warning', 'device ' || used.device_uuid,
        'it is at work and nobody holds it: used by an unallocated process'
        || CASE
            WHEN process.is_named THEN ' (' || process.whose || ')'
            WHEN process.whose IS NOT NULL THEN ' (' || process.whose || '); whose it is, the agent on its node tells: it reads the cgroup of a pid'
            WHEN listed_node.cluster IS NOT NULL
                THEN '; the process lists of its node name none on it: look on the node itself, as root (nvidia-smi -q -d PIDS; fuser -v /dev/nvidia*)'
            ELSE '; import nvidia-smi process lists of its node to learn whose'
        END,
        json_object(
            'node', used.node, 'util_gpu_ratio', used.util_ratio, 'gr_active_ratio', used.gr_ratio, 'memory_used_mib', used.memory_mib,
            'seen_at', CAST(used.occurred_at AS VARCHAR), 'processes', process.whose
        )
    FROM used_by_nobody AS used
    LEFT JOIN process ON process.cluster = used.cluster AND process.device_uuid = used.device_uuid
    LEFT JOIN listed_node ON listed_node.cluster = used.cluster AND listed_node.device_uuid = used.device_uuid
    UNION ALL
    SELECT
        cluster, 'orphaned_memory', 'warning', 'device ' || device_uuid,
        coalesce(CAST(memory_mib AS VARCHAR) || ' MiB in use', 'at work') || ' without a living process and without a holder'
        || coalesce('; last owner ' || coalesce(namespace || '/', '') || pod || ', ended ' || strftime(ended_at, '%Y-%m-%dT%H:%M:%SZ'), '; no owner is known')
        || ': nobody is charged for it; the node needs cleaning (a process in state D, a stale client of the driver, else a reset of the card)',
        json_object(
            'node', node, 'memory_used_mib', memory_mib, 'util_gpu_ratio', util_ratio, 'seen_at', CAST(occurred_at AS VARCHAR),
            'processes_looked_at', CAST(looked_at AS VARCHAR), 'last_owner', coalesce(namespace || '/', '') || pod,
            'last_owner_ended_at', CAST(ended_at AS VARCHAR), 'check', 'fuser -v /dev/nvidia* on ' || node
        )
    FROM orphan
    UNION ALL
    SELECT
        cluster, 'prof_suspect_profiler', 'warning', 'node ' || node,
        'a profiler (' || process_name || ') runs on it: before Hopper it takes the profiling counters of all cards of the node, which then read 0 or nothing; '
        || 'what 1001 to 1005 say of that time is not to be trusted',
        json_object(
            'process_name', process_name, 'first_at', CAST(first_at AS VARCHAR), 'last_at', CAST(last_at AS VARCHAR), 'devices', cards,
            'check', 'ps -e on ' || node
        )
    FROM profiler
    UNION ALL
    SELECT
        cluster, 'xid_not_seen_by_dcgm', 'info', 'device ' || device_uuid,
        'the kernel''s log has Xid ' || codes || ', DCGM did not see it: its gauge keeps one number and hides others, so the log counts',
        json_object('codes', codes, 'last_at', CAST(last_at AS VARCHAR), 'check', 'dmesg | grep Xid')
    FROM unseen_xid
    UNION ALL
    SELECT
        cluster, 'label_without_holding', 'info', 'device ' || device_uuid,
        'the exporter names a pod that does not hold it' || CASE WHEN count(ended_at) > 0 THEN ' (it ended): a finished pod is charged to its end only' ELSE '' END
        || ': ' || string_agg(coalesce(namespace || '/', '') || pod, ', ' ORDER BY pod),
        json_object('pods', string_agg(coalesce(namespace || '/', '') || pod, ',' ORDER BY pod), 'ended_at', CAST(max(ended_at) AS VARCHAR))
    FROM labelled_wrong
    GROUP BY cluster, device_uuid
    UNION ALL
    SELECT
        cluster, 'xid_45_counted_apart', 'info', subject,
        CAST(events AS VARCHAR) || ' Xid 45: channels that were torn down because a process ended; they are counted apart and are no fault of the card',
        json_object('count', events, 'first_at', CAST(first_at AS VARCHAR), 'last_at', CAST(last_at AS VARCHAR))
    FROM churn
)

SELECT
    found.cluster,
    'ledger.telemetry' AS source,
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

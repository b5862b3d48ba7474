-- What the holding ledger found about its own grounds: claims it could not book, or booked in suspense, and sources that disagree.
WITH named AS (
  SELECT c.*, 'pod ' || coalesce(d.namespace || '/', '') || coalesce(d.pod, c.pod_uid) AS subject
  FROM dim.claim AS c
  LEFT JOIN dim.pod AS d ON d.cluster = c.cluster AND d.pod_uid = c.pod_uid
),
granted AS (
  SELECT g.*, 'pod ' || coalesce(d.namespace || '/', '') || coalesce(d.pod, g.pod_uid) AS subject
  FROM dim."grant" AS g
  LEFT JOIN dim.pod AS d ON d.cluster = g.cluster AND d.pod_uid = g.pod_uid
),
placed AS (
  SELECT DISTINCT cluster, pod_uid, container, device_uuid, standing, subject
  FROM granted
  WHERE device_uuid IS NOT NULL AND standing <> 'refused'
),
disagreements AS (
  SELECT
    k.cluster, k.subject, k.pod_uid,
    string_agg(DISTINCT k.device_uuid, ',' ORDER BY k.device_uuid) AS other_uuids
  FROM (
    SELECT DISTINCT cluster, pod_uid, container, device_uuid, subject
    FROM granted
    WHERE scheme = 'pod_resources' AND standing = 'weaker' AND device_uuid IS NOT NULL
  ) AS k
  WHERE EXISTS (
    SELECT 1 FROM placed AS p
    WHERE p.cluster = k.cluster AND p.pod_uid = k.pod_uid AND p.container IN (k.container, '*') AND p.standing IN ('counts', 'suspect')
  ) AND NOT EXISTS (
    SELECT 1 FROM placed AS p
    WHERE p.cluster = k.cluster AND p.pod_uid = k.pod_uid AND p.container IN (k.container, '*')
      AND p.standing IN ('counts', 'suspect') AND p.device_uuid = k.device_uuid
  )
  GROUP BY k.cluster, k.subject, k.pod_uid
),
stamps AS (
  SELECT cluster, pod_uid, 'pod ' || namespace || '/' || pod AS subject, created_at, 'PodScheduled' AS what, scheduled_at AS stamp_at
  FROM dim.pod_life
  UNION ALL
  SELECT cluster, pod_uid, 'pod ' || namespace || '/' || pod, created_at, 'status.startTime', started_at FROM dim.pod_life
  UNION ALL
  SELECT g.cluster, g.pod_uid, g.subject, p.created_at, coalesce(g.bind_basis, 'bind stamp'), g.bound_at
  FROM granted AS g
  JOIN dim.pod_life AS p ON p.cluster = g.cluster AND p.pod_uid = g.pod_uid
  UNION ALL
  SELECT g.cluster, g.pod_uid, g.subject, p.created_at, 'reservation stamp', g.reserved_at
  FROM granted AS g
  JOIN dim.pod_life AS p ON p.cluster = g.cluster AND p.pod_uid = g.pod_uid
),
figures AS (
  SELECT DISTINCT cluster, 'device ' || device_uuid AS subject, memory_mib
  FROM fact.device
  WHERE memory_mib NOT BETWEEN 1 AND 100000000
),
outside AS (
  SELECT cluster, 'device ' || device_uuid AS subject, occurred_at
  FROM fact.device
  WHERE occurred_at NOT BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
  UNION ALL
  SELECT cluster, 'samples of device ' || device_uuid, occurred_at
  FROM fact.device_sample
  WHERE occurred_at > (SELECT horizon_at FROM dim.parameter)
  UNION ALL
  SELECT cluster, 'samples of device ' || device_uuid, occurred_at
  FROM fact.device_sample
  WHERE occurred_at < (SELECT history_from_at FROM dim.parameter)
  UNION ALL
  SELECT cluster, 'process samples of device ' || coalesce(device_uuid, 'unknown'), occurred_at
  FROM fact.process_sample
  WHERE occurred_at NOT BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
),
found AS (
  SELECT
    cluster, 'interval_unknown' AS code, 'warning' AS severity, subject,
    'it held a card and ended, and nothing says from when to when: its interval is not booked' AS message,
    json_object('pod_uid', pod_uid, 'places', string_agg(DISTINCT place_id, ',' ORDER BY place_id)) AS evidence
  FROM named
  WHERE state = 'unknown'
  GROUP BY cluster, subject, pod_uid
  UNION ALL
  SELECT
    cluster, 'end_before_start', 'warning', subject, 'its end lies before its start: its interval is not booked',
    json_object('pod_uid', pod_uid, 'started_at', CAST(min(claimed_from_at) AS VARCHAR), 'ended_at', CAST(max(claimed_to_at) AS VARCHAR))
  FROM named
  WHERE state = 'contradicts'
  GROUP BY cluster, subject, pod_uid
  UNION ALL
  SELECT
    cluster, 'share_unknown', 'warning', subject, 'the share of its card is not known; it is booked with what it takes at least',
    json_object('pod_uid', pod_uid, 'place', place_id, 'at_least_ppm', max(level0_at_least_ppm))
  FROM named
  WHERE state IN ('held', 'reserved') AND (
    (NOT pooled AND level0_share_ppm IS NULL)
    OR (pooled AND share_vgpu_ppm(level0_memory_mib, physical_memory_mib, level0_cores_percent) IS NULL)
  )
  GROUP BY cluster, subject, pod_uid, place_id
  UNION ALL
  SELECT
    cluster, 'grant_larger_than_request', 'error', subject,
    'the allocation is larger than the request on a card that is not in MIG mode: held in suspense, in no total',
    json_object(
      'pod_uid', pod_uid, 'container', container, 'device_uuid', device_uuid,
      'granted_memory_mib', memory_mib, 'requested_memory_mib', allowed_memory_mib,
      'granted_cores_percent', cores_percent, 'requested_cores_percent', requested_cores_percent
    )
  FROM granted
  WHERE larger_than_request AND standing = 'suspect'
  UNION ALL
  SELECT
    cluster, 'claim_in_suspense', 'warning', subject,
    'its claim is not accepted (' || coalesce(max(claim_reason), 'no reason given') || '): it occupies its card in no total',
    json_object('pod_uid', pod_uid)
  FROM granted
  WHERE standing = 'suspect' AND NOT larger_than_request
  GROUP BY cluster, subject, pod_uid
  UNION ALL
  SELECT
    cluster, 'grant_unreadable', 'warning', subject,
    'its claim names no readable device (' || coalesce(max(claim_reason), 'no reason given') || '): it is in no total',
    json_object('pod_uid', pod_uid, 'container', container)
  FROM granted
  WHERE standing = 'unreadable'
  GROUP BY cluster, subject, pod_uid, container
  UNION ALL
  SELECT
    cluster, 'gpu_request_without_grant', 'warning', subject,
    'it asks for a card on a node whose cards a sharing layer hands out, and no such grant exists: it is in no total',
    json_object('pod_uid', pod_uid, 'container', container, 'node', max(node), 'resource_name', max(resource_name))
  FROM granted
  WHERE standing = 'without_grant'
  GROUP BY cluster, subject, pod_uid, container
  UNION ALL
  SELECT
    cluster, 'grant_sources_disagree', 'warning', subject,
    'the kubelet names other cards than the grant that counts',
    json_object('pod_uid', pod_uid, 'kubelet_device_uuids', other_uuids)
  FROM disagreements
  UNION ALL
  SELECT DISTINCT
    cluster, 'stamp_before_creation', 'warning', subject, what || ' lies before the creation of the object: it is left out',
    json_object('pod_uid', pod_uid, 'created_at', CAST(created_at AS VARCHAR), 'stamp_at', CAST(stamp_at AS VARCHAR))
  FROM stamps
  WHERE stamp_at < created_at
  UNION ALL
  SELECT
    cluster, 'stamp_implausible', 'warning', 'pod ' || namespace || '/' || pod,
    'a stamp lies before 2010 or more than a day after the pod was last seen: it is left out', json_object('pod_uid', pod_uid)
  FROM dim.pod_life
  WHERE stamps_refused
  UNION ALL
  SELECT
    cluster, 'stamp_implausible', 'warning', subject,
    'it is stamped more than a day after everything was observed, or longer ago than is posted: it is left out',
    json_object('stamped_at', CAST(max(occurred_at) AS VARCHAR), 'first_stamped_at', CAST(min(occurred_at) AS VARCHAR), 'rows', count(*))
  FROM outside
  GROUP BY cluster, subject
  UNION ALL
  SELECT
    'default', 'agent_clock_ahead', 'error', 'node agents',
    'an agent observed something more than a day after now: its facts of that time count for nothing; set the clock of the node',
    json_object('latest_observed_at', CAST(ahead_at AS VARCHAR))
  FROM dim.parameter
  WHERE ahead_at IS NOT NULL
  UNION ALL
  SELECT
    'default', 'server_clock_behind', 'error', 'server',
    'its clock lies more than a day before what was observed here: the ledgers speak as of the latest observation; set the clock and see that NTP runs',
    json_object('clock_at', CAST(clock_behind_at AS VARCHAR), 'as_of', CAST(as_of_at AS VARCHAR))
  FROM dim.parameter
  WHERE clock_behind_at IS NOT NULL
  UNION ALL
  SELECT
    cluster, 'node_vanished', 'warning', 'node ' || node,
    'a later complete listing of nodes does not name it: its cards count up to their last sighting and take no pod',
    json_object('last_seen_at', CAST(last_seen_at AS VARCHAR), 'gone_by_at', CAST(gone_by_at AS VARCHAR))
  FROM dim.node
  WHERE gone_by_at IS NOT NULL
  UNION ALL
  SELECT
    cluster, 'card_vanished', 'warning', 'device ' || device_uuid,
    'a later listing of the cards of its node does not name it: it counts up to its last sighting and takes no pod',
    json_object('node', node, 'last_seen_at', CAST(last_seen_at AS VARCHAR), 'gone_by_at', CAST(gone_by_at AS VARCHAR))
  FROM dim.device
  WHERE gone_code = 'card_vanished'
  UNION ALL
  SELECT
    cluster, 'device_memory_implausible', 'warning', subject, 'a memory that no card can have: it is taken as not known',
    json_object('memory_mib', memory_mib)
  FROM figures
)
SELECT
  f.cluster,
  'ledger.holding' AS source,
  f.code || '/' || f.subject AS natural_key,
  m.as_of_at AS occurred_at,
  m.as_of_at AS observed_at,
  f.code,
  f.severity,
  f.subject,
  f.message,
  CAST(f.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file,
  CAST(NULL AS BIGINT) AS line,
  CAST(NULL AS VARCHAR) AS excerpt
FROM found AS f
CROSS JOIN dim.parameter AS m

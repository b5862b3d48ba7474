-- One row per change of the rules of queues and quotas that the audit log tells: who, when, and what stood there before and after. who: on whose behalf it was
-- done, the one who was impersonated, else the user; done_by: the user, where that is somebody else. before, after: JSON; of an audit event the spec as it
-- was answered, else as it was asked for (a patch: only what it changes). basis: `answer`, `request`, `event_before` (what the event before left), `object`
-- (quota as it was last seen before, first seen after), NULL = not known, with the reason in before_unknown, after_unknown.
WITH changes AS (
  SELECT
    cluster, audit_id, occurred_at, verb, "user", impersonated_user, user_agent, field_manager, resource, namespace, name, response_code,
    CASE WHEN json_type(details, '$.spec_after') IS NOT NULL THEN json_extract(details, '$.spec_after') END AS answered,
    CASE WHEN json_type(details, '$.spec') IS NOT NULL THEN json_extract(details, '$.spec') END AS asked,
    coalesce(json_extract_string(details, '$.cut') IS NOT NULL, FALSE) AS was_cut,
    CASE resource
      WHEN 'clusterqueues' THEN 'cluster_queue' WHEN 'localqueues' THEN 'local_queue' WHEN 'cohorts' THEN 'cohort' WHEN 'resourceflavors' THEN 'flavor'
      WHEN 'resourcequotas' THEN 'resource_quota' WHEN 'queues' THEN 'volcano_queue' WHEN 'workloadpriorityclasses' THEN 'priority_class'
      WHEN 'priorityclasses' THEN 'priority_class' WHEN 'admissionchecks' THEN 'admission_check' WHEN 'topologies' THEN 'topology'
    END AS queue_kind
  FROM fact.audit_event
  WHERE stage = 'ResponseComplete' AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection') AND subresource IS NULL
    AND response_code BETWEEN 200 AND 299
    AND (
      api_group = 'kueue.x-k8s.io' AND resource IN ('clusterqueues', 'localqueues', 'cohorts', 'resourceflavors', 'workloadpriorityclasses', 'admissionchecks', 'topologies')
      OR api_group = 'scheduling.volcano.sh' AND resource = 'queues'
      OR coalesce(api_group, '') = '' AND resource = 'resourcequotas'
      OR api_group = 'scheduling.k8s.io' AND resource = 'priorityclasses'
    )
),
-- A body that the audit policy elided, or that was too large, says nothing.
told AS (
  SELECT
    *, CASE WHEN NOT contains(CAST(answered AS VARCHAR), '<elided>') THEN answered END AS answered_whole,
    CASE WHEN NOT contains(CAST(asked AS VARCHAR), '<elided>') THEN asked END AS asked_whole,
    coalesce(contains(CAST(answered AS VARCHAR), '<elided>') OR contains(CAST(asked AS VARCHAR), '<elided>'), FALSE) AS was_elided
  FROM changes
),
chained AS (
  SELECT
    *,
    lag(coalesce(answered_whole, CASE WHEN verb IN ('create', 'update') THEN asked_whole END)) OVER object_events AS left_before,
    lag(verb) OVER object_events AS verb_before
  FROM told
  WINDOW object_events AS (PARTITION BY cluster, resource, namespace, name ORDER BY occurred_at, audit_id)
),
-- Quota as objects tell it, sighting by sighting.
sighted AS (
  SELECT
    cluster, queue_kind, queue, namespace, occurred_at,
    to_json(map_from_entries(list(
      {
        'key': coalesce(flavor || '/', '') || resource,
        'value': json_merge_patch('{}', json_object( -- which leaves out what is not said
          'nominal_milli', nominal_milli, 'borrowing_limit_milli', borrowing_limit_milli, 'lending_limit_milli', lending_limit_milli, 'deserved_milli',
          deserved_milli, 'guarantee_milli', guarantee_milli, 'capability_milli', capability_milli
        ))
      }
      ORDER BY coalesce(flavor || '/', '') || resource
    ))) AS quota
  FROM fact.quota
  WHERE queue_kind <> 'tenant' AND (queue_kind, queue) IN (SELECT (queue_kind, name) FROM changes)
  GROUP BY cluster, queue_kind, queue, namespace, occurred_at
),
with_before AS (
  SELECT c.*, s.quota AS seen_before, s.occurred_at AS seen_before_at
  FROM chained AS c
  ASOF LEFT JOIN sighted AS s
    ON s.cluster = c.cluster AND s.queue_kind = c.queue_kind AND s.queue = c.name AND coalesce(s.namespace, '') = coalesce(c.namespace, '')
    AND c.occurred_at > s.occurred_at
),
with_after AS (
  SELECT
    c.*, s.quota AS seen_after, s.occurred_at AS seen_after_at,
    lead(c.occurred_at) OVER (PARTITION BY c.cluster, c.resource, c.namespace, c.name ORDER BY c.occurred_at, c.audit_id) AS next_change_at
  FROM with_before AS c
  ASOF LEFT JOIN sighted AS s
    ON s.cluster = c.cluster AND s.queue_kind = c.queue_kind AND s.queue = c.name AND coalesce(s.namespace, '') = coalesce(c.namespace, '')
    AND c.occurred_at <= s.occurred_at
)
SELECT
  cluster, occurred_at AS changed_at, coalesce(impersonated_user, "user") AS who,
  CASE WHEN impersonated_user IS NOT NULL AND impersonated_user <> "user" THEN "user" END AS done_by, verb, queue_kind, namespace, name AS queue,
  coalesce(
    CASE WHEN verb <> 'create' THEN CAST(left_before AS VARCHAR) END, CASE WHEN verb <> 'create' THEN CAST(seen_before AS VARCHAR) END
  ) AS before,
  CASE WHEN verb = 'create' THEN NULL WHEN left_before IS NOT NULL THEN 'event_before' WHEN seen_before IS NOT NULL THEN 'object' END AS before_basis,
  CASE
    WHEN verb = 'create' THEN 'it was not there' WHEN left_before IS NULL AND seen_before IS NULL THEN 'neither an event nor a sighting before it tells'
  END AS before_unknown,
  coalesce(
    CAST(answered_whole AS VARCHAR), CAST(asked_whole AS VARCHAR),
    CASE WHEN verb NOT LIKE 'delete%' AND coalesce(seen_after_at < next_change_at, TRUE) THEN CAST(seen_after AS VARCHAR) END
  ) AS after,
  CASE
    WHEN answered_whole IS NOT NULL THEN 'answer' WHEN asked_whole IS NOT NULL THEN 'request'
    WHEN verb NOT LIKE 'delete%' AND seen_after IS NOT NULL AND coalesce(seen_after_at < next_change_at, TRUE) THEN 'object'
  END AS after_basis,
  CASE
    WHEN answered_whole IS NOT NULL OR asked_whole IS NOT NULL THEN NULL
    WHEN verb LIKE 'delete%' THEN 'it is there no more'
    WHEN was_elided THEN 'the audit log left its body out'
    WHEN was_cut THEN 'its body was too large to be kept'
    ELSE 'the audit policy keeps no bodies'
  END AS after_unknown,
  user_agent
FROM with_after

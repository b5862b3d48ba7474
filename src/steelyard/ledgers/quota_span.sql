-- Stretches of each key in which nothing of its balance changes: what was told, with what our own books know in its place. used: what pods hold
-- where they are known, else what the controller or trace claims (used_basis); idle may be below 0: so much more than its own is taken.
WITH
ours AS (
  SELECT DISTINCT key_no FROM dim.quota_use
),
cut AS (
  SELECT key_no, from_us AS at_us FROM dim.quota_told SEMI JOIN ours USING (key_no)
  UNION
  SELECT key_no, to_us FROM dim.quota_told SEMI JOIN ours USING (key_no)
  UNION
  SELECT key_no, from_us FROM dim.quota_use
  UNION
  SELECT key_no, to_us FROM dim.quota_use
),
piece AS (
  SELECT key_no, at_us, lead(at_us) OVER (PARTITION BY key_no ORDER BY at_us) AS next_us FROM cut
),
laid AS (
  SELECT
    told.key_no, told.from_us, told.to_us, told.nominal_milli, told.reserved_milli, told.used_milli AS claimed_milli, told.pending_milli,
    told.idle_milli, CAST(NULL AS BIGINT) AS held_milli, CAST(NULL AS BIGINT) AS leaked_milli, CAST(NULL AS BIGINT) AS waiting_milli
  FROM dim.quota_told AS told
  ANTI JOIN ours ON ours.key_no = told.key_no
  UNION ALL
  SELECT
    piece.key_no, piece.at_us, piece.next_us, told.nominal_milli, told.reserved_milli, told.used_milli, told.pending_milli, told.idle_milli,
    CASE WHEN own.to_us >= piece.next_us THEN own.held_milli END, CASE WHEN own.to_us >= piece.next_us THEN own.leaked_milli END,
    CASE WHEN own.to_us >= piece.next_us THEN own.waiting_milli END
  FROM piece
  ASOF JOIN dim.quota_told AS told ON told.key_no = piece.key_no AND piece.at_us >= told.from_us
  ASOF LEFT JOIN dim.quota_use AS own ON own.key_no = piece.key_no AND piece.at_us >= own.from_us
  WHERE piece.next_us <= told.to_us
),
-- A cohort's own quota is used by its queues alone: of itself it reserves, uses and waits for nothing.
weighed AS (
  SELECT
    laid.key_no, laid.from_us, laid.to_us, laid.nominal_milli, laid.idle_milli, laid.claimed_milli, laid.held_milli, laid.leaked_milli,
    key.pool_no, key.shares, none.none_milli,
    coalesce(laid.reserved_milli, none.none_milli) AS reserved_milli,
    coalesce(laid.held_milli, laid.claimed_milli, none.none_milli) AS used_milli,
    coalesce(laid.waiting_milli, laid.pending_milli, none.none_milli) AS pending_milli,
    CASE WHEN held_milli IS NOT NULL THEN 'holding' WHEN claimed_milli IS NOT NULL THEN 'claimed' END AS used_basis
  FROM laid
  JOIN dim.quota_key AS key ON key.key_no = laid.key_no
  LEFT JOIN (SELECT 'cohort' AS queue_kind, 0 AS none_milli) AS none ON none.queue_kind = key.queue_kind
)
SELECT
  key_no, pool_no, shares, from_us, to_us, nominal_milli, reserved_milli, used_milli, used_basis, claimed_milli,
  CASE WHEN shares THEN above_milli(used_milli, nominal_milli) ELSE 0 * above_milli(used_milli, nominal_milli) END AS borrowed_milli,
  CASE WHEN shares THEN 0 * above_milli(used_milli, nominal_milli) ELSE above_milli(used_milli, nominal_milli) END AS over_nominal_milli,
  reserved_not_used_milli(reserved_milli, used_milli) AS reserved_not_used_milli,
  coalesce(leaked_milli, none_milli) AS leaked_milli, pending_milli,
  coalesce(idle_milli, spare_milli(nominal_milli, reserved_milli, used_milli)) AS idle_milli
FROM weighed

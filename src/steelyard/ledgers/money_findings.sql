-- What the money ledgers found about their own grounds: price lines of which nobody can tell which is meant, components in two currencies, prices that begin within a grain, what has no
-- price, holders that the tenancy tree does not name, and (it must never be) grains in which the accounts do not add up to the supply.
WITH
speaking AS (
    SELECT as_of_at, grain_us FROM dim.parameter
),

named AS (
    SELECT
        profile_no, cluster,
        side || ' price of ' || coalesce(model, 'a card of unknown model') || CASE WHEN commitment IS NULL THEN '' ELSE ', ' || commitment END
        || CASE WHEN side = 'cost' THEN '' ELSE ', ' || coalesce(unit_kind, 'unit unknown') END || CASE WHEN tenant IS NULL THEN '' ELSE ', tenant ' || tenant END
        AS subject
    FROM dim.price_profile
),

ambiguous AS (
    SELECT named.cluster, named.subject, min(part.price_ids) AS price_ids, min(part.component) AS component
    FROM dim.price_part AS part
    JOIN named ON named.profile_no = part.profile_no
    WHERE part.alike > 1
    GROUP BY named.cluster, named.subject
),

mixed AS (
    SELECT DISTINCT named.cluster, named.subject
    FROM dim.price_rate AS rate
    JOIN named ON named.profile_no = rate.profile_no
    WHERE rate.unpriced_reason = 'two currencies'
),

contested AS (
    SELECT DISTINCT named.cluster, named.subject
    FROM dim.price_rate AS rate
    JOIN named ON named.profile_no = rate.profile_no
    WHERE rate.unpriced_reason = 'discount ambiguous'
),

unpriced AS (
    SELECT cluster, 'cost' AS book, unpriced_reason, count(DISTINCT place_id) AS places_count, CAST(sum(amount_gpu_us) AS BIGINT) AS gpu_us
    FROM ledger.cost
    WHERE unpriced_reason IS NOT NULL
    GROUP BY cluster, unpriced_reason
    UNION ALL
    SELECT cluster, 'charge', unpriced_reason, count(DISTINCT place_id), CAST(sum(quantity_gpu_us) AS BIGINT)
    FROM ledger.charge
    WHERE unpriced_reason IS NOT NULL
    GROUP BY cluster, unpriced_reason
),

late_line AS (
    SELECT DISTINCT profile.cluster, line.book, line.price_id
    FROM dim.price_line AS line
    CROSS JOIN speaking
    CROSS JOIN (SELECT DISTINCT cluster FROM dim.price_profile) AS profile
    WHERE (line.from_us > -4611686018427387904 AND line.from_us % speaking.grain_us <> 0) OR (line.to_us < 4611686018427387904 AND line.to_us % speaking.grain_us <> 0)
),

stray AS (
    SELECT holder.cluster, holder.tenant, count(DISTINCT holder.pod_uid) AS pods_count
    FROM dim.money_holder AS holder
    CROSS JOIN (SELECT version FROM fact.tenancy LIMIT 1) AS tree
    LEFT JOIN dim.tenancy_pod AS belongs
        ON belongs.cluster = holder.cluster AND belongs.pod_uid = holder.pod_uid AND belongs.from_us < holder.end_us AND belongs.to_us > holder.bound_us
    WHERE belongs.pod_uid IS NULL
    GROUP BY holder.cluster, holder.tenant
),

open_book AS (
    SELECT supplied.cluster, min(supplied.grain_at) AS grain_at, CAST(sum(abs(supplied.gpu_us - booked.gpu_us)) AS BIGINT) AS residual_gpu_us
    FROM (
        SELECT cluster, grain_at, sum(amount_gpu_us) AS gpu_us FROM ledger.supply WHERE account = 'supply' GROUP BY cluster, grain_at
    ) AS supplied
    JOIN (SELECT cluster, grain_at, sum(amount_gpu_us) AS gpu_us FROM ledger.cost GROUP BY cluster, grain_at) AS booked
        ON booked.cluster = supplied.cluster AND booked.grain_at = supplied.grain_at
    WHERE supplied.gpu_us <> booked.gpu_us
    GROUP BY supplied.cluster
),

found AS (
    SELECT
        ambiguous.cluster, 'price_ambiguous' AS code, 'warning' AS severity, ambiguous.subject,
        'price lines that are named alike hold at the same time: nobody can tell which is meant, so the part is unpriced' AS message,
        CAST(json_object('component', ambiguous.component, 'price_ids', ambiguous.price_ids) AS VARCHAR) AS evidence
    FROM ambiguous
    UNION ALL
    SELECT
        mixed.cluster, 'price_in_two_currencies', 'warning', mixed.subject,
        'the components of its price are in more than one currency, so it is unpriced', '{}'
    FROM mixed
    UNION ALL
    SELECT
        contested.cluster, 'discount_ambiguous', 'warning', contested.subject,
        'discounts that are named alike hold at the same time: nobody can tell which is meant, so the part is unpriced', '{}'
    FROM contested
    UNION ALL
    SELECT
        unpriced.cluster, 'unpriced', 'warning', unpriced.book || ': ' || unpriced.unpriced_reason,
        'no money is booked for it: the price book says nothing that holds here',
        CAST(json_object('gpu_hours', round(unpriced.gpu_us / 3600000000.0, 3), 'places', unpriced.places_count) AS VARCHAR)
    FROM unpriced
    UNION ALL
    SELECT
        late_line.cluster, 'price_within_a_grain', 'info', late_line.book || '/' || late_line.price_id,
        'it begins or ends within a grain of the ledgers: what holds at the start of a grain counts for all of it', '{}'
    FROM late_line
    UNION ALL
    SELECT
        stray.cluster, 'tenancy_unmapped', 'info', 'tenant ' || stray.tenant,
        'no line of the tenancy tree names pods of it that held cards: they are unmapped', CAST(json_object('pods', stray.pods_count) AS VARCHAR)
    FROM stray
    UNION ALL
    SELECT
        open_book.cluster, 'money_residual', 'error', 'cost ledger of cluster ' || open_book.cluster,
        'its accounts do not add up to the supply: this is a defect of the ledger',
        CAST(json_object('first', CAST(open_book.grain_at AS VARCHAR), 'residual_gpu_us', open_book.residual_gpu_us) AS VARCHAR)
    FROM open_book
)

SELECT
    found.cluster,
    'ledger.cost' AS source,
    found.code || '/' || found.subject AS natural_key,
    speaking.as_of_at AS occurred_at,
    speaking.as_of_at AS observed_at,
    found.code,
    found.severity,
    found.subject,
    found.message,
    found.evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN speaking
WHERE speaking.as_of_at IS NOT NULL

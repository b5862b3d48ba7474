-- The price lines in force: all of the highest version of each book. A line stands once, whoever declared it how often.
-- words: what must occur in a card's model. specificity: how closely it is named (definitions.money). price_micro NULL: stated as not known, or beyond what
-- can be a price. Times are microseconds since 1970; the ends of time stand as -2^62 and 2^62.
WITH latest AS (
  SELECT book, max(version) AS version
  FROM (
    SELECT book, version FROM fact.price_book
    UNION ALL
    SELECT book, version FROM fact.price
  ) AS named
  GROUP BY book
),
line AS (
  SELECT DISTINCT
    price.book, price.version, price.price_id, price.side, price.component, price.for_cluster, price.model, price.unit_kind, price.commitment,
    CASE WHEN price.side = 'charge' THEN price.tenant END AS tenant, price.currency, price.price_micro AS stated_micro,
    CASE WHEN price.price_micro BETWEEN 0 AND 1000000000000000 THEN price.price_micro END AS price_micro, price.per, price.provisional,
    coalesce(epoch_us(price.valid_from_at), -4611686018427387904) AS from_us, coalesce(epoch_us(price.valid_to_at), 4611686018427387904) AS to_us,
    CASE WHEN price.model IS NULL THEN [] ELSE model_words(price.model) END AS words
  FROM fact.price AS price
  JOIN latest ON latest.book = price.book AND latest.version = price.version
  WHERE price.per IN ('hour', 'day', 'month', 'year') AND (price.side = 'charge' OR price.tenant IS NULL)
)
SELECT
  *, CAST(price_specificity(tenant, for_cluster, len(words), unit_kind, commitment) AS BIGINT) AS specificity
FROM line
WHERE to_us > from_us

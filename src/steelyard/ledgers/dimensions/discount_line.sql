-- The discounts in force: all of the highest version of each book. specificity: model (more words), then commitment.
-- Times are microseconds since 1970; the ends of time stand as -2^62 and 2^62.
WITH latest AS (
  SELECT book, max(version) AS version
  FROM (
    SELECT book, version FROM fact.price_book
    UNION ALL
    SELECT book, version FROM fact.discount
  ) AS named
  GROUP BY book
)
SELECT DISTINCT
  discount.book, discount.version, discount.tenant, discount.discount_ppm, discount.commitment,
  coalesce(epoch_us(discount.valid_from_at), -4611686018427387904) AS from_us,
  coalesce(epoch_us(discount.valid_to_at), 4611686018427387904) AS to_us,
  CASE WHEN discount.model IS NULL THEN [] ELSE model_words(discount.model) END AS words,
  CAST(
    price_specificity(NULL, NULL, CASE WHEN discount.model IS NULL THEN 0 ELSE len(model_words(discount.model)) END, NULL, discount.commitment) AS BIGINT
  ) AS specificity
FROM fact.discount AS discount
JOIN latest ON latest.book = discount.book AND latest.version = discount.version
WHERE discount.discount_ppm BETWEEN 0 AND 1000000

-- The price lines of one version of a book, each once, whoever declared it how often.
SELECT DISTINCT
  book, version, price_id, side, component, for_cluster AS cluster, model, unit_kind, commitment, tenant, currency, price_micro, per,
  epoch_us(valid_from_at) AS valid_from, epoch_us(valid_to_at) AS valid_to, provisional
FROM fact.price
WHERE book = $book AND version = $version
ORDER BY ALL

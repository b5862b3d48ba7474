-- The discounts of one version of a book.
SELECT DISTINCT
  book, version, tenant, discount_ppm, model, commitment, epoch_us(valid_from_at) AS valid_from, epoch_us(valid_to_at) AS valid_to
FROM fact.discount
WHERE book = $book AND version = $version
ORDER BY ALL

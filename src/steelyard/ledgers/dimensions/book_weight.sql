-- The weights of the books in force, in the order in which they count: those of more words before those of fewer.
SELECT weight.model, weight.weight_ppm, weight.valid_from_at, weight.valid_to_at
FROM (
  SELECT DISTINCT book, version, model, weight_ppm, valid_from_at, valid_to_at FROM fact.book_weight
) AS weight
JOIN (
  SELECT book, max(version) AS version
  FROM (
    SELECT book, version FROM fact.price_book
    UNION ALL
    SELECT book, version FROM fact.book_weight
  ) AS named
  GROUP BY book
) AS latest ON latest.book = weight.book AND latest.version = weight.version
ORDER BY len(model_words(weight.model)) DESC, weight.model, weight.valid_from_at DESC NULLS LAST, weight.valid_to_at, weight.weight_ppm, weight.book

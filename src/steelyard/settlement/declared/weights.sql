-- The weights of one version of a book.
SELECT DISTINCT book, version, model, weight_ppm, epoch_us(valid_from_at) AS valid_from, epoch_us(valid_to_at) AS valid_to
FROM fact.book_weight
WHERE book = $book AND version = $version
ORDER BY ALL

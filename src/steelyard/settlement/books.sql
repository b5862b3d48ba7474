-- The versions of price books that count, their hash and who declared them.
SELECT book.book, book.version, min(book.sha256) AS sha256, string_agg(DISTINCT book.declared_by, chr(10) ORDER BY book.declared_by) AS declared_by
FROM fact.price_book AS book
WHERE book.version = (SELECT max(other.version) FROM fact.price_book AS other WHERE other.book = book.book)
GROUP BY book.book, book.version
ORDER BY book.book

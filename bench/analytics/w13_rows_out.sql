-- All columns of the rows of one region, with their number: rows are carried, not only counted.
SELECT count(*) AS kept, max(product) AS product, max(channel) AS channel, sum(price) AS price, sum(x) AS x
FROM (SELECT *, ntile(10) OVER (PARTITION BY g1000 ORDER BY price, id) AS tenth FROM events) AS tenths
WHERE tenth = 10;

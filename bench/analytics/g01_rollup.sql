-- Subtotals by region, product and channel.
SELECT region, product, channel, count(*) AS rows, sum(v) AS v, sum(price) AS price
FROM events GROUP BY ROLLUP (region, product, channel) ORDER BY region, product, channel, rows;

-- Sets none of which holds another, and the grand total. grouping() tells them apart.
SELECT region, product, channel, grouping(region) AS r, grouping(product) AS p, grouping(channel) AS c, count(*) AS rows, sum(v) AS v
FROM events GROUP BY GROUPING SETS ((region, product), (channel), ())
ORDER BY region, product, channel, rows;

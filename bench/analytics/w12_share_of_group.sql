-- Each row beside its group's total: a window without an order.
SELECT sum(CAST(v AS DOUBLE PRECISION) / total) AS checked
FROM (SELECT v, sum(v) OVER (PARTITION BY g1000) AS total FROM events) AS shares
WHERE total > 0;

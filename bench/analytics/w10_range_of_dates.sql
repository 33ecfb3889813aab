-- Sums over the last 30 days.
SELECT sum(s % 1000003) AS checked
FROM (SELECT sum(v) OVER (PARTITION BY product ORDER BY day
        RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT ROW) AS s FROM events) AS summed;

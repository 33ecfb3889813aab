-- 1,000 medians.
SELECT sum(m) AS checked, max(m) AS high FROM (SELECT median(n) AS m FROM events GROUP BY g1000) AS medians;

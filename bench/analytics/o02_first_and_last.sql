-- The first and the last value by another column, by 1,000 groups.
SELECT sum(oldest) AS oldest, sum(latest) AS latest
FROM (SELECT (array_agg(v ORDER BY day, id))[1] AS oldest, (array_agg(v ORDER BY day DESC, id DESC))[1] AS latest
      FROM events GROUP BY g1000) AS ends;

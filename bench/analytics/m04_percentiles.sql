-- Three percentiles of one column, by 1,000 groups.
SELECT sum(low) AS low, sum(middle) AS middle, sum(high) AS high
FROM (SELECT percentile_cont(0.1) WITHIN GROUP (ORDER BY v) AS low, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS middle,
        percentile_cont(0.99) WITHIN GROUP (ORDER BY v) AS high
      FROM events GROUP BY g1000) AS percentiles;

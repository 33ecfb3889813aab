-- Texts in order, by a million groups.
SELECT sum(length(all_channels)) AS length, min(all_channels) AS low, max(all_channels) AS high
FROM (SELECT string_agg(channel, ',' ORDER BY id) AS all_channels FROM events GROUP BY g1m) AS texts;

-- The hash chain of an audit log, recomputed in DuckDB; no row means that all is whole. Each row names a record whose
-- bytes do not give its hash, or that does not follow the one before. Set the file first:
--   SET VARIABLE log = 'audit.jsonl';
WITH record AS (
  SELECT row_number() OVER () AS position, line
  FROM read_csv(getvariable('log'), columns = {'line': 'VARCHAR'}, delim = chr(1), quote = '', escape = '',
                header = false, max_line_size = 65536)
), part AS (
  SELECT position, line[1:length(line) - 82] || '}' AS content, line[length(line) - 65:length(line) - 2] AS named,
         line ->> '$.prev_hash' AS prev, (line ->> '$.seq')::BIGINT AS seq
  FROM record
), linked AS (
  SELECT *, lag(named) OVER (ORDER BY position) AS before, lag(seq) OVER (ORDER BY position) AS seq_before FROM part
)
SELECT position, seq, sha256(content) = named AS bytes_give_hash, prev = before AS linked
FROM linked
WHERE sha256(content) <> named OR (before IS NOT NULL AND (prev <> before OR seq <> seq_before + 1));

-- run in CI
-- Questions to cofferdam_audit. The first two are the chain check of `cofferdam audit verify` in SQL, over the raw lines:
-- the hash of a line is that of its bytes without its last member.
SELECT count(*) AS lines,
    sum((sha256(regexp_replace(line, ',"record_hash":"[0-9a-f]{64}"}$', '}'))
        = regexp_extract(line, '"record_hash":"([0-9a-f]{64})"}$', 1))::int)::bigint AS good
FROM read_csv('audit.jsonl', header = false, delim = '\x01', quote = '', escape = '',
    columns = {'line': 'VARCHAR'}, max_line_size = 16384);

-- Records that do not name the hash of the record before.
SELECT count(*) AS broken_links FROM (
    SELECT seq, prev_hash, lag(record_hash) OVER (PARTITION BY chain_id ORDER BY seq) AS before FROM cofferdam_audit)
WHERE seq > 1 AND before IS DISTINCT FROM prev_hash;

-- Numbers that are not there: the best check of all, because the SIEM has its own copy.
SELECT chain_id, seq + 1 AS from_seq, next - 1 AS to_seq FROM (
    SELECT chain_id, seq, lead(seq) OVER (PARTITION BY chain_id ORDER BY seq) AS next FROM cofferdam_audit)
WHERE next > seq + 1;

-- Runs without an end.
SELECT s.run_id, s.timestamp, s.cmd, s.argv FROM cofferdam_audit s
WHERE s.event_type = 'run.start'
    AND NOT EXISTS (SELECT 1 FROM cofferdam_audit e WHERE e.event_type = 'run.end' AND e.run_id = s.run_id);

-- Refusals a session and minute.
SELECT session_id, time_bucket(INTERVAL '1 minute', timestamp) AS minute, count(*) AS refused,
    list(DISTINCT rule_id) AS rules
FROM cofferdam_audit WHERE event_type = 'run.denied' GROUP BY ALL ORDER BY refused DESC;

-- Commands by how long they take.
SELECT cmd, count(*) AS runs, quantile_cont(duration_ms, 0.95) AS p95_ms, max(max_rss_bytes) AS most_memory
FROM cofferdam_audit WHERE event_type = 'run.end' GROUP BY cmd ORDER BY p95_ms DESC;

-- The same command by others: what is redacted can still be compared.
SELECT argv_hmac, count(*) AS times, count(DISTINCT session_id) AS sessions, any_value(argv) AS argv
FROM cofferdam_audit WHERE event_type = 'run.start' GROUP BY argv_hmac HAVING count(*) > 1;

-- Denied system calls.
SELECT split_part(call, '=', 1) AS syscall, sum(split_part(call, '=', 2)::bigint) AS times
FROM (SELECT unnest(denied_syscalls) AS call FROM cofferdam_audit WHERE event_type = 'run.end') GROUP BY ALL;

-- What was redacted.
SELECT rule, count(*) AS commands FROM (
    SELECT unnest(redactions) AS rule FROM cofferdam_audit WHERE event_type IN ('run.start', 'run.denied'))
GROUP BY rule ORDER BY commands DESC;

-- run in CI
-- One log into the table of table.sql. A field that no record of the file has is NULL in the table; a field that is
-- newer than the table is left out (make the table anew).
COPY cofferdam_audit FROM 'audit.jsonl' (FORMAT json, ARRAY false);

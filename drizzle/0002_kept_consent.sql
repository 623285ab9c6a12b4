-- An erasure that deletes consent also deletes what an earlier one kept under the hash of the id.
DROP TRIGGER consent_log_no_delete;
--> statement-breakpoint
-- Stops a DELETE outside an erasure that deletes consent.
CREATE TRIGGER consent_log_no_delete BEFORE DELETE ON consent_log
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_ids AS i CROSS JOIN erasures AS e ON e.environment_id = i.environment_id AND e.id = i.erasure_id
  WHERE i.environment_id = old.environment_id AND i.distinct_id = old.distinct_id AND e.keep_consent = 0
) AND NOT EXISTS (
  SELECT 1 FROM tombstones AS t CROSS JOIN erasures AS e ON e.environment_id = t.environment_id AND e.id = t.erasure_id
  WHERE t.environment_id = old.environment_id AND t.hash = old.distinct_id AND e.keep_consent = 0 AND e.completed_at_ms IS NULL
)
BEGIN
  SELECT RAISE(ABORT, 'consent_log_append_only');
END;

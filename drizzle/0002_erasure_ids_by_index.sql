-- Looks up an id by one index at a time. With both conditions in one query, SQLite read all ids of the environment for each new id.
DROP TRIGGER erasure_ids_of_running;
--> statement-breakpoint
CREATE TRIGGER erasure_ids_of_running BEFORE INSERT ON erasure_ids
WHEN NOT EXISTS (
  SELECT 1 FROM erasures
  WHERE environment_id = new.environment_id AND id = new.erasure_id AND completed_at_ms IS NULL
) OR EXISTS (
  SELECT 1 FROM erasure_ids WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id
) OR EXISTS (
  SELECT 1 FROM erasure_ids
  WHERE environment_id = new.environment_id AND erasure_id = new.erasure_id AND position = new.position
) OR EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = new.account_id)
BEGIN
  SELECT RAISE(ABORT, 'erasure_ids_kept');
END;

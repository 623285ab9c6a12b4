-- The rules that the database itself enforces. src/db/attempt.ts reads the names in RAISE.

-- An environment keeps its application and its mode. Keys, accounts and all other rows of a tenant refer to its integer.
CREATE TRIGGER environments_no_replace BEFORE INSERT ON environments
WHEN EXISTS (SELECT 1 FROM environments WHERE id = new.id)
  OR EXISTS (SELECT 1 FROM environments WHERE app_id = new.app_id AND mode = new.mode)
BEGIN
  SELECT RAISE(ABORT, 'environments_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would give all rows of a tenant to another application or mode.
CREATE TRIGGER environments_frozen BEFORE UPDATE OF id, app_id, mode ON environments
BEGIN
  SELECT RAISE(ABORT, 'environments_kept');
END;
--> statement-breakpoint
-- Stops a DELETE after which a new environment could get the integer, and so the rows, of an old one.
CREATE TRIGGER environments_no_delete BEFORE DELETE ON environments
BEGIN
  SELECT RAISE(ABORT, 'environments_kept');
END;
--> statement-breakpoint
-- The hash, the environment and the kind of a key never change, and a revoked key stays revoked. So a key is neither deleted nor
-- replaced, because its hash could then be used again.
CREATE TRIGGER api_keys_no_replace BEFORE INSERT ON api_keys
WHEN EXISTS (SELECT 1 FROM api_keys WHERE hash = new.hash)
  OR EXISTS (SELECT 1 FROM api_keys WHERE environment_id = new.environment_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'api_keys_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would make a key valid for another environment, or for more.
CREATE TRIGGER api_keys_frozen BEFORE UPDATE OF hash, id, environment_id, kind, hint, created_at_ms ON api_keys
BEGIN
  SELECT RAISE(ABORT, 'api_keys_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would make a revoked key valid again, or change when it was revoked.
CREATE TRIGGER api_keys_revoked_once BEFORE UPDATE OF revoked_at_ms ON api_keys
WHEN old.revoked_at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'api_keys_revoked_once');
END;
--> statement-breakpoint
-- Stops a DELETE after which nobody knows that the key existed, and its hash could be stored again.
CREATE TRIGGER api_keys_no_delete BEFORE DELETE ON api_keys
BEGIN
  SELECT RAISE(ABORT, 'api_keys_kept');
END;
--> statement-breakpoint
-- The same applies to an administration key. Its rights never change either.
CREATE TRIGGER admin_keys_no_replace BEFORE INSERT ON admin_keys
WHEN EXISTS (SELECT 1 FROM admin_keys WHERE hash = new.hash OR id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'admin_keys_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would give a key more rights.
CREATE TRIGGER admin_keys_frozen BEFORE UPDATE OF hash, id, hint, name, scopes, apps, modes, created_at_ms ON admin_keys
BEGIN
  SELECT RAISE(ABORT, 'admin_keys_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would make a revoked key valid again.
CREATE TRIGGER admin_keys_revoked_once BEFORE UPDATE OF revoked_at_ms ON admin_keys
WHEN old.revoked_at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'admin_keys_revoked_once');
END;
--> statement-breakpoint
-- Stops a DELETE after which the audit names an unknown key.
CREATE TRIGGER admin_keys_no_delete BEFORE DELETE ON admin_keys
BEGIN
  SELECT RAISE(ABORT, 'admin_keys_kept');
END;
--> statement-breakpoint
-- The books use an account's integer as their key, so an account is neither deleted nor replaced. Otherwise the next user could
-- get its integer and its books.
CREATE TRIGGER accounts_no_replace BEFORE INSERT ON accounts
WHEN EXISTS (SELECT 1 FROM accounts WHERE id = new.id)
  OR EXISTS (SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id)
BEGIN
  SELECT RAISE(ABORT, 'accounts_kept');
END;
--> statement-breakpoint
-- Stops an UPDATE that would give a user's books to another account, environment or existing user.
CREATE TRIGGER accounts_keep_id BEFORE UPDATE ON accounts
WHEN new.id <> old.id OR new.environment_id <> old.environment_id OR EXISTS (
  SELECT 1 FROM accounts
  WHERE environment_id = new.environment_id AND user_id = new.user_id AND id <> old.id
)
BEGIN
  SELECT RAISE(ABORT, 'accounts_kept');
END;
--> statement-breakpoint
-- An account's name changes only once, to the pseudonym that a running erasure has for it.
CREATE TRIGGER accounts_name_erased BEFORE UPDATE OF user_id, is_erased ON accounts
WHEN NOT (old.is_erased = 0 AND new.is_erased = 1 AND EXISTS (
  SELECT 1 FROM erasure_ids WHERE environment_id = old.environment_id AND distinct_id = old.user_id
    AND account_id = old.id AND pseudonym = new.user_id
))
BEGIN
  SELECT RAISE(ABORT, 'accounts_kept');
END;
--> statement-breakpoint
-- Stops a DELETE after which a new user could get the integer, and so the books, of an old one.
CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts
BEGIN
  SELECT RAISE(ABORT, 'accounts_kept');
END;
--> statement-breakpoint
-- A member belongs to an account of its environment, and is neither replaced nor numbered again.
CREATE TRIGGER members_of_account BEFORE INSERT ON members
WHEN NOT EXISTS (SELECT 1 FROM accounts WHERE id = new.account_id AND environment_id = new.environment_id)
  OR EXISTS (SELECT 1 FROM members WHERE account_id = new.account_id AND member_number = new.member_number)
  OR EXISTS (
    SELECT 1 FROM members
    WHERE environment_id = new.environment_id AND member_id = new.member_id AND account_id = new.account_id
  )
BEGIN
  SELECT RAISE(ABORT, 'members_kept');
END;
--> statement-breakpoint
-- A member's name changes only once, to a pseudonym, in an erasure of the member (ME6).
CREATE TRIGGER members_name_erased BEFORE UPDATE ON members
WHEN NOT (new.account_id = old.account_id AND new.member_number = old.member_number AND new.environment_id = old.environment_id
  AND (old.is_erased = 1 AND new.is_erased = 2 AND new.member_id = old.member_id
    OR old.is_erased = 0 AND new.is_erased = 1 AND new.member_id GLOB 'erased_*' AND EXISTS (
      SELECT 1 FROM erasure_ids WHERE environment_id = old.environment_id AND distinct_id = old.member_id
    )))
BEGIN
  SELECT RAISE(ABORT, 'members_kept');
END;
--> statement-breakpoint
-- Stops a DELETE after which another member would get the number, and so the usage. Only an erasure of the payer deletes members.
CREATE TRIGGER members_no_delete BEFORE DELETE ON members
WHEN NOT EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id)
BEGIN
  SELECT RAISE(ABORT, 'members_kept');
END;
--> statement-breakpoint
-- A stored rejection, and any data from Stripe about a user, create an account: the id is a user from then on (P2).
CREATE TRIGGER rejections_make_account AFTER INSERT ON rejections
WHEN new.user_id <> ''
BEGIN
  INSERT INTO accounts (environment_id, user_id)
  SELECT id, new.user_id FROM environments WHERE id = new.environment_id AND NOT EXISTS (
    SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id
  );
  INSERT INTO members (account_id, member_number, environment_id, member_id)
  SELECT id, 1 + coalesce((SELECT max(member_number) FROM members WHERE account_id = accounts.id), 0), new.environment_id, new.member_id
  FROM accounts WHERE new.member_id <> '' AND environment_id = new.environment_id AND user_id = new.user_id AND NOT EXISTS (
    SELECT 1 FROM members
    WHERE environment_id = new.environment_id AND member_id = new.member_id AND account_id = accounts.id
  );
END;
--> statement-breakpoint
-- Stops a customer of Stripe whose user no erasure or export would find.
CREATE TRIGGER stripe_customers_make_account AFTER INSERT ON stripe_customers
BEGIN
  INSERT INTO accounts (environment_id, user_id) SELECT new.environment_id, new.user_id WHERE NOT EXISTS (
    SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id
  );
END;
--> statement-breakpoint
-- Stops the same when a customer gets another user.
CREATE TRIGGER stripe_customers_change_account AFTER UPDATE OF user_id ON stripe_customers
BEGIN
  INSERT INTO accounts (environment_id, user_id) SELECT new.environment_id, new.user_id WHERE NOT EXISTS (
    SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id
  );
END;
--> statement-breakpoint
-- Stops a payment whose user no erasure or export would find.
CREATE TRIGGER payment_facts_make_account AFTER INSERT ON payment_facts
WHEN new.user_id IS NOT NULL
BEGIN
  INSERT INTO accounts (environment_id, user_id) SELECT new.environment_id, new.user_id WHERE NOT EXISTS (
    SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id
  );
END;
--> statement-breakpoint
-- Stops the same when a payment gets another user.
CREATE TRIGGER payment_facts_change_account AFTER UPDATE OF user_id ON payment_facts
WHEN new.user_id IS NOT NULL
BEGIN
  INSERT INTO accounts (environment_id, user_id) SELECT new.environment_id, new.user_id WHERE NOT EXISTS (
    SELECT 1 FROM accounts WHERE environment_id = new.environment_id AND user_id = new.user_id
  );
END;
--> statement-breakpoint
-- A ledger row has the next seq of its account: no gap, no second row with one seq, no INSERT OR REPLACE.
CREATE TRIGGER credit_ledger_seq_gapless BEFORE INSERT ON credit_ledger
WHEN new.seq <> 1 + coalesce((
  SELECT seq FROM credit_ledger
  WHERE account_id = new.account_id ORDER BY seq DESC LIMIT 1
), 0)
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_seq_gapless');
END;
--> statement-breakpoint
-- An entry continues from its balance's current amount, and has the correct amount after it.
CREATE TRIGGER credit_ledger_follows_balance BEFORE INSERT ON credit_ledger
WHEN new.reason <> 'grant' AND NOT EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq AND last_seq = new.previous_seq
    AND remaining_minor + new.delta_minor = new.balance_after_minor
)
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_follows_balance');
END;
--> statement-breakpoint
-- Only the trigger of a balance writes the ledger row of its grant.
CREATE TRIGGER credit_ledger_grant_with_balance BEFORE INSERT ON credit_ledger
WHEN new.reason = 'grant' AND NOT EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND grant_seq = new.seq AND new.grant_seq = new.seq AND last_seq = new.seq
    AND initial_minor = new.delta_minor AND initial_minor = new.balance_after_minor AND new.previous_seq IS NULL
    AND new.is_revoked = 0 AND grant_kind = new.kind AND granted_by = new.written_by
)
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_grant_with_balance');
END;
--> statement-breakpoint
-- A cause must fit its row (C16). The kind already says the reason.
CREATE TRIGGER credit_ledger_cause_fits BEFORE INSERT ON credit_ledger
WHEN new.reason = 'admin_adjust' AND iif(new.cause = 'adjustment', new.reservation_number IS NULL,
  iif(new.cause = 'payment_restored', new.delta_minor >= 0, new.delta_minor <= 0)
    AND (new.is_revoked = 1 OR new.cause NOT IN ('revoke', 'erasure'))
) IS NOT TRUE
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_cause_fits');
END;
--> statement-breakpoint
-- Ledger entries name their author by the place of its id among the environment's authors. Only secret keys write entries.
CREATE TRIGGER api_keys_add_author AFTER INSERT ON api_keys
WHEN new.kind = 'secret'
BEGIN
  UPDATE environments SET authors = authors || new.id || ' '
  WHERE id = new.environment_id AND instr(authors, ' ' || new.id || ' ') = 0;
END;
--> statement-breakpoint
-- Stops a change of the authors that would give old entries another author.
CREATE TRIGGER environments_authors_grow BEFORE UPDATE OF authors ON environments
WHEN substr(new.authors, 1, length(old.authors)) <> old.authors
BEGIN
  SELECT RAISE(ABORT, 'environments_authors_grow');
END;
--> statement-breakpoint
-- This repeats the CHECKs of credit_balances, with the same names. Otherwise INSERT OR IGNORE would silently skip the change of
-- the balance, and keep the ledger row.
CREATE TRIGGER credit_ledger_not_below_zero BEFORE INSERT ON credit_ledger
WHEN new.balance_after_minor < 0
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_remaining_not_negative');
END;
--> statement-breakpoint
-- Stops a balance above its unit's maximum (C1).
CREATE TRIGGER credit_ledger_within_bounds BEFORE INSERT ON credit_ledger
WHEN new.balance_after_minor > 8589934592000000 AND (new.balance_after_minor > 8796093022208000 OR 'cents' = (
  SELECT unit FROM credit_balances WHERE account_id = new.account_id AND grant_seq = new.grant_seq
))
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_remaining_within_bounds');
END;
--> statement-breakpoint
-- Amounts that open reservations hold may return, so the balance must keep room for them.
CREATE TRIGGER credit_ledger_leaves_room BEFORE INSERT ON credit_ledger
WHEN new.reason = 'admin_adjust' AND new.delta_minor > 0 AND EXISTS (
  SELECT 1 FROM credit_balances AS b
  WHERE b.account_id = new.account_id AND b.grant_seq = new.grant_seq AND new.balance_after_minor + coalesce((
    SELECT sum(leg.value ->> 2) FROM reservations AS r, json_each(r.legs) AS leg
    WHERE r.account_id = new.account_id AND r.state = 'open' AND leg.value ->> 0 = b.grant_seq
  ), 0) > iif(b.unit = 'cents', 8589934592000000, 8796093022208000)
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_remaining_within_bounds');
END;
--> statement-breakpoint
-- A revoked balance accepts only these entries: a returning hold, the entry that takes the return away (U9), a refund that takes
-- nothing, and the entry by which the payment that revoked it restores it.
CREATE TRIGGER credit_ledger_spares_revoked BEFORE INSERT ON credit_ledger
WHEN new.reason <> 'grant' AND EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq AND revoked_at_ms IS NOT NULL AND NOT iif(
    new.is_revoked = 0,
    new.reason = 'admin_adjust' AND EXISTS (
      SELECT 1 FROM payment_grants WHERE balance_id = credit_balances.id AND is_revoked = 1
    ),
    iif(
      remaining_minor = 0,
      (new.reason = 'admin_adjust' AND new.delta_minor = 0)
        OR (new.reason IN ('reservation_released', 'reservation_expired') AND new.delta_minor > 0),
      new.reason = 'admin_adjust' AND new.balance_after_minor = 0
    )
  )
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_revoked');
END;
--> statement-breakpoint
-- The ledger changes the balance. There are two triggers, so that the partial index on balances with credits changes only if a
-- balance becomes empty or is refilled.
CREATE TRIGGER credit_ledger_moves_balance AFTER INSERT ON credit_ledger
WHEN new.reason <> 'grant' AND (new.balance_after_minor > 0) = (new.balance_after_minor - new.delta_minor > 0)
BEGIN
  UPDATE credit_balances SET remaining_minor = new.balance_after_minor, last_seq = new.seq
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq;
END;
--> statement-breakpoint
-- Stops a balance with credits that no plan finds, or an empty one that every plan reads.
CREATE TRIGGER credit_ledger_empties_or_fills_balance AFTER INSERT ON credit_ledger
WHEN new.reason <> 'grant' AND (new.balance_after_minor > 0) <> (new.balance_after_minor - new.delta_minor > 0)
BEGIN
  UPDATE credit_balances
  SET remaining_minor = new.balance_after_minor, last_seq = new.seq, has_remaining = (new.balance_after_minor > 0)
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq;
END;
--> statement-breakpoint
-- The ledger entry revokes the balance, which then owes nothing (C21).
CREATE TRIGGER credit_ledger_revokes_balance AFTER INSERT ON credit_ledger
WHEN new.is_revoked = 1
BEGIN
  UPDATE credit_balances SET revoked_at_ms = new.occurred_at_ms
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq AND revoked_at_ms IS NULL;
  DELETE FROM refund_owed WHERE account_id = new.account_id AND new.grant_seq = (
    SELECT grant_seq FROM credit_balances AS b WHERE b.account_id = new.account_id AND b.id = refund_owed.balance_id
  );
END;
--> statement-breakpoint
-- The payment that revoked a balance can restore it.
CREATE TRIGGER credit_ledger_restores_balance AFTER INSERT ON credit_ledger
WHEN new.is_revoked = 0 AND new.reason = 'admin_adjust'
BEGIN
  UPDATE credit_balances SET revoked_at_ms = NULL
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq AND revoked_at_ms IS NOT NULL;
END;
--> statement-breakpoint
-- If a payment revoked a balance, the amount of a later return counts as taken by the payment (S4). If somebody else revoked it,
-- the amount counts as taken by the operator: it was not spent (S6).
CREATE TRIGGER credit_ledger_counts_taken AFTER INSERT ON credit_ledger
WHEN new.is_revoked = 1 AND new.reason = 'admin_adjust' AND new.delta_minor < 0
BEGIN
  UPDATE payment_grants SET clawed_back_minor = clawed_back_minor - iif(is_revoked, new.delta_minor, 0),
    operator_steps = operator_steps - iif(is_revoked, 0, new.delta_minor)
  WHERE balance_id = (SELECT id FROM credit_balances WHERE account_id = new.account_id AND grant_seq = new.grant_seq);
END;
--> statement-breakpoint
-- An owed amount that a balance pays counts as taken too.
CREATE TRIGGER credit_ledger_counts_owed AFTER INSERT ON credit_ledger
WHEN new.is_revoked = 0 AND new.reason = 'admin_adjust' AND new.reservation_number IS NOT NULL
BEGIN
  UPDATE payment_grants SET clawed_back_minor = clawed_back_minor - new.delta_minor
  WHERE balance_id = (SELECT id FROM credit_balances WHERE account_id = new.account_id AND grant_seq = new.grant_seq);
END;
--> statement-breakpoint
-- Stops an UPDATE of the ledger.
CREATE TRIGGER credit_ledger_frozen BEFORE UPDATE OF
  account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, event_seq,
  reservation_number, occurred_at_ms, is_revoked ON credit_ledger
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_append_only');
END;
--> statement-breakpoint
-- Columns with names or free text may change only in an erasure of their account (E3): names become their pseudonyms in
-- erasure_names, texts become empty. The same applies to every table of the books. The ledger has only texts.
CREATE TRIGGER credit_ledger_note_erased BEFORE UPDATE OF note ON credit_ledger
WHEN new.note IS NOT NULL OR NOT EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id)
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE in the ledger, also in an erasure.
CREATE TRIGGER credit_ledger_no_delete BEFORE DELETE ON credit_ledger
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_append_only');
END;
--> statement-breakpoint
-- A balance begins with its whole amount. INSERT OR REPLACE fires no DELETE trigger, so it is rejected here.
CREATE TRIGGER credit_balances_begin_whole BEFORE INSERT ON credit_balances
WHEN new.remaining_minor <> new.initial_minor OR new.last_seq <> new.grant_seq OR new.revoked_at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_begin_whole');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE by the id, which would reset a balance.
CREATE TRIGGER credit_balances_no_replace BEFORE INSERT ON credit_balances
WHEN EXISTS (SELECT 1 FROM credit_balances WHERE id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_id');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE by the reference, which would grant a purchase twice.
CREATE TRIGGER credit_balances_no_replace_by_external_ref BEFORE INSERT ON credit_balances
WHEN new.external_ref IS NOT NULL AND EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND external_ref = new.external_ref
    AND pack_number = new.pack_number AND item_number = new.item_number
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_external_ref');
END;
--> statement-breakpoint
-- Limits the balances that a list or a debit loads into memory: 40,000, with 8 MB of long rules (L6). An account with
-- fewer entries has fewer balances, so nothing is counted. AFTER INSERT, so that a replay finds the existing grant first.
CREATE TRIGGER credit_balances_bounded AFTER INSERT ON credit_balances
WHEN (new.grant_seq > 40000 OR octet_length(new.matches) > 500) AND (
  (SELECT count(*) > 40000 OR sum(iif(bytes > 500, bytes, 0)) > 8000000 FROM (
    SELECT octet_length(matches) AS bytes FROM credit_balances
    WHERE account_id = new.account_id AND has_remaining = 1 AND expires_at_ms > new.granted_at_ms
    UNION ALL SELECT octet_length(b.matches) FROM (
      SELECT DISTINCT leg.value ->> 0 AS grant_seq FROM reservations AS r CROSS JOIN json_each(r.legs) AS leg
      WHERE r.account_id = new.account_id AND r.state = 'open'
    ) AS held CROSS JOIN credit_balances AS b
    ON b.account_id = new.account_id AND b.grant_seq = held.grant_seq AND b.has_remaining = 0
  ))
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_bounded');
END;
--> statement-breakpoint
-- Limits the balances under a reference to 5,000, so that what a refund of all of them tells fits into a value (L6). Each pack is
-- granted once under a reference, so nothing is counted while it has only one: else a grant would read the square of its items.
CREATE TRIGGER credit_balances_of_reference_bounded AFTER INSERT ON credit_balances
WHEN new.grant_seq > 5000 AND new.external_ref IS NOT NULL AND (EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND external_ref = new.external_ref AND pack_number < new.pack_number
) OR EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND external_ref = new.external_ref AND pack_number > new.pack_number
)) AND 5000 < (
  SELECT count(*) FROM credit_balances WHERE account_id = new.account_id AND external_ref = new.external_ref
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_of_reference_bounded');
END;
--> statement-breakpoint
-- Stops a balance without the ledger entry of its grant.
CREATE TRIGGER credit_balances_write_grant AFTER INSERT ON credit_balances
BEGIN
  INSERT INTO credit_ledger (
    account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, event_seq, reservation_number,
    note, occurred_at_ms
  )
  VALUES (
    new.account_id, new.grant_seq, new.grant_seq, new.initial_minor, new.initial_minor, NULL,
    new.grant_kind, new.granted_by, NULL, NULL, new.notes,
    coalesce(new.written_at_ms, new.granted_at_ms)
  );
END;
--> statement-breakpoint
-- Records the expiry of a balance for the cron (H6), unless the balance never expires.
CREATE TRIGGER credit_balances_write_expiry AFTER INSERT ON credit_balances
WHEN new.expires_at_ms < 9007199254740991
BEGIN
  INSERT INTO balance_expiries (environment_id, expires_at_ms, account_id, grant_seq)
  SELECT environment_id, new.expires_at_ms, new.account_id, new.grant_seq FROM accounts WHERE id = new.account_id;
END;
--> statement-breakpoint
-- Stops a change of an amount without its ledger entry.
CREATE TRIGGER credit_balances_moved_by_ledger BEFORE UPDATE OF remaining_minor, last_seq, has_remaining ON credit_balances
WHEN NOT EXISTS (
  SELECT 1 FROM credit_ledger
  WHERE account_id = new.account_id AND seq = new.last_seq
    AND grant_seq = new.grant_seq AND previous_seq = old.last_seq AND balance_after_minor = new.remaining_minor
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_moved_by_ledger');
END;
--> statement-breakpoint
-- Stops a change of the terms under which credits were granted (C8).
CREATE TRIGGER credit_balances_frozen BEFORE UPDATE OF
  account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, source_number, grant_kind,
  granted_by, granted_at_ms, written_at_ms, expires_at_ms, grant_seq ON credit_balances
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_frozen');
END;
--> statement-breakpoint
-- Stops a change of references and notes outside an erasure, or to another pseudonym.
CREATE TRIGGER credit_balances_names_erased BEFORE UPDATE OF external_ref, notes ON credit_balances
WHEN NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) AND new.notes IS NULL
  AND (new.external_ref IS old.external_ref OR EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = old.account_id AND kind = 'reference'
      AND old_name = old.external_ref AND new_name = new.external_ref
  ))
) OR (new.external_ref <> old.external_ref AND EXISTS (
  SELECT 1 FROM credit_balances
  WHERE account_id = new.account_id AND external_ref = new.external_ref
    AND pack_number = new.pack_number AND item_number = new.item_number
))
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_frozen');
END;
--> statement-breakpoint
-- A balance is revoked once, and restored only by the payment that revoked it, in both cases by the entry that was just written.
CREATE TRIGGER credit_balances_revoked_once BEFORE UPDATE OF revoked_at_ms ON credit_balances
WHEN (old.revoked_at_ms IS NOT NULL AND new.revoked_at_ms IS NOT NULL) OR NOT EXISTS (
  SELECT 1 FROM credit_ledger
  WHERE account_id = new.account_id AND grant_seq = new.grant_seq AND seq = (
    SELECT seq FROM credit_ledger WHERE account_id = new.account_id ORDER BY seq DESC LIMIT 1
  ) AND iif(
    new.revoked_at_ms IS NULL,
    is_revoked = 0 AND reason = 'admin_adjust' AND EXISTS (
      SELECT 1 FROM payment_grants WHERE balance_id = new.id AND is_revoked = 1
    ),
    is_revoked = 1 AND balance_after_minor = 0 AND occurred_at_ms = new.revoked_at_ms
  )
)
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_revoked_once');
END;
--> statement-breakpoint
-- Stops a DELETE after which ledger entries have no balance.
CREATE TRIGGER credit_balances_no_delete BEFORE DELETE ON credit_balances
BEGIN
  SELECT RAISE(ABORT, 'credit_balances_kept');
END;
--> statement-breakpoint
-- A recurring grant belongs to a user of its environment, and has a unique id. A user has at most 100 that have not ended (R5).
CREATE TRIGGER recurring_grants_begin BEFORE INSERT ON recurring_grants
WHEN EXISTS (SELECT 1 FROM recurring_grants WHERE environment_id = new.environment_id AND id = new.id)
  OR new.ordinal <> 1 + coalesce((
    SELECT ordinal FROM recurring_grants WHERE account_id = new.account_id ORDER BY ordinal DESC LIMIT 1
  ), 0)
  OR NOT EXISTS (SELECT 1 FROM accounts WHERE id = new.account_id AND environment_id = new.environment_id)
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_id');
END;
--> statement-breakpoint
-- Stops a create that has not counted the user's recurring grants.
CREATE TRIGGER recurring_grants_bounded BEFORE INSERT ON recurring_grants
WHEN new.state <> 'ended' AND 100 <= (
  SELECT count(*) FROM recurring_grants WHERE account_id = new.account_id AND state <> 'ended'
)
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_bounded');
END;
--> statement-breakpoint
-- Stops a resume that has not counted them.
CREATE TRIGGER recurring_grants_bounded_again BEFORE UPDATE OF state ON recurring_grants
WHEN old.state = 'ended' AND new.state <> 'ended' AND 100 <= (
  SELECT count(*) FROM recurring_grants WHERE account_id = new.account_id AND state <> 'ended'
)
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_bounded');
END;
--> statement-breakpoint
-- A period is granted once: the number of the last one never decreases. A recurring grant that ended by itself, or was cancelled with
-- its credits, stays ended. A cancel at a period's end can be undone (R4), within the bound of those that have not ended.
CREATE TRIGGER recurring_grants_in_order BEFORE UPDATE ON recurring_grants
WHEN new.last_n < old.last_n
  OR (old.state = 'ended' AND new.state <> 'ended' AND (coalesce(old.final_n, -1) < 0 OR new.final_n IS NOT NULL))
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_in_order');
END;
--> statement-breakpoint
-- Stops a change of what was agreed, such as the pack or the interval.
CREATE TRIGGER recurring_grants_frozen BEFORE UPDATE OF
  account_id, ordinal, environment_id, pack_id, pack_name, quantity, every, anchor_ms, time_zone, anchor_local_ms, ends_at_ms,
  rollover_periods, id_seed, created_at_ms ON recurring_grants
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_frozen');
END;
--> statement-breakpoint
-- Stops a change of ids outside an erasure, or to another pseudonym.
CREATE TRIGGER recurring_grants_names_erased BEFORE UPDATE OF id, request_hash ON recurring_grants
WHEN NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) AND new.request_hash = '' AND new.id IS (
  SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.id
)) OR EXISTS (
  SELECT 1 FROM recurring_grants WHERE environment_id = new.environment_id AND id = new.id
)
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_frozen');
END;
--> statement-breakpoint
-- Stops a DELETE after which a repeated request would grant again.
CREATE TRIGGER recurring_grants_no_delete BEFORE DELETE ON recurring_grants
BEGIN
  SELECT RAISE(ABORT, 'recurring_grants_kept');
END;
--> statement-breakpoint
-- The account has the start of its next period, so that each read of the account knows whether one is due.
CREATE TRIGGER recurring_grants_begin_due AFTER INSERT ON recurring_grants
WHEN new.next_at_ms IS NOT NULL
BEGIN
  UPDATE accounts SET recurring_due_at_ms = min(coalesce(recurring_due_at_ms, new.next_at_ms), new.next_at_ms)
  WHERE id = new.account_id;
END;
--> statement-breakpoint
-- Stops an account that keeps an outdated start of its next period.
CREATE TRIGGER recurring_grants_move_due AFTER UPDATE OF next_at_ms ON recurring_grants
WHEN new.next_at_ms IS NOT old.next_at_ms
BEGIN
  UPDATE accounts SET recurring_due_at_ms = (
    SELECT next_at_ms FROM recurring_grants INDEXED BY recurring_grants_due
    WHERE account_id = new.account_id AND next_at_ms IS NOT NULL ORDER BY next_at_ms LIMIT 1
  ) WHERE id = new.account_id;
END;
--> statement-breakpoint
-- A refund takes all earlier refunds of its reference into account, and never changes.
CREATE TRIGGER credit_refunds_gapless BEFORE INSERT ON credit_refunds
WHEN new.ordinal <> 1 + coalesce((
  SELECT ordinal FROM credit_refunds
  WHERE account_id = new.account_id AND external_ref = new.external_ref ORDER BY ordinal DESC LIMIT 1
), 0) OR EXISTS (
  SELECT 1 FROM credit_refunds
  WHERE account_id = new.account_id AND external_ref = new.external_ref AND refund_ref = new.refund_ref
)
BEGIN
  SELECT RAISE(ABORT, 'credit_refunds_gapless');
END;
--> statement-breakpoint
-- Stops a change of what a refund took, on which later refunds rely.
CREATE TRIGGER credit_refunds_frozen BEFORE UPDATE OF account_id, ordinal, pack_ids, part, of_parts, first_seq, last_seq
  ON credit_refunds
BEGIN
  SELECT RAISE(ABORT, 'credit_refunds_append_only');
END;
--> statement-breakpoint
-- Stops a change of references outside an erasure, or to another pseudonym.
CREATE TRIGGER credit_refunds_names_erased BEFORE UPDATE OF external_ref, refund_ref, request_hash ON credit_refunds
WHEN NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) AND new.request_hash = ''
  AND (new.external_ref IS NULL) = (old.external_ref IS NULL) AND new.external_ref IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'reference' AND old_name = old.external_ref
  )
  AND (new.refund_ref IS NULL) = (old.refund_ref IS NULL) AND new.refund_ref IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'reference' AND old_name = old.refund_ref
  )
) OR EXISTS (
  SELECT 1 FROM credit_refunds WHERE account_id = new.account_id AND external_ref = new.external_ref
    AND (ordinal = new.ordinal OR refund_ref = new.refund_ref)
)
BEGIN
  SELECT RAISE(ABORT, 'credit_refunds_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE after which a refund could be repeated.
CREATE TRIGGER credit_refunds_no_delete BEFORE DELETE ON credit_refunds
BEGIN
  SELECT RAISE(ABORT, 'credit_refunds_append_only');
END;
--> statement-breakpoint
-- An owed amount refers to the entry that could not take it, of a balance that is not revoked. It only decreases (C21).
CREATE TRIGGER refund_owed_of_entry BEFORE INSERT ON refund_owed
WHEN EXISTS (
  SELECT 1 FROM refund_owed WHERE account_id = new.account_id AND balance_id = new.balance_id AND seq = new.seq
) OR NOT EXISTS (
  SELECT 1 FROM credit_ledger AS l CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
  WHERE l.account_id = new.account_id AND l.seq = new.seq AND b.id = new.balance_id
    AND l.reason = 'admin_adjust' AND b.revoked_at_ms IS NULL
)
BEGIN
  SELECT RAISE(ABORT, 'refund_owed_of_entry');
END;
--> statement-breakpoint
-- Stops an UPDATE after which a balance owes more, or for another entry.
CREATE TRIGGER refund_owed_only_falls BEFORE UPDATE ON refund_owed
WHEN new.account_id <> old.account_id OR new.balance_id <> old.balance_id OR new.seq <> old.seq
  OR new.owed_minor > old.owed_minor
BEGIN
  SELECT RAISE(ABORT, 'refund_owed_only_falls');
END;
--> statement-breakpoint
-- A payment's grant refers to an existing balance, once, and is never deleted, because the payment would grant again.
CREATE TRIGGER payment_grants_of_balance BEFORE INSERT ON payment_grants
WHEN NOT EXISTS (
  SELECT 1 FROM credit_balances AS b CROSS JOIN accounts AS a ON a.id = b.account_id
  WHERE b.id = new.balance_id AND b.account_id = new.account_id AND a.environment_id = new.environment_id
) OR EXISTS (SELECT 1 FROM payment_grants WHERE balance_id = new.balance_id)
BEGIN
  SELECT RAISE(ABORT, 'payment_grants_of_balance');
END;
--> statement-breakpoint
-- Stops an UPDATE that would give a grant to another payment's balance.
CREATE TRIGGER payment_grants_frozen BEFORE UPDATE OF balance_id, environment_id, account_id ON payment_grants
BEGIN
  SELECT RAISE(ABORT, 'payment_grants_kept');
END;
--> statement-breakpoint
-- Stops a DELETE after which the payment would grant again.
CREATE TRIGGER payment_grants_no_delete BEFORE DELETE ON payment_grants
BEGIN
  SELECT RAISE(ABORT, 'payment_grants_kept');
END;
--> statement-breakpoint
-- What is kept of a Stripe customer is never lost. Only its name changes, to its keyed hash, when a user is erased (S6).
CREATE TRIGGER stripe_payers_no_replace BEFORE INSERT ON stripe_payers
WHEN EXISTS (SELECT 1 FROM stripe_payers WHERE environment_id = new.environment_id AND customer = new.customer)
BEGIN
  SELECT RAISE(ABORT, 'stripe_payers_key');
END;
--> statement-breakpoint
-- Stops an UPDATE that would give a customer's carry to another row.
CREATE TRIGGER stripe_payers_frozen BEFORE UPDATE OF environment_id, id ON stripe_payers
BEGIN
  SELECT RAISE(ABORT, 'stripe_payers_kept');
END;
--> statement-breakpoint
-- Stops a change of the name to anything but a hash, or of a hash.
CREATE TRIGGER stripe_payers_name_erased BEFORE UPDATE OF customer ON stripe_payers
WHEN old.customer GLOB '#*' OR new.customer NOT GLOB '#*'
BEGIN
  SELECT RAISE(ABORT, 'stripe_payers_kept');
END;
--> statement-breakpoint
-- Stops a DELETE of a carry, which would be lost.
CREATE TRIGGER stripe_payers_no_delete BEFORE DELETE ON stripe_payers
BEGIN
  SELECT RAISE(ABORT, 'stripe_payers_kept');
END;
--> statement-breakpoint
-- A name belongs to one payment. INSERT OR REPLACE would take it away.
CREATE TRIGGER payment_names_no_replace BEFORE INSERT ON payment_names
WHEN EXISTS (SELECT 1 FROM payment_names WHERE environment_id = new.environment_id AND name = new.name)
BEGIN
  SELECT RAISE(ABORT, 'payment_names_taken');
END;
--> statement-breakpoint
-- A usage event has the next seq of its account. This also rejects INSERT OR REPLACE.
CREATE TRIGGER usage_events_seq_gapless BEFORE INSERT ON usage_events
WHEN new.seq <> 1 + coalesce((
  SELECT seq FROM usage_events WHERE account_id = new.account_id ORDER BY seq DESC LIMIT 1
), 0)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_seq_gapless');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE by the event's id, which would record an event twice.
CREATE TRIGGER usage_events_no_replace BEFORE INSERT ON usage_events
WHEN EXISTS (SELECT 1 FROM usage_events WHERE environment_id = new.environment_id AND event_id = new.event_id)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_event_id');
END;
--> statement-breakpoint
-- An eventId is unique in an environment, so the event's environment must be its account's.
CREATE TRIGGER usage_events_of_account BEFORE INSERT ON usage_events
WHEN NOT EXISTS (SELECT 1 FROM accounts WHERE id = new.account_id AND environment_id = new.environment_id)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_of_account');
END;
--> statement-breakpoint
-- A usage event never changes.
CREATE TRIGGER usage_events_frozen BEFORE UPDATE OF
  account_id, seq, environment_id, event, model, count_minor, tokens_minor, seconds_minor, cents_minor,
  meters, price_version, cost_minor, occurred_at_ms, received_after_ms, debits, uncovered, counted ON usage_events
BEGIN
  SELECT RAISE(ABORT, 'usage_events_append_only');
END;
--> statement-breakpoint
-- Stops a change of ids and properties outside an erasure, or to another pseudonym. An erasure of the member replaces ids by hashes
-- (ME6), once, because a cleared event has no fingerprint. Those of a charge stay equal.
CREATE TRIGGER usage_events_names_erased BEFORE UPDATE OF
  event_id, reservation_id, properties, large_properties_bytes, request_hash ON usage_events
WHEN new.properties IS NOT NULL OR new.large_properties_bytes IS NOT NULL OR new.request_hash <> '' OR NOT (
  old.request_hash <> '' AND new.event_id <> old.event_id AND length(new.event_id) = 43 + 4 * (old.event_id GLOB 'res_*')
  AND (new.reservation_id = new.event_id) IS (old.reservation_id = old.event_id)
  AND (old.reservation_id IS NULL OR (new.reservation_id <> old.reservation_id AND length(new.reservation_id) = 47))
  AND EXISTS (
    SELECT 1 FROM members WHERE account_id = old.account_id AND members.member_number = old.member_number AND is_erased = 1
  )
) AND NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id)
  AND (new.event_id IS NULL) = (old.event_id IS NULL) AND new.event_id IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.event_id
  )
  AND (new.reservation_id IS NULL) = (old.reservation_id IS NULL) AND new.reservation_id IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.reservation_id
  )
) OR EXISTS (SELECT 1 FROM usage_events WHERE environment_id = new.environment_id AND event_id = new.event_id)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_append_only');
END;
--> statement-breakpoint
-- An event keeps its member, which only an erasure of its payer takes off (ME6).
CREATE TRIGGER usage_events_keep_member BEFORE UPDATE OF member_number ON usage_events
WHEN new.member_number IS NOT old.member_number AND NOT (
  new.member_number IS NULL AND EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id)
)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE after which a repeated event would debit again.
CREATE TRIGGER usage_events_no_delete BEFORE DELETE ON usage_events
BEGIN
  SELECT RAISE(ABORT, 'usage_events_append_only');
END;
--> statement-breakpoint
-- Large properties are written before their event, which has their number of bytes. So no event lacks its properties.
CREATE TRIGGER usage_events_large_properties BEFORE INSERT ON usage_events
WHEN new.large_properties_bytes IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM large_properties
  WHERE account_id = new.account_id AND seq = new.seq
    AND octet_length(properties) = new.large_properties_bytes
)
BEGIN
  SELECT RAISE(ABORT, 'usage_events_large_properties');
END;
--> statement-breakpoint
-- Large properties belong to a new event. An existing event cannot get any.
CREATE TRIGGER large_properties_of_event BEFORE INSERT ON large_properties
WHEN NOT coalesce((
  SELECT new.seq > seq FROM usage_events WHERE account_id = new.account_id ORDER BY seq DESC LIMIT 1
), EXISTS (SELECT 1 FROM accounts WHERE id = new.account_id))
BEGIN
  SELECT RAISE(ABORT, 'large_properties_of_event');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE, which would change an event's properties.
CREATE TRIGGER large_properties_no_replace BEFORE INSERT ON large_properties
WHEN EXISTS (
  SELECT 1 FROM large_properties
  WHERE account_id = new.account_id AND seq = new.seq
)
BEGIN
  SELECT RAISE(ABORT, 'large_properties_primary_key');
END;
--> statement-breakpoint
-- Stops an UPDATE of an event's properties.
CREATE TRIGGER large_properties_no_update BEFORE UPDATE ON large_properties
BEGIN
  SELECT RAISE(ABORT, 'large_properties_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE outside an erasure, or while the event still refers to them.
CREATE TRIGGER large_properties_no_delete BEFORE DELETE ON large_properties
WHEN NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) OR EXISTS (
  SELECT 1 FROM usage_events CROSS JOIN members ON members.account_id = old.account_id AND members.member_number = usage_events.member_number
  WHERE usage_events.account_id = old.account_id AND seq = old.seq AND is_erased = 1
)) OR EXISTS (
  SELECT 1 FROM usage_events
  WHERE account_id = old.account_id AND seq = old.seq
    AND large_properties_bytes IS NOT NULL
)
BEGIN
  SELECT RAISE(ABORT, 'large_properties_append_only');
END;
--> statement-breakpoint
-- An adjustment is never deleted, because it could then be repeated. Its row comes first in its batch, and has the seq of its entry.
CREATE TRIGGER credit_adjustments_no_replace BEFORE INSERT ON credit_adjustments
WHEN EXISTS (SELECT 1 FROM credit_adjustments WHERE environment_id = new.environment_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'credit_adjustments_primary_key');
END;
--> statement-breakpoint
-- Stops an adjustment of a balance of another user or environment.
CREATE TRIGGER credit_adjustments_of_balance BEFORE INSERT ON credit_adjustments
WHEN NOT EXISTS (
  SELECT 1 FROM credit_balances AS b CROSS JOIN accounts AS a ON a.id = b.account_id
  WHERE b.id = new.balance_id AND b.account_id = new.account_id AND a.environment_id = new.environment_id
)
BEGIN
  SELECT RAISE(ABORT, 'credit_adjustments_of_balance');
END;
--> statement-breakpoint
-- Stops an UPDATE that would connect an adjustment with another entry.
CREATE TRIGGER credit_adjustments_frozen BEFORE UPDATE OF environment_id, account_id, balance_id, seq ON credit_adjustments
BEGIN
  SELECT RAISE(ABORT, 'credit_adjustments_append_only');
END;
--> statement-breakpoint
-- Stops a change of ids outside an erasure, or to another pseudonym.
CREATE TRIGGER credit_adjustments_names_erased BEFORE UPDATE OF id, request_hash ON credit_adjustments
WHEN NOT (EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) AND new.request_hash = ''
  AND (new.id IS NULL) = (old.id IS NULL) AND new.id IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.id
  )
) OR EXISTS (SELECT 1 FROM credit_adjustments WHERE environment_id = new.environment_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'credit_adjustments_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE after which an adjustment could be repeated.
CREATE TRIGGER credit_adjustments_no_delete BEFORE DELETE ON credit_adjustments
BEGIN
  SELECT RAISE(ABORT, 'credit_adjustments_append_only');
END;
--> statement-breakpoint
-- A reservation is settled once. An expired one may still be committed once: it stays expired, and has the event. An erasure
-- changes only names, which reservations_names_erased checks.
CREATE TRIGGER reservations_settled_once BEFORE UPDATE ON reservations
WHEN old.state <> 'open' AND NOT (
  old.state = 'expired' AND new.state = 'expired' AND old.settled_event_seq IS NULL AND new.settled_event_seq IS NOT NULL
  AND new.settled_seq IS old.settled_seq
) AND NOT (
  new.id <> old.id AND new.state = old.state AND new.settled_at_ms = old.settled_at_ms
  AND new.expires_at_ms = old.expires_at_ms
  AND new.settled_seq IS old.settled_seq AND new.settled_event_seq IS old.settled_event_seq
)
BEGIN
  SELECT RAISE(ABORT, 'reservations_settled_once');
END;
--> statement-breakpoint
-- Each hold returns once, at the seqs that the settlement names. A later return would need one of these seqs, which are taken. So no
-- hold has to be looked up. The guard `settlement` rejects a settlement whose returns are missing.
CREATE TRIGGER credit_ledger_returns_by_settlement BEFORE INSERT ON credit_ledger
WHEN new.reason IN ('reservation_released', 'reservation_expired') AND NOT EXISTS (
  SELECT 1 FROM reservations AS r
  WHERE r.account_id = new.account_id AND r.reservation_number = new.reservation_number AND r.state <> 'open'
    AND (r.state = 'expired') = (new.reason = 'reservation_expired')
    AND new.seq >= r.settled_seq AND new.seq < r.settled_seq + r.leg_count
    AND (r.leg_count > 100 OR (
      r.legs ->> ('$[' || (new.seq - r.settled_seq) || '][0]') = new.grant_seq
      AND r.legs ->> ('$[' || (new.seq - r.settled_seq) || '][2]') = new.delta_minor
    ))
)
BEGIN
  SELECT RAISE(ABORT, 'credit_ledger_returns_by_settlement');
END;
--> statement-breakpoint
-- The holds, the user and the purpose of a reservation never change. Only its end, its state and its event do.
CREATE TRIGGER reservations_frozen BEFORE UPDATE OF
  account_id, reservation_number, environment_id, created_at_seq, event, model, quantities, meters, price_version, cost_minor, legs, counted, is_charged, created_at_ms ON reservations
BEGIN
  SELECT RAISE(ABORT, 'reservations_frozen');
END;
--> statement-breakpoint
-- A hold keeps its member, which only an erasure of its payer takes off, once it is settled (ME6).
CREATE TRIGGER reservations_keep_member BEFORE UPDATE OF member_number ON reservations
WHEN new.member_number IS NOT old.member_number AND NOT (
  new.member_number IS NULL AND old.state <> 'open' AND EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id)
)
BEGIN
  SELECT RAISE(ABORT, 'reservations_frozen');
END;
--> statement-breakpoint
-- Stops a change of ids outside an erasure, or to another pseudonym. An erasure of the member replaces the id by a hash, once (ME6);
-- that of the payer, which releases open reservations first, by a random id.
CREATE TRIGGER reservations_names_erased BEFORE UPDATE ON reservations
WHEN (new.id <> old.id OR new.request_hash <> old.request_hash) AND (new.request_hash <> '' OR NOT (
  old.request_hash <> '' AND new.id <> old.id AND new.id GLOB 'res_*' AND length(new.id) = 47 AND new.state = old.state AND EXISTS (
    SELECT 1 FROM members WHERE account_id = old.account_id AND members.member_number = old.member_number AND is_erased = 1
  )
) AND NOT (
  EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id) AND old.state <> 'open'
  AND (new.id IS NULL) = (old.id IS NULL) AND new.id IS (
    SELECT new_name FROM erasure_names WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.id
  )
) OR EXISTS (SELECT 1 FROM reservations WHERE environment_id = new.environment_id AND id = new.id))
BEGIN
  SELECT RAISE(ABORT, 'reservations_frozen');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE by the id, after which the first hold would never return.
CREATE TRIGGER reservations_no_replace BEFORE INSERT ON reservations
WHEN EXISTS (SELECT 1 FROM reservations WHERE environment_id = new.environment_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'reservations_id');
END;
--> statement-breakpoint
-- A reservation has the next number of its account. This also rejects INSERT OR REPLACE by the number.
CREATE TRIGGER reservations_number_gapless BEFORE INSERT ON reservations
WHEN new.reservation_number <> 1 + coalesce((
  SELECT reservation_number FROM reservations WHERE account_id = new.account_id ORDER BY reservation_number DESC LIMIT 1
), 0)
BEGIN
  SELECT RAISE(ABORT, 'reservations_number_gapless');
END;
--> statement-breakpoint
-- Stops a reservation of another environment's account.
CREATE TRIGGER reservations_of_account BEFORE INSERT ON reservations
WHEN NOT EXISTS (SELECT 1 FROM accounts WHERE id = new.account_id AND environment_id = new.environment_id)
BEGIN
  SELECT RAISE(ABORT, 'reservations_of_account');
END;
--> statement-breakpoint
-- Stops a DELETE after which a hold would never return.
CREATE TRIGGER reservations_no_delete BEFORE DELETE ON reservations
BEGIN
  SELECT RAISE(ABORT, 'reservations_kept');
END;
--> statement-breakpoint
-- An extension moves the end of a reservation only to a later time.
CREATE TRIGGER reservations_end_not_earlier BEFORE UPDATE OF expires_at_ms ON reservations
WHEN new.expires_at_ms < old.expires_at_ms
BEGIN
  SELECT RAISE(ABORT, 'reservations_end_not_earlier');
END;
--> statement-breakpoint
-- Counts the usage in `counted` of events and reservations. The next window overwrites a counter. The batch aborts if the usage
-- may be rejected and would exceed the user's amount (Q4, Q5). `isKept`: it is already counted.
-- A count with `isMember` is the member's of the row; the others are the payer's (ME2).
CREATE VIEW usage_counts (environment_id, account_id, member_number, at_ms, counted) AS
SELECT environment_id, account_id, member_number, received_at_ms, counted FROM usage_events WHERE counted IS NOT NULL;
--> statement-breakpoint
-- Stops two racing requests that are within a limit only alone, and a count in another window than the one that runs. Its planner
-- has not read the counter, and has another version of the time zones' rules or a slow clock (TZ1).
CREATE TRIGGER usage_counts_add INSTEAD OF INSERT ON usage_counts
BEGIN
  INSERT INTO usage_counters (
    environment_id, limit_id, account_id, member_number, end_ms, used_minor, reached_count, amount_minor, is_enforced
  )
  SELECT new.environment_id, value ->> 'limitId', new.account_id, iif(value ->> 'isMember', new.member_number, 0), value ->> 'endMs', value ->> 'minor',
    value ->> 'minor' >= value ->> 'amountMinor', value ->> 'amountMinor', coalesce(value ->> 'isEnforced', 0)
  FROM json_each(new.counted) WHERE value ->> 'isKept' IS NULL
  ON CONFLICT (environment_id, limit_id, account_id, member_number) DO UPDATE SET
    end_ms = iif(end_ms > new.at_ms AND end_ms <> excluded.end_ms, RAISE(ABORT, 'usage_counters_window'), excluded.end_ms),
    used_minor = iif(
      excluded.is_enforced AND iif(end_ms = excluded.end_ms, used_minor, 0) + excluded.used_minor
        > iif(has_override, override_minor, excluded.amount_minor),
      RAISE(ABORT, 'usage_limit_reached'),
      min(iif(end_ms = excluded.end_ms, used_minor, 0) + excluded.used_minor, 9007199254740991)
    ),
    reached_count = iif(
      end_ms = excluded.end_ms AND reached_count > 0, reached_count + 1,
      coalesce(iif(end_ms = excluded.end_ms, used_minor, 0) + excluded.used_minor
        >= iif(has_override, override_minor, excluded.amount_minor), 0)
    ),
    amount_minor = excluded.amount_minor, is_enforced = excluded.is_enforced;
END;
--> statement-breakpoint
-- Stops a first usage that is above its limit alone. The upsert checks only later ones.
CREATE TRIGGER usage_counters_first AFTER INSERT ON usage_counters
WHEN new.is_enforced = 1 AND new.used_minor > new.amount_minor
BEGIN
  SELECT RAISE(ABORT, 'usage_limit_reached');
END;
--> statement-breakpoint
-- An account's first event that is not in a day sum sets the account's mark (U18).
CREATE TRIGGER usage_events_to_sum AFTER INSERT ON usage_events
WHEN NOT EXISTS (SELECT 1 FROM usage_to_sum WHERE environment_id = new.environment_id AND account_id = new.account_id)
BEGIN
  INSERT INTO usage_to_sum (environment_id, account_id, seq, received_at_ms)
  VALUES (new.environment_id, new.account_id, new.seq, new.received_at_ms);
END;
--> statement-breakpoint
-- Events are summed once: the batch with their sums moves the account's mark to the first later event, or deletes it.
CREATE VIEW usage_summed (environment_id, account_id, seq, last_seq) AS
SELECT environment_id, account_id, seq, 0 FROM usage_to_sum;
--> statement-breakpoint
-- Stops two runs of the cron that sum the same events.
CREATE TRIGGER usage_summed_once INSTEAD OF INSERT ON usage_summed
BEGIN
  DELETE FROM usage_to_sum
  WHERE environment_id = new.environment_id AND account_id = new.account_id AND seq = new.seq;
  SELECT RAISE(ABORT, 'usage_summed_once') WHERE changes() = 0;
  INSERT INTO usage_to_sum (environment_id, account_id, seq, received_at_ms)
  SELECT new.environment_id, account_id, seq, received_at_ms FROM usage_events
  WHERE account_id = new.account_id AND seq > new.last_seq ORDER BY seq LIMIT 1;
END;
--> statement-breakpoint
-- Stops an event that its limits do not count.
CREATE TRIGGER usage_events_count AFTER INSERT ON usage_events
WHEN new.counted IS NOT NULL
BEGIN
  INSERT INTO usage_counts (environment_id, account_id, member_number, at_ms, counted)
  VALUES (new.environment_id, new.account_id, new.member_number, new.received_at_ms, new.counted);
END;
--> statement-breakpoint
-- Stops a reservation that its limits do not count.
CREATE TRIGGER reservations_count AFTER INSERT ON reservations
WHEN new.counted IS NOT NULL
BEGIN
  INSERT INTO usage_counts (environment_id, account_id, member_number, at_ms, counted)
  VALUES (new.environment_id, new.account_id, new.member_number, new.created_at_ms, new.counted);
END;
--> statement-breakpoint
-- Settling a reservation subtracts what it counted, in the window in which it counted. A charge, whose event is written first,
-- keeps the count (Q3), but not that of a member whom the event lacks because the member was erased (ME6).
CREATE TRIGGER reservations_uncount AFTER UPDATE OF state ON reservations
WHEN old.state = 'open' AND new.state <> 'open' AND new.counted IS NOT NULL
BEGIN
  UPDATE usage_counters SET used_minor = max(0, used_minor - (n.value ->> 'minor')) FROM json_each(new.counted) AS n
  WHERE environment_id = new.environment_id AND limit_id = n.value ->> 'limitId' AND account_id = new.account_id
    AND member_number = iif(n.value ->> 'isMember', old.member_number, 0) AND end_ms = n.value ->> 'endMs'
    AND NOT EXISTS (
      SELECT 1 FROM usage_events AS charge
      WHERE charge.account_id = new.account_id AND charge.seq = new.settled_event_seq AND charge.reservation_id = new.id
        AND (n.value ->> 'isMember' IS NULL OR charge.member_number IS NOT NULL)
    );
END;
--> statement-breakpoint
-- A version of a price list never changes. It may be deleted, once.
CREATE TRIGGER price_lists_frozen BEFORE UPDATE OF
  environment_id, version, effective_at_ms, created_at_ms, note, rules, costs ON price_lists
BEGIN
  SELECT RAISE(ABORT, 'price_lists_frozen');
END;
--> statement-breakpoint
-- Stops an UPDATE that would bring a deleted version back.
CREATE TRIGGER price_lists_deleted_once BEFORE UPDATE ON price_lists
WHEN old.is_deleted = 1
BEGIN
  SELECT RAISE(ABORT, 'price_lists_frozen');
END;
--> statement-breakpoint
-- Stops a DELETE of a version that events name.
CREATE TRIGGER price_lists_no_delete BEFORE DELETE ON price_lists
BEGIN
  SELECT RAISE(ABORT, 'price_lists_frozen');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE, which would change a version.
CREATE TRIGGER price_lists_no_replace BEFORE INSERT ON price_lists
WHEN EXISTS (SELECT 1 FROM price_lists WHERE environment_id = new.environment_id AND version = new.version)
BEGIN
  SELECT RAISE(ABORT, 'price_lists_frozen');
END;
--> statement-breakpoint
-- A limit's unit, window, time zone and rules never change. Its counters exist as long as the limit.
CREATE TRIGGER usage_limits_frozen BEFORE UPDATE OF
  environment_id, id, ordinal, matches, unit, every, per, time_zone, created_at_ms ON usage_limits
BEGIN
  SELECT RAISE(ABORT, 'usage_limits_frozen');
END;
--> statement-breakpoint
-- Stops an UPDATE that would bring a deleted limit back, without its counters.
CREATE TRIGGER usage_limits_deleted_once BEFORE UPDATE ON usage_limits
WHEN old.is_deleted = 1
BEGIN
  SELECT RAISE(ABORT, 'usage_limits_frozen');
END;
--> statement-breakpoint
-- Stops a DELETE after which a user could use a limit's amount again.
CREATE TRIGGER usage_counters_no_delete BEFORE DELETE ON usage_counters
WHEN EXISTS (
  SELECT 1 FROM usage_limits WHERE environment_id = old.environment_id AND id = old.limit_id AND is_deleted = 0
) AND NOT (old.member_number > 0 AND EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = old.account_id))
BEGIN
  SELECT RAISE(ABORT, 'usage_counters_kept');
END;
--> statement-breakpoint
-- The conditions of a batch, inserted by its first statements. A false condition aborts the whole batch. Nothing is stored.
CREATE VIEW guards (name, holds) AS SELECT '', 1;
--> statement-breakpoint
-- Stops the write of a key that is revoked, or has another environment or kind.
CREATE TRIGGER guards_key INSTEAD OF INSERT ON guards
WHEN new.name = 'key' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_key');
END;
--> statement-breakpoint
-- Stops the write of a page whose origin is not allowed (L4).
CREATE TRIGGER guards_origin INSTEAD OF INSERT ON guards
WHEN new.name = 'origin' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_origin');
END;
--> statement-breakpoint
-- Stops a plan on an account that has changed in a way that the plan does not allow.
CREATE TRIGGER guards_account INSTEAD OF INSERT ON guards
WHEN new.name = 'account' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_account');
END;
--> statement-breakpoint
-- Stops a plan on a settings snapshot that has changed, and a page of the cron that another run has done.
CREATE TRIGGER guards_environment INSTEAD OF INSERT ON guards
WHEN new.name = 'environment' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_environment');
END;
--> statement-breakpoint
-- Stops a write to a balance that was revoked since the read.
CREATE TRIGGER guards_balance INSTEAD OF INSERT ON guards
WHEN new.name = 'balance' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_balance');
END;
--> statement-breakpoint
-- Stops a write to a payment or a customer of Stripe that has changed since the read.
CREATE TRIGGER guards_payment INSTEAD OF INSERT ON guards
WHEN new.name = 'payment' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_payment');
END;
--> statement-breakpoint
-- Stops a write for somebody who was erased since the read.
CREATE TRIGGER guards_person INSTEAD OF INSERT ON guards
WHEN new.name = 'person' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_person');
END;
--> statement-breakpoint
-- Stops a use of a download link that has ended since the read.
CREATE TRIGGER guards_link INSTEAD OF INSERT ON guards
WHEN new.name = 'link' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_link');
END;
--> statement-breakpoint
-- Stops a settlement that forgets a return, which would lose credits.
CREATE TRIGGER guards_settlement INSTEAD OF INSERT ON guards
WHEN new.name = 'settlement' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_settlement');
END;
--> statement-breakpoint
-- Stops an account that owes more amounts than one settlement can pay (L6).
CREATE TRIGGER guards_owed INSTEAD OF INSERT ON guards
WHEN new.name = 'owed' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_owed');
END;
--> statement-breakpoint
-- Stops a page of a statement that another run has added.
CREATE TRIGGER guards_statement INSTEAD OF INSERT ON guards
WHEN new.name = 'statement' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_statement');
END;
--> statement-breakpoint
-- A finished monthly statement never changes.
CREATE TRIGGER statements_kept BEFORE UPDATE ON statements
WHEN old.completed_at_ms IS NOT NULL OR new.environment_id <> old.environment_id OR new.month <> old.month OR new.id <> old.id
BEGIN
  SELECT RAISE(ABORT, 'statements_kept');
END;
--> statement-breakpoint
-- Stops a DELETE after which a month could be closed with other figures.
CREATE TRIGGER statements_no_delete BEFORE DELETE ON statements
BEGIN
  SELECT RAISE(ABORT, 'statements_kept');
END;
--> statement-breakpoint
-- Stops INSERT OR REPLACE, which would close a month again.
CREATE TRIGGER statements_no_replace BEFORE INSERT ON statements
WHEN EXISTS (SELECT 1 FROM statements WHERE environment_id = new.environment_id AND month = new.month)
  OR EXISTS (SELECT 1 FROM statements WHERE id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'statements_kept');
END;
--> statement-breakpoint
-- Stops a DELETE of a line.
CREATE TRIGGER statement_lines_no_delete BEFORE DELETE ON statement_lines
BEGIN
  SELECT RAISE(ABORT, 'statements_kept');
END;
--> statement-breakpoint
-- Stops a change of a line after its statement is finished.
CREATE TRIGGER statement_lines_kept BEFORE UPDATE ON statement_lines
WHEN EXISTS (SELECT 1 FROM statements WHERE id = old.statement_id AND completed_at_ms IS NOT NULL)
BEGIN
  SELECT RAISE(ABORT, 'statements_kept');
END;
--> statement-breakpoint
-- Stops a write for an id whose tombstone the isolate did not know.
CREATE TRIGGER guards_tombstones INSTEAD OF INSERT ON guards
WHEN new.name = 'tombstones' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_tombstones');
END;
--> statement-breakpoint
-- Stops a write from an outdated read or memory of people.
CREATE TRIGGER guards_people INSTEAD OF INSERT ON guards
WHEN new.name = 'people' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'guard_people');
END;
--> statement-breakpoint
-- Stops a capture beyond the day's events (L3).
CREATE TRIGGER guards_events INSTEAD OF INSERT ON guards
WHEN new.name = 'events' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'limit_events');
END;
--> statement-breakpoint
-- Stops a capture beyond the day's bytes (L3).
CREATE TRIGGER guards_bytes INSTEAD OF INSERT ON guards
WHEN new.name = 'bytes' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'limit_bytes');
END;
--> statement-breakpoint
-- Stops a capture of unmarked ids beyond their share of the day (L3).
CREATE TRIGGER guards_share INSTEAD OF INSERT ON guards
WHEN new.name = 'share' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'limit_share');
END;
--> statement-breakpoint
-- Stops a capture in a database that is nearly full (L3).
CREATE TRIGGER guards_space INSTEAD OF INSERT ON guards
WHEN new.name = 'space' AND NOT new.holds
BEGIN
  SELECT RAISE(ABORT, 'limit_space');
END;
--> statement-breakpoint
INSERT INTO database_size (id, bytes, freed_bytes) VALUES (1, 0, 0);
--> statement-breakpoint
-- Counts the analytics that a batch added to a day, and aborts above a limit of the environment. id_events and id_bytes are the
-- counts of the largest of its ids. Ids without a verified mark fill at most three quarters. Whether a batch fits into these depends
-- on all its events, so that the answer does not tell which ids have a mark. With is_share_full it has only ids with a mark.
CREATE VIEW analytics_counts (
  environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents, is_share_full
) AS
SELECT environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents, 0 FROM analytics_days;
--> statement-breakpoint
-- Stops two racing captures that are within a limit only alone.
CREATE TRIGGER analytics_counts_within_limits INSTEAD OF INSERT ON analytics_counts
BEGIN
  SELECT
    iif(new.id_events > coalesce(e.analytics_limits ->> 'eventsADayOfOneId', 100000), RAISE(ABORT, 'limit_id_events'), 0),
    iif(new.id_bytes > coalesce(e.analytics_limits ->> 'bytesADayOfOneId', 104857600), RAISE(ABORT, 'limit_id_bytes'), 0),
    iif(NOT new.is_share_full AND d.reached_limits IS coalesce(e.analytics_limits, ''), RAISE(ABORT, 'limit_share'), 0),
    iif(NOT new.is_share_full AND coalesce(d.unmarked_events, 0) + new.unmarked_events > 0 AND
      4 * (coalesce(d.unmarked_events, 0) + new.events) > 3 * coalesce(e.analytics_limits ->> 'eventsADay', 1000000),
      RAISE(ABORT, 'limit_unmarked_events'), 0),
    iif(NOT new.is_share_full AND coalesce(d.unmarked_events, 0) + new.unmarked_events > 0 AND
      4 * (coalesce(d.unmarked_bytes, 0) + new.bytes) > 3 * coalesce(e.analytics_limits ->> 'bytesADay', 1073741824),
      RAISE(ABORT, 'limit_unmarked_bytes'), 0),
    iif(new.events > 0 AND coalesce(d.events, 0) + new.events > coalesce(e.analytics_limits ->> 'eventsADay', 1000000),
      RAISE(ABORT, 'limit_events'), 0),
    iif(new.bytes > 0 AND coalesce(d.bytes, 0) + new.bytes > coalesce(e.analytics_limits ->> 'bytesADay', 1073741824),
      RAISE(ABORT, 'limit_bytes'), 0),
    iif(new.consents > 0 AND coalesce(d.consents, 0) + new.consents > coalesce(e.analytics_limits ->> 'eventsADay', 1000000),
      RAISE(ABORT, 'limit_consents'), 0)
  FROM environments AS e LEFT JOIN analytics_days AS d ON d.environment_id = e.id AND d.day = new.day
  WHERE e.id = new.environment_id;
  INSERT INTO analytics_days (environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents)
  VALUES (new.environment_id, new.day, new.events, new.bytes, new.unmarked_events, new.unmarked_bytes,
    new.id_events, new.id_bytes, new.consents)
  ON CONFLICT (environment_id, day) DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes,
    unmarked_events = unmarked_events + excluded.unmarked_events, unmarked_bytes = unmarked_bytes + excluded.unmarked_bytes,
    id_events = max(id_events, excluded.id_events), id_bytes = max(id_bytes, excluded.id_bytes),
    consents = consents + excluded.consents;
END;
--> statement-breakpoint
-- An event never changes. It is deleted only after the record of its id counts it as deleted, the oldest first (E8), or with its
-- id in an erasure, which a running export notices, or after a verified event replaced it (P4).
CREATE TRIGGER analytics_events_kept BEFORE DELETE ON analytics_events
WHEN old.replaced_by IS NULL AND NOT EXISTS (
  SELECT 1 FROM erasure_ids WHERE environment_id = old.environment_id AND distinct_id = old.distinct_id
) AND NOT EXISTS (
  SELECT 1 FROM distinct_ids
  WHERE environment_id = old.environment_id AND distinct_id = old.distinct_id AND deleted_count >= old.seq
)
BEGIN
  SELECT RAISE(ABORT, 'analytics_events_kept');
END;
--> statement-breakpoint
-- INSERT OR REPLACE fires no DELETE trigger, so it is rejected here.
CREATE TRIGGER analytics_events_no_replace BEFORE INSERT ON analytics_events
WHEN EXISTS (
  SELECT 1 FROM analytics_events
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND seq = new.seq
) OR EXISTS (
  SELECT 1 FROM analytics_events
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND uuid = new.uuid AND is_verified >= new.is_verified
) OR new.replaced_by IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'analytics_events_kept');
END;
--> statement-breakpoint
-- A verified event replaces the one with its id and UUID that is not. Exports of before still read that one, by the seq.
CREATE TRIGGER analytics_events_replace AFTER INSERT ON analytics_events
WHEN new.is_verified = 1
BEGIN
  UPDATE analytics_events SET replaced_by = new.seq, replaced_at_ms = new.received_at_ms - coalesce(new.ahead_ms, 0)
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND uuid = new.uuid AND is_verified = 0;
END;
--> statement-breakpoint
-- Stops counts of an id that still include a replaced event.
CREATE TRIGGER analytics_events_replaced AFTER UPDATE OF replaced_by ON analytics_events
BEGIN
  UPDATE distinct_ids SET replaced_count = replaced_count + 1, event_bytes = event_bytes - octet_length(new.properties)
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id;
END;
--> statement-breakpoint
-- Stops every UPDATE except the mark of a replacement.
CREATE TRIGGER analytics_events_no_update BEFORE UPDATE ON analytics_events
WHEN old.replaced_by IS NOT NULL OR old.is_verified = 1 OR new.environment_id <> old.environment_id
  OR new.distinct_id <> old.distinct_id OR new.seq <> old.seq OR new.uuid <> old.uuid OR new.event <> old.event
  OR new.timestamp_ms <> old.timestamp_ms OR new.received_at_ms <> old.received_at_ms OR new.ahead_ms IS NOT old.ahead_ms
  OR new.is_verified <> old.is_verified OR new.properties <> old.properties
  OR NOT EXISTS (
    SELECT 1 FROM analytics_events
    WHERE environment_id = old.environment_id AND distinct_id = old.distinct_id AND uuid = old.uuid AND is_verified = 1
      AND seq = new.replaced_by
  )
BEGIN
  SELECT RAISE(ABORT, 'analytics_events_kept');
END;
--> statement-breakpoint
-- Only an erasure deletes the record of an id. Its counts never decrease.
CREATE TRIGGER distinct_ids_kept BEFORE DELETE ON distinct_ids
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_ids WHERE environment_id = old.environment_id AND distinct_id = old.distinct_id
)
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_kept');
END;
--> statement-breakpoint
-- INSERT OR REPLACE fires no DELETE trigger, so it is rejected here. The upserts that change known ids send -1 as the time of the
-- first use, which is never stored.
CREATE TRIGGER distinct_ids_no_replace BEFORE INSERT ON distinct_ids
WHEN new.first_seen_at_ms <> -1 AND EXISTS (
  SELECT 1 FROM distinct_ids WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id
)
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_kept');
END;
--> statement-breakpoint
-- Stops an upsert that inserts an id that it should only change.
CREATE TRIGGER distinct_ids_first_seen AFTER INSERT ON distinct_ids
WHEN new.first_seen_at_ms = -1
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_kept');
END;
--> statement-breakpoint
-- Stops counts that fall, by which exports and deletions find events.
CREATE TRIGGER distinct_ids_counts_grow BEFORE UPDATE OF environment_id, distinct_id, event_count, deleted_count ON distinct_ids
WHEN new.environment_id <> old.environment_id OR new.distinct_id <> old.distinct_id
  OR new.event_count < old.event_count OR new.deleted_count < old.deleted_count
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_kept');
END;
--> statement-breakpoint
-- A change of a claim must know its latest version.
CREATE TRIGGER distinct_ids_claim_version BEFORE UPDATE OF
  claimed_by, claimed_via, claimed_at_ms, claim_is_verified, claim_version ON distinct_ids
WHEN new.claim_version <> old.claim_version + 1
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_claim_version');
END;
--> statement-breakpoint
-- A verified claim stays. An unverified one may end, or be replaced by a verified one.
CREATE TRIGGER distinct_ids_claim_stays BEFORE UPDATE OF claimed_by, claim_is_verified ON distinct_ids
WHEN old.claimed_by IS NOT NULL AND new.claim_version = old.claim_version + 1
  AND (new.claimed_by IS NOT old.claimed_by OR new.claim_is_verified <> old.claim_is_verified)
  AND (old.claim_is_verified = 1 OR (new.claimed_by IS NOT NULL AND new.claim_is_verified = 0))
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_claim_stays');
END;
--> statement-breakpoint
-- Verified claims form no circle, in which a read would never end. An id without claims cannot close one. An id that is reached
-- by an unverified claim makes no claims that count.
CREATE TRIGGER distinct_ids_no_circle BEFORE UPDATE OF claimed_by, claim_is_verified ON distinct_ids
WHEN new.claim_is_verified = 1 AND (new.claimed_by IS NOT old.claimed_by OR old.claim_is_verified = 0) AND EXISTS (
  SELECT 1 FROM distinct_ids INDEXED BY distinct_ids_claimed_by
  WHERE environment_id = new.environment_id AND claimed_by = new.distinct_id AND claimed_by IS NOT NULL
) AND EXISTS (
  WITH RECURSIVE above (distinct_id) AS (
    SELECT new.claimed_by
    UNION
    SELECT d.claimed_by FROM above CROSS JOIN distinct_ids AS d
    WHERE d.environment_id = new.environment_id AND d.distinct_id = above.distinct_id AND d.claim_is_verified = 1
  )
  SELECT 1 FROM above WHERE distinct_id = new.distinct_id
)
BEGIN
  SELECT RAISE(ABORT, 'distinct_ids_no_circle');
END;
--> statement-breakpoint
-- A change of properties must know their latest version.
CREATE TRIGGER id_properties_version BEFORE INSERT ON id_properties
WHEN new.version <> 1 + coalesce((
  SELECT version FROM id_properties
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND is_verified = new.is_verified
), 0)
BEGIN
  SELECT RAISE(ABORT, 'id_properties_version');
END;
--> statement-breakpoint
-- Stops a gap or a second decision with one seq, also by INSERT OR REPLACE.
CREATE TRIGGER consent_log_seq_gapless BEFORE INSERT ON consent_log
WHEN new.seq <> 1 + coalesce((
  SELECT seq FROM consent_log
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id ORDER BY seq DESC LIMIT 1
), 0)
BEGIN
  SELECT RAISE(ABORT, 'consent_log_seq_gapless');
END;
--> statement-breakpoint
-- Stops a change of a decision.
CREATE TRIGGER consent_log_frozen BEFORE UPDATE OF
  environment_id, id, purpose, decision, method, notice_version, source, gpc, is_device, day_place,
  occurred_at_ms, received_at_ms ON consent_log
BEGIN
  SELECT RAISE(ABORT, 'consent_log_append_only');
END;
--> statement-breakpoint
-- With an erased id's hash, the sequence continues from the existing rows.
CREATE TRIGGER consent_log_name_erased BEFORE UPDATE OF distinct_id, seq ON consent_log
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_ids AS i CROSS JOIN erasures AS e ON e.environment_id = i.environment_id AND e.id = i.erasure_id
  WHERE i.environment_id = old.environment_id AND i.distinct_id = old.distinct_id AND i.hash = new.distinct_id AND e.keep_consent = 1
) OR EXISTS (
  SELECT 1 FROM consent_log
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND seq = new.seq
)
BEGIN
  SELECT RAISE(ABORT, 'consent_log_append_only');
END;
--> statement-breakpoint
-- Stops a DELETE outside an erasure that deletes consent.
CREATE TRIGGER consent_log_no_delete BEFORE DELETE ON consent_log
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_ids AS i CROSS JOIN erasures AS e ON e.environment_id = i.environment_id AND e.id = i.erasure_id
  WHERE i.environment_id = old.environment_id AND i.distinct_id = old.distinct_id AND e.keep_consent = 0
)
BEGIN
  SELECT RAISE(ABORT, 'consent_log_append_only');
END;
--> statement-breakpoint
-- Stops a gap or a second row with one seq, also by INSERT OR REPLACE.
CREATE TRIGGER export_audit_seq_gapless BEFORE INSERT ON export_audit
WHEN new.seq <> 1 + coalesce((
  SELECT seq FROM export_audit
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id ORDER BY seq DESC LIMIT 1
), 0)
BEGIN
  SELECT RAISE(ABORT, 'export_audit_seq_gapless');
END;
--> statement-breakpoint
-- Stops a change of what was exported to whom.
CREATE TRIGGER export_audit_frozen BEFORE UPDATE OF
  environment_id, id, action, token_hash, key_id, occurred_at_ms, expires_at_ms ON export_audit
BEGIN
  SELECT RAISE(ABORT, 'export_audit_append_only');
END;
--> statement-breakpoint
-- With an erased id's hash, the sequence continues from the existing rows.
CREATE TRIGGER export_audit_name_erased BEFORE UPDATE OF distinct_id, seq ON export_audit
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_ids AS i
  WHERE i.environment_id = old.environment_id AND i.distinct_id = old.distinct_id AND i.hash = new.distinct_id
) OR EXISTS (
  SELECT 1 FROM export_audit
  WHERE environment_id = new.environment_id AND distinct_id = new.distinct_id AND seq = new.seq
)
BEGIN
  SELECT RAISE(ABORT, 'export_audit_append_only');
END;
--> statement-breakpoint
-- Stops every DELETE.
CREATE TRIGGER export_audit_no_delete BEFORE DELETE ON export_audit
BEGIN
  SELECT RAISE(ABORT, 'export_audit_append_only');
END;
--> statement-breakpoint
-- A change of a pack must know its latest version. It keeps the pack's number, and the numbers of items are never used again.
CREATE TRIGGER credit_packs_version BEFORE UPDATE ON credit_packs
WHEN new.version <> old.version + 1 OR new.pack_number <> old.pack_number OR new.last_item_number < old.last_item_number
BEGIN
  SELECT RAISE(ABORT, 'credit_packs_version');
END;
--> statement-breakpoint
-- Stops a gap or a second row with one seq.
CREATE TRIGGER admin_audit_seq_gapless BEFORE INSERT ON admin_audit
WHEN new.seq <> 1 + coalesce((SELECT seq FROM admin_audit WHERE app_id = new.app_id ORDER BY seq DESC LIMIT 1), 0)
BEGIN
  SELECT RAISE(ABORT, 'admin_audit_seq_gapless');
END;
--> statement-breakpoint
-- INSERT OR REPLACE fires no DELETE trigger, so it is rejected here.
CREATE TRIGGER admin_audit_no_replace BEFORE INSERT ON admin_audit
WHEN EXISTS (SELECT 1 FROM admin_audit WHERE app_id = new.app_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'admin_audit_id');
END;
--> statement-breakpoint
-- Stops a change of what an administrator did.
CREATE TRIGGER admin_audit_frozen BEFORE UPDATE OF app_id, seq, id, at_ms, actor, action, details, account_id ON admin_audit
BEGIN
  SELECT RAISE(ABORT, 'admin_audit_append_only');
END;
--> statement-breakpoint
-- Stops a change of a target outside an erasure, or to another pseudonym.
CREATE TRIGGER admin_audit_target_erased BEFORE UPDATE OF target ON admin_audit
WHEN NOT EXISTS (
  SELECT 1 FROM erasure_names
  WHERE account_id = old.account_id AND kind = 'id' AND old_name = old.target AND new_name = new.target
)
BEGIN
  SELECT RAISE(ABORT, 'admin_audit_append_only');
END;
--> statement-breakpoint
-- Stops every DELETE.
CREATE TRIGGER admin_audit_no_delete BEFORE DELETE ON admin_audit
BEGIN
  SELECT RAISE(ABORT, 'admin_audit_append_only');
END;
--> statement-breakpoint
-- Stops two racing requests that create more endpoints than allowed (H1).
CREATE TRIGGER webhook_endpoints_limit BEFORE INSERT ON webhook_endpoints
WHEN (SELECT count(*) FROM webhook_endpoints WHERE environment_id = new.environment_id) >= 10
BEGIN
  SELECT RAISE(ABORT, 'webhook_endpoints_limit');
END;
--> statement-breakpoint
-- Stops an UPDATE that would send messages to another tenant.
CREATE TRIGGER webhook_endpoints_keep_environment BEFORE UPDATE OF id, environment_id ON webhook_endpoints
BEGIN
  SELECT RAISE(ABORT, 'webhook_endpoints_kept');
END;
--> statement-breakpoint
-- A message is the same in every attempt. An erasure deletes messages that name the person. A repeated batch changes nothing.
-- Another message with a stored id would be a replacement, which fires no DELETE trigger.
CREATE TRIGGER webhook_messages_no_replace BEFORE INSERT ON webhook_messages
WHEN EXISTS (SELECT 1 FROM webhook_messages WHERE id = new.id)
BEGIN
  SELECT iif(
    environment_id = new.environment_id AND type = new.type AND at_ms = new.at_ms AND subject IS new.subject AND data = new.data,
    RAISE(IGNORE), RAISE(ABORT, 'webhook_messages_frozen')
  ) FROM webhook_messages WHERE id = new.id;
END;
--> statement-breakpoint
-- Stops a message that differs between its attempts.
CREATE TRIGGER webhook_messages_no_update BEFORE UPDATE ON webhook_messages
BEGIN
  SELECT RAISE(ABORT, 'webhook_messages_frozen');
END;
--> statement-breakpoint
-- Notices of expiry are sent from the first endpoint on, until the last is deleted (H6).
CREATE TRIGGER webhook_endpoints_begin_notices AFTER INSERT ON webhook_endpoints
BEGIN
  INSERT INTO expiry_notices (environment_id, days, since_ms) VALUES (new.environment_id, 0, new.created_at_ms)
  ON CONFLICT (environment_id, days) DO NOTHING;
END;
--> statement-breakpoint
-- Stops notices of expiries that nobody receives.
CREATE TRIGGER webhook_endpoints_end_notices AFTER DELETE ON webhook_endpoints
WHEN NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE environment_id = old.environment_id)
BEGIN
  DELETE FROM expiry_notices WHERE environment_id = old.environment_id AND days = 0;
END;
--> statement-breakpoint
-- A test clock only moves forward (D3): the time that it was set to, the reached moment, and its distance from real time never decrease.
CREATE TRIGGER environments_clock_forward BEFORE UPDATE OF settings_snapshot ON environments
WHEN old.settings_snapshot ->> '$.clock' IS NOT NULL AND new.settings_snapshot ->> '$.clock' IS NOT NULL AND NOT (
  new.settings_snapshot ->> '$.clock.setMs' >= old.settings_snapshot ->> '$.clock.setMs'
  AND new.settings_snapshot ->> '$.clock.aheadMs' >= old.settings_snapshot ->> '$.clock.aheadMs'
  AND coalesce(new.settings_snapshot ->> '$.clock.atMs', new.settings_snapshot ->> '$.clock.setMs')
    >= coalesce(old.settings_snapshot ->> '$.clock.atMs', old.settings_snapshot ->> '$.clock.setMs')
)
BEGIN
  SELECT RAISE(ABORT, 'clock_forward');
END;
--> statement-breakpoint
-- A test clock is deleted only while no row would then be in the future.
CREATE TRIGGER environments_clock_kept BEFORE UPDATE OF settings_snapshot ON environments
WHEN old.settings_snapshot ->> '$.clock' IS NOT NULL AND new.settings_snapshot ->> '$.clock' IS NULL AND (
  EXISTS (SELECT 1 FROM accounts WHERE environment_id = new.id)
  OR EXISTS (SELECT 1 FROM distinct_ids WHERE environment_id = new.id)
  OR EXISTS (SELECT 1 FROM consent_log WHERE environment_id = new.id)
  OR EXISTS (SELECT 1 FROM payments WHERE environment_id = new.id)
)
BEGIN
  SELECT RAISE(ABORT, 'clock_kept');
END;
--> statement-breakpoint
-- The fired alerts are stored only while an endpoint is enabled (H5).
CREATE TRIGGER environments_forget_alerts AFTER UPDATE OF settings_snapshot ON environments
WHEN coalesce(old.settings_snapshot ->> 'webhooks', '[]') <> '[]' AND coalesce(new.settings_snapshot ->> 'webhooks', '[]') = '[]'
BEGIN
  DELETE FROM alert_states WHERE environment_id = new.id;
END;
--> statement-breakpoint
-- An erasure never changes, ends once when none of its ids is left, and is never deleted.
CREATE TRIGGER erasures_no_replace BEFORE INSERT ON erasures
WHEN EXISTS (SELECT 1 FROM erasures WHERE environment_id = new.environment_id AND id = new.id)
BEGIN
  SELECT RAISE(ABORT, 'erasures_kept');
END;
--> statement-breakpoint
-- Stops a change of what was requested.
CREATE TRIGGER erasures_frozen BEFORE UPDATE OF
  environment_id, id, reason, keep_consent, actor, fingerprint, started_at_ms ON erasures
BEGIN
  SELECT RAISE(ABORT, 'erasures_kept');
END;
--> statement-breakpoint
-- Stops an erasure that ends while ids are left, or ends twice.
CREATE TRIGGER erasures_end_once BEFORE UPDATE ON erasures
WHEN old.lifted_at_ms IS NOT NULL
  OR (old.completed_at_ms IS NOT NULL AND (
    new.completed_at_ms IS NOT old.completed_at_ms OR new.counts <> old.counts OR new.id_count <> old.id_count
  ))
  OR (new.completed_at_ms IS NOT NULL AND old.completed_at_ms IS NULL AND (new.is_collected = 0 OR EXISTS (
    SELECT 1 FROM erasure_ids WHERE environment_id = new.environment_id AND erasure_id = new.id
  )))
BEGIN
  SELECT RAISE(ABORT, 'erasures_kept');
END;
--> statement-breakpoint
-- Stops a DELETE of the proof that somebody was erased.
CREATE TRIGGER erasures_no_delete BEFORE DELETE ON erasures
BEGIN
  SELECT RAISE(ABORT, 'erasures_kept');
END;
--> statement-breakpoint
-- A tombstone stays until its erasure is lifted. A tombstone that only cuts may become a blocking one. It ends when something is
-- written for its id, but not while that id is being erased.
CREATE TRIGGER tombstones_no_replace BEFORE INSERT ON tombstones
WHEN EXISTS (SELECT 1 FROM tombstones WHERE environment_id = new.environment_id AND hash = new.hash)
BEGIN
  SELECT RAISE(ABORT, 'tombstones_stand');
END;
--> statement-breakpoint
-- Stops an UPDATE that would let an erased id be used again.
CREATE TRIGGER tombstones_no_update BEFORE UPDATE ON tombstones
WHEN new.environment_id <> old.environment_id OR new.hash <> old.hash OR new.erasure_id <> old.erasure_id
  OR new.blocks < old.blocks
BEGIN
  SELECT RAISE(ABORT, 'tombstones_stand');
END;
--> statement-breakpoint
-- Stops a DELETE of a blocking tombstone before its erasure is lifted.
CREATE TRIGGER tombstones_no_delete BEFORE DELETE ON tombstones
WHEN old.blocks = 1 AND NOT EXISTS (
  SELECT 1 FROM erasures
  WHERE environment_id = old.environment_id AND id = old.erasure_id AND lifted_at_ms IS NOT NULL
)
BEGIN
  SELECT RAISE(ABORT, 'tombstones_stand');
END;
--> statement-breakpoint
-- An INSERT here ends a tombstone that only cuts. A DELETE with a list would count written rows even if there is none.
CREATE VIEW tombstone_ends (environment_id, hash) AS SELECT environment_id, hash FROM tombstones WHERE blocks = 0;
--> statement-breakpoint
-- Stops a DELETE of a tombstone that blocks.
CREATE TRIGGER tombstone_ends_delete INSTEAD OF INSERT ON tombstone_ends
BEGIN
  DELETE FROM tombstones WHERE environment_id = new.environment_id AND hash = new.hash AND blocks = 0;
END;
--> statement-breakpoint
-- Stops the end of a tombstone while its id is being erased.
CREATE TRIGGER tombstones_being_erased BEFORE DELETE ON tombstones
WHEN old.blocks = 0 AND EXISTS (
  SELECT 1 FROM erasure_ids
  WHERE environment_id = old.environment_id AND erasure_id = old.erasure_id AND hash = old.hash
)
BEGIN
  SELECT RAISE(ABORT, 'tombstones_being_erased');
END;
--> statement-breakpoint
-- Only a running erasure has ids. Each has one pseudonym.
-- Looks up an id by one index at a time. With both conditions in one query, SQLite reads all ids of the environment for each new id.
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
--> statement-breakpoint
-- Stops an id that gets another pseudonym or account while pages are erased.
CREATE TRIGGER erasure_ids_frozen BEFORE UPDATE OF
  environment_id, erasure_id, position, distinct_id, hash, pseudonym, blocks, account_id ON erasure_ids
BEGIN
  SELECT RAISE(ABORT, 'erasure_ids_kept');
END;
--> statement-breakpoint
-- Stops a pseudonym of an account that is not being erased, and a second pseudonym of one name.
CREATE TRIGGER erasure_names_of_running BEFORE INSERT ON erasure_names
WHEN NOT EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = new.account_id) OR EXISTS (
  SELECT 1 FROM erasure_names WHERE account_id = new.account_id AND kind = new.kind AND old_name = new.old_name
)
BEGIN
  SELECT RAISE(ABORT, 'erasure_names_kept');
END;
--> statement-breakpoint
-- Stops a name that gets another pseudonym while pages are erased.
CREATE TRIGGER erasure_names_no_update BEFORE UPDATE ON erasure_names
BEGIN
  SELECT RAISE(ABORT, 'erasure_names_kept');
END;

-- SPDX-License-Identifier: PostgreSQL
-- The ledger's tables. They hold facts; the rules are in the functions of the files after this one.
--
-- Every file of the ledger is one transaction and takes effect once: schema_version remembers it,
-- and a second run returns at its first statement. Files run in the order of their numbers.
--
-- A duty's row also carries its newest and its previous term, so that the poll reads current rows
-- only and a fence locks one row. The table term is the history. Whoever changes a duty's row takes
-- the duty's fence exclusively first (lock_duty in 003_registry.sql). Runs, leases and what people on
-- call change live in rows of their own: neither a claim nor a pause may wait for a fence.

BEGIN;

DO $migration$
BEGIN
    -- Two installers at once: the second waits here, then finds the work done.
    PERFORM pg_catalog.pg_advisory_xact_lock(1885826148, 0);
    IF pg_catalog.to_regclass('pgleader.schema_version') IS NOT NULL THEN
        RETURN;
    END IF;

    CREATE SCHEMA IF NOT EXISTS pgleader;
    COMMENT ON SCHEMA pgleader IS
        'Terms, runs, leases and yields of duties: metadata, since authority is pg_locks';

    CREATE TABLE pgleader.schema_version (
        version      int PRIMARY KEY,
        file         text NOT NULL,
        installed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
        installed_by text NOT NULL DEFAULT CURRENT_USER
    );

    -- Bounded, so that microseconds of it always fit the poll's int8.
    CREATE DOMAIN pgleader.threshold AS interval
        CHECK (VALUE > interval '0' AND VALUE <= interval '10 years');

    CREATE TABLE pgleader.duty (
        duty_id              int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        duty                 text COLLATE "C" NOT NULL UNIQUE,
        mechanism            text NOT NULL CHECK (mechanism IN ('lock', 'lease')),
        environment          text,
        -- The key as pg_locks shows it: unsigned halves, objsubid 1 for int8 and 2 for a pair.
        key_version          int,
        lock_classid         bigint CHECK (lock_classid BETWEEN 0 AND 4294967295),
        lock_objid           bigint CHECK (lock_objid BETWEEN 0 AND 4294967295),
        lock_objsubid        int CHECK (lock_objsubid IN (1, 2)),
        -- The key that a migration is moving to: reserved, and not authority yet.
        next_key_version     int,
        next_lock_classid    bigint CHECK (next_lock_classid BETWEEN 0 AND 4294967295),
        next_lock_objid      bigint CHECK (next_lock_objid BETWEEN 0 AND 4294967295),
        next_lock_objsubid   int CHECK (next_lock_objsubid IN (1, 2)),
        lease_table          text,
        lease_row            text,
        candidate_pattern    text,
        min_candidates       int CHECK (min_candidates > 0),
        stall_after          pgleader.threshold,
        run_every            pgleader.threshold,
        takeover_slow_after  pgleader.threshold,
        wait_slow_after      pgleader.threshold,
        yieldable            boolean NOT NULL DEFAULT true,
        yield_cooldown       pgleader.threshold,
        team                 text,
        runbook              text,
        registered_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
        registered_by        text NOT NULL DEFAULT SESSION_USER,
        retired_at           timestamptz,
        -- The newest term; open while term_ended_at is NULL. No term yet: generation is NULL.
        generation           bigint,
        term_pid             int,
        term_backend_start   timestamptz,
        term_instance        text,
        term_listens         boolean,
        term_stop_within     interval,
        term_acquired_at     timestamptz,
        term_last_refused_at timestamptz,
        term_ended_at        timestamptz,
        term_end_reason      text,
        -- The term before it.
        previous_generation  bigint,
        previous_instance    text,
        previous_acquired_at timestamptz,
        previous_ended_at    timestamptz,
        previous_end_reason  text,
        CONSTRAINT duty_name CHECK (pg_catalog.octet_length(duty) <= 48
            AND duty ~ '^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$'),
        CONSTRAINT duty_authority CHECK (CASE mechanism
            WHEN 'lock' THEN pg_catalog.num_nulls(lock_classid, lock_objid, lock_objsubid) = 0
                AND lease_table IS NULL AND lease_row IS NULL
            ELSE pg_catalog.num_nulls(lease_table, lease_row) = 0
                AND pg_catalog.num_nonnulls(lock_classid, lock_objid, lock_objsubid, key_version) = 0
        END)
    );
    -- The registry names both duties of a collision before these speak; they are the last line.
    CREATE UNIQUE INDEX duty_lock ON pgleader.duty (lock_classid, lock_objid, lock_objsubid)
        WHERE retired_at IS NULL;
    CREATE UNIQUE INDEX duty_lease ON pgleader.duty (lease_table, lease_row)
        WHERE retired_at IS NULL;

    CREATE TABLE pgleader.term (
        duty_id         int NOT NULL REFERENCES pgleader.duty,
        generation      bigint NOT NULL,
        instance        text NOT NULL,
        backend_pid     int,           -- NULL for a lease: no session holds it
        backend_start   timestamptz,   -- NULL also where the ledger's owner may not read it
        listens         boolean NOT NULL,
        stop_within     interval NOT NULL,
        acquired_at     timestamptz NOT NULL,
        last_refused_at timestamptz,
        ended_at        timestamptz,   -- by the owner itself, unless end_reason is superseded
        end_reason      text,
        stopped_at      timestamptz,   -- when the owner or its guard reported that its work stopped
        PRIMARY KEY (duty_id, generation),
        CHECK ((ended_at IS NULL) = (end_reason IS NULL))
    );
    CREATE UNIQUE INDEX term_open ON pgleader.term (duty_id) WHERE ended_at IS NULL;
    CREATE INDEX term_ended ON pgleader.term (ended_at);

    -- fillfactor: advance_run changes no indexed column, so that its row versions stay on the page.
    CREATE TABLE pgleader.run (
        duty_id     int NOT NULL REFERENCES pgleader.duty,
        run_key     text NOT NULL,
        status      text NOT NULL CHECK (status IN ('running', 'partial', 'complete', 'abandoned')),
        generation  bigint NOT NULL,
        cursor      text,
        "position"  float8,            -- for graphs; what a successor goes on from is the cursor
        target      float8,
        started_at  timestamptz NOT NULL,
        claimed_at  timestamptz NOT NULL,
        advanced_at timestamptz,
        deadline_at timestamptz,
        finished_at timestamptz,
        receipt     jsonb,
        claims      int NOT NULL DEFAULT 1,
        -- What the poll reads: a duty's newest unfinished run by claim, its last complete one by end.
        place       text,
        CONSTRAINT run_pkey PRIMARY KEY (duty_id, run_key),
        CHECK ((finished_at IS NULL) = (status = 'running')),
        CHECK (CASE place WHEN 'newest' THEN status IN ('running', 'partial')
            WHEN 'last' THEN status = 'complete' ELSE place IS NULL END),
        -- Finite: NaN sorts above every number.
        CONSTRAINT run_position CHECK ("position" BETWEEN -1e308 AND 1e308),
        CONSTRAINT run_target CHECK (target BETWEEN -1e308 AND 1e308)
    ) WITH (fillfactor = 60);
    CREATE INDEX run_unfinished ON pgleader.run (duty_id, claimed_at)
        WHERE status IN ('running', 'partial');
    CREATE UNIQUE INDEX run_newest ON pgleader.run (duty_id) WHERE place = 'newest';
    CREATE UNIQUE INDEX run_last ON pgleader.run (duty_id) WHERE place = 'last';
    CREATE INDEX run_finished ON pgleader.run (finished_at) WHERE status IN ('complete', 'abandoned');

    -- The first three columns are those of the table that lease examples use: a reader of one reads both.
    CREATE TABLE pgleader.lease (
        job_name    text COLLATE "C" PRIMARY KEY REFERENCES pgleader.duty (duty),
        holder      text NOT NULL,
        expires_at  timestamptz NOT NULL,
        generation  bigint NOT NULL,
        acquired_at timestamptz NOT NULL,
        renewed_at  timestamptz NOT NULL
    ) WITH (fillfactor = 50);

    CREATE TABLE pgleader.yield (
        intent        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        duty_id       int NOT NULL REFERENCES pgleader.duty,
        generation    bigint NOT NULL,
        pid           int,
        backend_start timestamptz,
        instance      text NOT NULL,
        reason        text NOT NULL,
        overrides     text[] NOT NULL DEFAULT '{}',
        requested_by  text NOT NULL DEFAULT SESSION_USER,
        requested_at  timestamptz NOT NULL,
        requested_xid bigint NOT NULL DEFAULT pg_catalog.txid_current(),
        grace         interval NOT NULL,
        expires_at    timestamptz NOT NULL,
        used_at       timestamptz,
        used_by       text,
        signalled     boolean,
        outcome       text CHECK (outcome IN
            ('moved', 'returned', 'vacant', 'not-confirmed', 'unknown', 'refused')),
        outcome_at    timestamptz,
        outcome_by    text
    );
    CREATE INDEX yield_newest ON pgleader.yield (duty_id, intent);
    CREATE UNIQUE INDEX yield_open ON pgleader.yield (duty_id) WHERE outcome IS NULL;
    CREATE INDEX yield_requested ON pgleader.yield (requested_at);

    -- What people on call change of a duty. Operators queue on this row; the duty's own is the
    -- fences'. The counters are outcomes of yields ever recorded: pruning the audit never lowers them.
    CREATE TABLE pgleader.on_call (
        duty_id             int PRIMARY KEY REFERENCES pgleader.duty,
        alerts_paused_until timestamptz CHECK (pg_catalog.isfinite(alerts_paused_until)),
        moved               bigint NOT NULL DEFAULT 0,
        returned            bigint NOT NULL DEFAULT 0,
        vacant              bigint NOT NULL DEFAULT 0,
        not_confirmed       bigint NOT NULL DEFAULT 0,
        unknown             bigint NOT NULL DEFAULT 0,
        refused             bigint NOT NULL DEFAULT 0
    );

    -- True when the file has to run; the caller's transaction then holds the installers' lock.
    CREATE FUNCTION pgleader.begin_migration(version int, file text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        installed int;
    BEGIN
        PERFORM pg_advisory_xact_lock(1885826148, 0);
        SELECT max(v.version) INTO STRICT installed FROM pgleader.schema_version v;
        IF installed >= version THEN
            RETURN false;
        ELSIF installed < version - 1 THEN
            RAISE EXCEPTION 'could not install %: this ledger is of version %', file, installed
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Run the files of the ledger in the order of their numbers.';
        END IF;
        INSERT INTO pgleader.schema_version (version, file)
        VALUES (begin_migration.version, begin_migration.file);
        RETURN true;
    END
    $function$;
    REVOKE ALL ON FUNCTION pgleader.begin_migration(int, text) FROM PUBLIC;

    INSERT INTO pgleader.schema_version (version, file) VALUES (1, '001_schema.sql');
END
$migration$;

COMMIT;

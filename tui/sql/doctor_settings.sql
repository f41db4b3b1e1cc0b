-- SPDX-License-Identifier: PostgreSQL
-- What a new session of each role that is here would have of these settings: the role's in this database, else
-- the role's, the database's, everybody's, the server's. What a session then sets itself nobody else can see.
-- Columns: role name, name text, value float8 (milliseconds, or a count; NULL where it cannot be read)
WITH names (name, scale) AS (
    VALUES ('tcp_user_timeout', 1), ('tcp_keepalives_idle', 1000), ('tcp_keepalives_interval', 1000),
        ('tcp_keepalives_count', 1), ('client_connection_check_interval', 1), ('idle_session_timeout', 1),
        ('idle_in_transaction_session_timeout', 1), ('transaction_timeout', 1), ('deadlock_timeout', 1)
), here AS (
    SELECT a.datid FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
), roles AS (
    SELECT r.oid, r.rolname FROM pg_catalog.pg_roles AS r
    WHERE r.rolname = SESSION_USER OR r.oid IN (
        SELECT s.usesysid FROM pg_catalog.pg_stat_get_activity(NULL) AS s, here WHERE s.datid = here.datid)
), overrides AS (
    SELECT d.setrole, d.setdatabase, pg_catalog.split_part(c, '=', 1) AS name,
        pg_catalog.substr(c, pg_catalog.strpos(c, '=') + 1) AS value
    FROM pg_catalog.pg_db_role_setting AS d, here, pg_catalog.unnest(d.setconfig) AS c
    WHERE d.setdatabase IN (0, here.datid)
), effective AS (
    SELECT r.rolname, n.name, n.scale, coalesce(
        (SELECT o.value FROM overrides AS o WHERE o.name = n.name AND o.setrole IN (0, r.oid)
            ORDER BY o.setrole = 0, o.setdatabase = 0 LIMIT 1),
        -- our own session's overrides are not the server's; a keepalive of 0 is the operating system's
        CASE WHEN s.source IN ('global', 'database', 'user', 'database user', 'client', 'session') THEN s.boot_val
            WHEN s.name LIKE 'tcp\_keepalives%' AND s.reset_val = '0' THEN s.setting
            ELSE s.reset_val END) AS value
    FROM roles AS r, names AS n JOIN pg_catalog.pg_settings AS s ON s.name = n.name
)
SELECT e.rolname AS role, e.name,
    CASE WHEN e.value ~ '^\s*[0-9.]+\s*$' THEN e.value::float8 * e.scale
        WHEN e.value ~ '^\s*[0-9.]+\s*(us|ms|s|min|h|d)\s*$'
            THEN pg_catalog.date_part('epoch', e.value::interval) * 1000 END AS value
FROM effective AS e
